"""Memberships over REST."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import RestView, body_of
from sessions_app.api.kinds import memberships as operations
from sessions_app.api.kinds.memberships import MembershipChange, MembershipCreate
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.render.tenant_render import membership_json
from sessions_app.api.requests.filters import MembershipFilter
from sessions_app.api.requests.queries import query_of
from sessions_app.api.shapes import tenant_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.selectors.tenants import membership_get, memberships_visible


class MembershipsView(RestView):
    """`/memberships/`."""

    actions: ClassVar = {"GET": Action.MEMBERSHIP_LIST, "POST": Action.MEMBERSHIP_WRITE}

    @extend_schema(
        operation_id="memberships_list",
        parameters=query_parameters(MembershipFilter),
        responses=shapes.MembershipPage,
    )
    def get(self, request: Request) -> Response:
        """List the memberships of the projects and domains that you may see, oldest first."""
        wanted = query_of(MembershipFilter, request.query_params)
        rows = wanted.apply(self.actor, memberships_visible(self.actor))
        return RowCursor("id").answer(rows, request, membership_json)

    @extend_schema(
        operation_id="memberships_create",
        request=MembershipCreate,
        responses={201: shapes.Membership},
    )
    def post(self, request: Request) -> Response:
        """Give a user a role."""
        made = operations.create(self.actor, body_of(request))
        return self.created(membership_json(made), f"{made.pk}/")


class MembershipView(RestView):
    """`/memberships/{id}/`."""

    actions: ClassVar = {
        "GET": Action.MEMBERSHIP_READ,
        "PATCH": Action.MEMBERSHIP_WRITE,
        "DELETE": Action.MEMBERSHIP_WRITE,
    }

    @extend_schema(operation_id="membership_read", responses=shapes.Membership)
    def get(self, request: Request, membership_id: int) -> Response:
        """One membership."""
        found = membership_get(self.actor, membership_id, self.required_action)
        return Response(membership_json(found))

    @extend_schema(
        operation_id="membership_change", request=MembershipChange, responses=shapes.Membership
    )
    def patch(self, request: Request, membership_id: int) -> Response:
        """Change the role of a membership."""
        found = operations.change(self.actor, membership_id, body_of(request))
        return Response(membership_json(found))

    @extend_schema(operation_id="membership_delete", responses={204: None})
    def delete(self, request: Request, membership_id: int) -> Response:
        """Remove a membership, effective with the user's next request."""
        operations.delete(self.actor, membership_id)
        return Response(status=204)
