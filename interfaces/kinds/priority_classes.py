"""Priority classes."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from interfaces.kinds.resource import Call, Listing, Resource
from interfaces.render.policy_render import priority_classes_json
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from interfaces.shapes import policy_shapes as shapes
from retry.policies.fields import Label
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import Conflict, InvalidInput
from sessions_app.core.priorities import MOST_RANK
from sessions_app.core.versions import Expected
from sessions_app.models import PriorityClass
from sessions_app.selectors.priority_classes import priority_class_get, priority_classes_listed
from sessions_app.services.resources.priority_classes import (
    priority_class_change,
    priority_class_create,
    priority_class_delete,
    priority_class_version,
)

Value = Annotated[StrictInt, Field(ge=-MOST_RANK, le=MOST_RANK), WHOLE]
Seconds = Annotated[StrictFloat, Field(ge=0, le=1e9)]
Names = Annotated[
    list[Annotated[StrictStr, Field(min_length=1, max_length=127)]], Field(max_length=1000)
]


class PriorityClassBody(StrictModel):
    """A priority class. What is left out is as shown here."""

    name: Label
    value: Value
    preemptible: StrictBool = True
    may_preempt: StrictBool = False
    protected_for: Seconds = 0.0
    domains: Names = []
    projects: Names = []

    @property
    def fields(self) -> dict[str, Any]:
        """Return all but the name and the value."""
        return self.model_dump(exclude={"name", "value"})


class PriorityClassChanges(StrictModel):
    """The fields that `PATCH` may change."""

    value: Value | None = None
    """It never changes; here it may only be what it is."""
    preemptible: StrictBool | None = None
    may_preempt: StrictBool | None = None
    protected_for: Seconds | None = None
    domains: Names | None = None
    projects: Names | None = None


def create(actor: Actor, body: Mapping[str, Any]) -> PriorityClass:
    """Create a priority class."""
    authorize(actor, Action.PRIORITY_CLASS_WRITE)
    asked = PriorityClassBody.model_validate(body)
    return priority_class_create(asked.name, asked.value, asked.fields, by=actor.name)


def put(
    actor: Actor, name: str, body: Mapping[str, Any], expected: Expected | None
) -> tuple[PriorityClass, bool]:
    """Create or replace a class, and return whether it was created."""
    authorize(actor, Action.PRIORITY_CLASS_WRITE)
    asked = PriorityClassBody.model_validate({"name": name, **body})
    if asked.name != name:
        raise InvalidInput({"name": [f"must be {name!r}, as in the address"]})
    if expected is None:
        try:
            made = priority_class_create(asked.name, asked.value, asked.fields, by=actor.name)
        except Conflict as error:
            errors: Any = error.extra["errors"]
            if "name" not in errors:
                raise
        else:
            return made, True
    changed = priority_class_change(
        name, asked.fields, value=asked.value, by=actor.name, expected=expected
    )
    return changed, False


def change(
    actor: Actor, name: str, body: Mapping[str, Any], expected: Expected | None
) -> PriorityClass:
    """Change some fields."""
    authorize(actor, Action.PRIORITY_CLASS_WRITE)
    asked = PriorityClassChanges.model_validate(body)
    fields = asked.model_dump(exclude={"value"}, exclude_none=True)
    return priority_class_change(name, fields, value=asked.value, by=actor.name, expected=expected)


def delete(actor: Actor, name: str, expected: Expected | None) -> None:
    """Delete a class that nothing which waits or runs has."""
    authorize(actor, Action.PRIORITY_CLASS_WRITE)
    priority_class_delete(name, by=actor.name, expected=expected)


PRIORITY_CLASS = Resource(
    name="priority_class",
    many="priority_classes",
    address="priority-classes",
    place="<str:name>",
    at=attrgetter("name"),
    shape=shapes.PriorityClass,
    page=shapes.PriorityClassPage,
    render=priority_classes_json,
    version=priority_class_version,
    listing=Listing(
        Action.PRIORITY_CLASS_READ,
        "List the priority classes, lowest value first.",
        priority_classes_listed,
        ["value"],
    ),
    read=Call(Action.PRIORITY_CLASS_READ, "One priority class.", priority_class_get),
    create=Call(Action.PRIORITY_CLASS_WRITE, "Create a priority class.", create, PriorityClassBody),
    put=Call(
        Action.PRIORITY_CLASS_WRITE,
        "Create or replace a priority class.",
        put,
        PriorityClassBody,
        creates=True,
    ),
    patch=Call(
        Action.PRIORITY_CLASS_WRITE,
        "Change some fields. The name and the value stay, since sessions have them.",
        change,
        PriorityClassChanges,
    ),
    delete=Call(
        Action.PRIORITY_CLASS_WRITE,
        "Delete a class that no session which waits or runs has. Ended ones then show no class.",
        delete,
    ),
)
