"""Named policies over REST, as JSON or YAML documents."""

from typing import Annotated, ClassVar

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import policies as operations
from interfaces.http.documents import JSONDocumentParser, YAMLDocumentParser, YAMLRenderer
from interfaces.http.paging import RowCursor
from interfaces.http.preconditions import IF_MATCH, etag, expected_of
from interfaces.http.views import RestView, body_of
from interfaces.openapi.generator import query_parameters
from interfaces.render.policy_render import policies_json, revision_json
from interfaces.requests.filters import PolicyFilter, ScopeQuery
from interfaces.requests.queries import query_of
from interfaces.shapes import policy_shapes as shapes
from sessions_app.authorization import Action, Actor
from sessions_app.selectors.policies import policies_visible, policy_get, revisions_of
from sessions_app.services.resources.policies import Applied, policy_version


class PageQuery(ScopeQuery):
    """A scope and a page."""

    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50


class DocumentView(RestView):
    """The base of views that read and answer JSON or YAML."""

    parser_classes = (JSONDocumentParser, YAMLDocumentParser)
    renderer_classes = (JSONRenderer, YAMLRenderer)


class PoliciesView(DocumentView):
    """`/retry-policies/`."""

    actions: ClassVar = {"GET": Action.POLICY_READ, "POST": Action.POLICY_WRITE}
    asks_when_writing = True

    @extend_schema(
        operation_id="retry_policies_list",
        parameters=query_parameters(PolicyFilter),
        responses=shapes.PolicyPage,
    )
    def get(self, request: Request) -> Response:
        """List the policies that apply to what you may see, oldest first."""
        wanted = query_of(PolicyFilter, request.query_params)
        paginator = RowCursor("id")
        page = paginator.read(wanted.apply(self.actor, policies_visible(self.actor)), request)
        return paginator.get_paginated_response(policies_json(self.actor, page))

    @extend_schema(
        operation_id="retry_policies_create",
        parameters=query_parameters(ScopeQuery),
        request=shapes.PolicyBody,
        responses={201: shapes.Policy},
    )
    def post(self, request: Request) -> Response:
        """Create a policy. The scope is given in the document, in the address, or in both."""
        scope = query_of(ScopeQuery, request.query_params)
        made = operations.create(self.actor, scope, body_of(request))
        return _applied(self.actor, made, request.build_absolute_uri(_address(made)))


class PolicyView(DocumentView):
    """`/retry-policies/{name}/`."""

    actions: ClassVar = {
        "GET": Action.POLICY_READ,
        "PUT": Action.POLICY_WRITE,
        "DELETE": Action.POLICY_WRITE,
    }
    asks_when_writing = True

    @extend_schema(
        operation_id="retry_policy_read",
        parameters=query_parameters(ScopeQuery),
        responses=shapes.Policy,
    )
    def get(self, request: Request, name: str) -> Response:
        """The current revision of a policy. Without `status` it can be sent with `PUT`."""
        scope = query_of(ScopeQuery, request.query_params)
        policy = policy_get(self.actor, name, *scope.names)
        (body,) = policies_json(self.actor, [policy])
        return Response(body, headers=etag(policy_version(policy)))

    @extend_schema(
        operation_id="retry_policy_apply",
        parameters=[*query_parameters(ScopeQuery), IF_MATCH],
        request=shapes.PolicyBody,
        responses={200: shapes.Policy, 201: shapes.Policy},
    )
    def put(self, request: Request, name: str) -> Response:
        """Create a policy or a new revision of it. An equal document changes nothing."""
        scope, expected = query_of(ScopeQuery, request.query_params), expected_of(request)
        made = operations.apply(self.actor, name, scope, body_of(request), expected)
        return _applied(self.actor, made, request.build_absolute_uri())

    @extend_schema(
        operation_id="retry_policy_delete",
        parameters=[*query_parameters(ScopeQuery), IF_MATCH],
        responses={200: shapes.PolicyDeleted},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a policy that nothing uses. If unfinished chains still need it, it is archived."""
        scope, expected = query_of(ScopeQuery, request.query_params), expected_of(request)
        outcome = operations.delete(self.actor, name, scope, expected)
        return Response({"outcome": outcome})


class RevisionsView(DocumentView):
    """`/retry-policies/{name}/revisions/`."""

    actions: ClassVar = {"GET": Action.POLICY_READ}

    @extend_schema(
        operation_id="retry_policy_revisions",
        parameters=query_parameters(PageQuery),
        responses=shapes.RevisionPage,
    )
    def get(self, request: Request, name: str) -> Response:
        """The revisions of a policy, newest first."""
        wanted = query_of(PageQuery, request.query_params)
        policy = policy_get(self.actor, name, *wanted.names)
        return RowCursor("-revision").answer(revisions_of(policy), request, revision_json)


def _address(made: Applied) -> str:
    policy = made.policy
    if policy.project is not None:
        return f"{policy.name}/?project={policy.project.address}"
    return f"{policy.name}/?domain={policy.domain.name}" if policy.domain else f"{policy.name}/"


def _applied(actor: Actor, made: Applied, location: str) -> Response:
    (body,) = policies_json(actor, [made.policy], made.ignored)
    headers = etag(policy_version(made.policy))
    if made.created:
        return Response(body, status=201, headers={**headers, "Location": location})
    return Response(body, headers=headers)
