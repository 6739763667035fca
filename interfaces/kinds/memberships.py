"""Memberships."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StrictStr

from interfaces.kinds.resource import Call, Listing, Resource, each
from interfaces.render.tenant_render import membership_json
from interfaces.requests.bodies import ProjectAddress
from interfaces.requests.filters import AnyCaseRole, MembershipFilter
from interfaces.requests.strict import StrictModel
from interfaces.shapes import tenant_shapes as shapes
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.models import Membership
from sessions_app.selectors.sessions import project_resolve
from sessions_app.selectors.tenants import (
    domain_named,
    membership_get,
    memberships_visible,
    user_named,
)
from sessions_app.services.resources.tenants import membership_delete, membership_save


class MembershipChange(StrictModel):
    """The fields that `PATCH` may change."""

    role: AnyCaseRole


class MembershipCreate(MembershipChange):
    """The body of `POST /memberships/`. It names a project or a domain, not both."""

    user: Annotated[StrictStr, Field(min_length=1, max_length=150)]
    """The user's name."""
    domain: Annotated[StrictStr, Field(min_length=1, max_length=63)] | None = None
    project: ProjectAddress | None = None
    """`domain/name`."""

    def place(self, actor: Actor, action: Action) -> dict[str, Any]:
        """Return the place of the role, if the caller may give roles there."""
        if (self.domain is None) == (self.project is None):
            raise InvalidInput({"project": ["give either a domain or a project"]})
        if self.domain is not None:
            return {"domain": domain_named(actor, self.domain, action)}
        return {"project": project_resolve(actor, self.project, action)}


def create(actor: Actor, body: Mapping[str, Any]) -> Membership:
    """Give a user a role."""
    asked = MembershipCreate.model_validate(body)
    place = asked.place(actor, Action.MEMBERSHIP_WRITE)
    made = Membership(user=user_named(asked.user), role=asked.role.value, **place)
    membership_save(made, by=actor.name)
    return made


def change(actor: Actor, key: int, body: Mapping[str, Any]) -> Membership:
    """Change the role in the same place."""
    found = membership_get(actor, key, Action.MEMBERSHIP_WRITE)
    found.role = MembershipChange.model_validate(body).role.value
    membership_save(found, by=actor.name)
    return found


def delete(actor: Actor, key: int) -> None:
    """Remove a membership, effective with the user's next request."""
    membership_delete(membership_get(actor, key, Action.MEMBERSHIP_WRITE), by=actor.name)


MEMBERSHIP = Resource(
    name="membership",
    many="memberships",
    address="memberships",
    place="<int:membership_id>",
    shape=shapes.Membership,
    page=shapes.MembershipPage,
    render=each(membership_json),
    listing=Listing(
        Action.MEMBERSHIP_LIST,
        "List the memberships of the projects and domains that you may see, oldest first.",
        memberships_visible,
        ["id"],
        MembershipFilter,
    ),
    read=Call(Action.MEMBERSHIP_READ, "One membership.", membership_get),
    create=Call(Action.MEMBERSHIP_WRITE, "Give a user a role.", create, MembershipCreate),
    patch=Call(
        Action.MEMBERSHIP_WRITE, "Change the role of a membership.", change, MembershipChange
    ),
    delete=Call(
        Action.MEMBERSHIP_WRITE,
        "Remove a membership, effective with the user's next request.",
        delete,
    ),
)
