"""Failure categories."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field, StrictInt

from interfaces.kinds.resource import Call, Listing, Resource, each
from interfaces.render.policy_render import category_json
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from interfaces.shapes import policy_shapes as shapes
from retry.policies.categories import CategoryMatchers
from retry.policies.categories import FailureCategory as CategoryDocument
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import Conflict, InvalidInput
from sessions_app.core.versions import Expected
from sessions_app.models import FailureCategory
from sessions_app.selectors.policies import categories_listed, category_get, category_named
from sessions_app.services.resources.categories import (
    category_change,
    category_create,
    category_delete,
    category_version,
)

Position = Annotated[StrictInt, Field(ge=-(2**31), lt=2**31), WHOLE]


class CategoryBody(CategoryDocument):
    """A failure category. Without `position`, a new category comes last and an existing one stays
    where it is."""

    position: Position | None = None

    @property
    def category(self) -> CategoryDocument:
        """Return the category without the position."""
        return CategoryDocument(name=self.name, matchers=self.matchers)


class CategoryChanges(StrictModel):
    """The fields that `PATCH` may change. The name stays, since rules refer to it."""

    position: Position | None = None
    matchers: CategoryMatchers | None = None


def create(actor: Actor, body: Mapping[str, Any]) -> FailureCategory:
    """Create a failure category."""
    authorize(actor, Action.CATEGORY_WRITE)
    asked = CategoryBody.model_validate(body)
    return category_create(asked.category, position=asked.position, by=actor.name)


def put(
    actor: Actor, name: str, body: Mapping[str, Any], expected: Expected | None
) -> tuple[FailureCategory, bool]:
    """Create or replace a category, and return whether it was created."""
    authorize(actor, Action.CATEGORY_WRITE)
    asked = CategoryBody.model_validate({"name": name, **body})
    if asked.name != name:
        raise InvalidInput({"name": [f"must be {name!r}, as in the address"]})
    if expected is None:
        try:
            return category_create(asked.category, position=asked.position, by=actor.name), True
        except Conflict:
            pass  # it exists and will be replaced
    changed = category_change(
        name, document=asked.category, position=asked.position, by=actor.name, expected=expected
    )
    return changed, False


def change(
    actor: Actor, name: str, body: Mapping[str, Any], expected: Expected | None
) -> FailureCategory:
    """Change the position, the matchers, or both."""
    authorize(actor, Action.CATEGORY_WRITE)
    asked = CategoryChanges.model_validate(body)
    document = (
        None
        if asked.matchers is None
        else CategoryDocument(name=category_named(name).name, matchers=asked.matchers)
    )
    return category_change(
        name, document=document, position=asked.position, by=actor.name, expected=expected
    )


def delete(actor: Actor, name: str, expected: Expected | None) -> None:
    """Delete a category. Rules that ask for it no longer match."""
    authorize(actor, Action.CATEGORY_WRITE)
    category_delete(name, by=actor.name, expected=expected)


CATEGORY = Resource(
    name="failure_category",
    many="failure_categories",
    address="failure-categories",
    place="<str:name>",
    at=attrgetter("name"),
    shape=shapes.Category,
    page=shapes.CategoryPage,
    render=each(category_json),
    version=category_version,
    listing=Listing(
        Action.CATEGORY_READ,
        "List the failure categories in the order in which they are tried.",
        categories_listed,
        ["position", "name"],
        unique=False,
    ),
    read=Call(Action.CATEGORY_READ, "One failure category.", category_get),
    create=Call(Action.CATEGORY_WRITE, "Create a failure category.", create, CategoryBody),
    put=Call(
        Action.CATEGORY_WRITE,
        "Create or replace a failure category.",
        put,
        CategoryBody,
        creates=True,
    ),
    patch=Call(
        Action.CATEGORY_WRITE,
        "Change the position, the matchers, or both.",
        change,
        CategoryChanges,
    ),
    delete=Call(
        Action.CATEGORY_WRITE,
        "Delete a failure category. Rules that name it no longer match.",
        delete,
    ),
)
