"""Who works where, and as what, over REST."""

from typing import Annotated, Any, ClassVar

from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import tenant_responses as shapes
from sessions_app.api.filters import PageQuery, Text, of_project, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import RowCursor
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action, Actor
from sessions_app.errors import InvalidInput
from sessions_app.models import Membership
from sessions_app.models.tenants import Role
from sessions_app.selectors import project_resolve
from sessions_app.services.tenants import membership_delete, membership_save
from sessions_app.tenant_selectors import domain_named, membership_get, memberships_visible


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


AnyCaseRole = Annotated[Role, BeforeValidator(_lower)]


class MembershipChange(BaseModel):
    """What `PATCH` may change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: AnyCaseRole


class MembershipCreate(MembershipChange):
    """The body of `POST /memberships/`: a project or a domain, and not both."""

    user: Annotated[StrictStr, Field(min_length=1, max_length=150)]
    """The user's name."""
    domain: Annotated[StrictStr, Field(min_length=1, max_length=63)] | None = None
    project: Annotated[StrictStr, Field(min_length=1, max_length=127)] | None = None
    """`domain/name`."""

    def place(self, actor: Actor, action: Action) -> dict[str, Any]:
        """Where the role is for, if the actor may give roles there."""
        if (self.domain is None) == (self.project is None):
            raise InvalidInput({"project": ["give a domain or a project, and not both"]})
        if self.domain is not None:
            return {"domain": domain_named(actor, self.domain, action)}
        return {"project": project_resolve(actor, self.project, action)}


class MembershipFilter(PageQuery):
    """The filters of `GET /memberships/`."""

    user: Text | None = None
    role: AnyCaseRole | None = None
    domain: Text | None = None
    """Roles in the domain itself."""
    project: Text | None = None
    """Roles in the project (`domain/name`) itself."""

    def conditions(self) -> dict[str, Any]:
        """What the memberships have to be."""
        found = {"user__username": self.user, "role": self.role, "domain__name": self.domain}
        if self.project is not None:
            found |= of_project(self.project)
        return {field: value for field, value in found.items() if value is not None}


class MembershipsView(RestView):
    """`/memberships/`."""

    actions: ClassVar = {"GET": Action.MEMBERSHIP_LIST, "POST": Action.MEMBERSHIP_WRITE}

    @extend_schema(
        operation_id="memberships_list",
        parameters=query_parameters(MembershipFilter),
        responses=shapes.MembershipPage,
    )
    def get(self, request: Request) -> Response:
        """List who works in the projects and domains that one may see, oldest first."""
        wanted = query_of(MembershipFilter, request.query_params)
        paginator = RowCursor("id")
        rows = memberships_visible(self.actor).filter(**wanted.conditions())
        page = paginator.read(rows, request)
        return paginator.get_paginated_response([membership_json(each) for each in page])

    @extend_schema(
        operation_id="memberships_create",
        request=MembershipCreate,
        responses={201: shapes.Membership},
    )
    def post(self, request: Request) -> Response:
        """Give somebody a role."""
        asked = MembershipCreate.model_validate(body_of(request))
        place = asked.place(self.actor, self.required_action)
        made = Membership(user=_user(asked.user), role=asked.role.value, **place)
        membership_save(made, by=self.actor.name)
        return self.created(membership_json(made), f"{made.pk}/")


class MembershipView(RestView):
    """`/memberships/{id}/`."""

    actions: ClassVar = {
        "GET": Action.MEMBERSHIP_READ,
        "PATCH": Action.MEMBERSHIP_WRITE,
        "DELETE": Action.MEMBERSHIP_WRITE,
    }

    @extend_schema(operation_id="membership_read", responses=shapes.Membership)
    def get(self, request: Request, membership_id: int) -> Response:  # noqa: ARG002
        """One membership."""
        return Response(membership_json(self._membership(membership_id)))

    @extend_schema(
        operation_id="membership_change", request=MembershipChange, responses=shapes.Membership
    )
    def patch(self, request: Request, membership_id: int) -> Response:
        """Give another role in the same place."""
        found = self._membership(membership_id)
        found.role = MembershipChange.model_validate(body_of(request)).role.value
        membership_save(found, by=self.actor.name)
        return Response(membership_json(found))

    @extend_schema(operation_id="membership_delete", responses={204: None})
    def delete(self, request: Request, membership_id: int) -> Response:  # noqa: ARG002
        """Take the role away, effective with the next request."""
        membership_delete(self._membership(membership_id), by=self.actor.name)
        return Response(status=204)

    def _membership(self, key: int) -> Membership:
        return membership_get(self.actor, key, self.required_action)


def _user(name: str) -> User:
    """Somebody who can sign in; raises `InvalidInput`."""
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        raise InvalidInput({"user": [f"no active user {name}"]})
    return found


def membership_json(membership: Membership) -> dict[str, Any]:
    """A membership, which comes with its user and its place."""
    return {
        "id": membership.pk,
        "user": membership.user.username,
        "role": membership.role,
        "domain": membership.domain.name if membership.domain else None,
        "project": membership.project.address if membership.project else None,
    }
