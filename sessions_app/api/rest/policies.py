"""Named policies over REST, as JSON or YAML documents."""

from typing import Annotated, ClassVar

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from retry.rules import PolicyDocument
from sessions_app.api import policy_responses as shapes
from sessions_app.api.documents import JSONDocumentParser, YAMLDocumentParser, YAMLRenderer
from sessions_app.api.filters import Text, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import RowCursor
from sessions_app.api.policy_render import policies_json, revision_json
from sessions_app.api.preconditions import IF_MATCH, etag, expected_of
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.errors import InvalidInput, NotFound
from sessions_app.models import RetryPolicyRevision
from sessions_app.policy_selectors import policies_of, policies_visible, policy_get
from sessions_app.selectors import domain_get, project_get
from sessions_app.services.policies import Applied, policy_apply, policy_delete, policy_version
from sessions_app.services.retry_config import ConfigScope


class ScopeQuery(BaseModel):
    """Which scope is meant: a project (`domain/name`), a domain, or else the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    domain: Text | None = None
    project: Text | None = None

    @field_validator("project")
    @classmethod
    def _in_a_domain(cls, value: str | None, info: ValidationInfo) -> str | None:
        domain, slash, _ = (value or "").partition("/")
        given = info.data.get("domain")
        if value is not None and not slash and given is None:
            raise ValueError("must be written 'domain/name', or given with its domain")
        if slash and given not in {None, domain}:
            raise ValueError(f"is in domain {domain}, not in the one that is given")
        return value

    @property
    def names(self) -> tuple[str | None, str | None]:
        """The domain and the project."""
        if self.project is None:
            return self.domain, None
        domain, slash, name = self.project.partition("/")
        return (domain, name) if slash else (self.domain, self.project)


class PolicyFilter(ScopeQuery):
    """The filters of `GET /retry-policies/`; without a scope those of all scopes."""

    archived: bool = False
    """Those that only unfinished chains name, in place of the others."""
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50


class PageQuery(ScopeQuery):
    """As `ScopeQuery`, and the page."""

    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50


class DocumentView(RestView):
    """Reads and answers JSON or YAML."""

    parser_classes = (JSONDocumentParser, YAMLDocumentParser)
    renderer_classes = (JSONRenderer, YAMLRenderer)


class PoliciesView(DocumentView):
    """`/retry-policies/`."""

    actions: ClassVar = {"GET": Action.POLICY_READ, "POST": Action.POLICY_WRITE}

    @extend_schema(
        operation_id="retry_policies_list",
        parameters=query_parameters(PolicyFilter),
        responses=shapes.PolicyPage,
    )
    def get(self, request: Request) -> Response:
        """List the policies within reach of what one may see, oldest first."""
        wanted = query_of(PolicyFilter, request.query_params)
        policies = policies_visible(self.actor).filter(archived_at__isnull=not wanted.archived)
        if wanted.names != (None, None):
            policies = policies_of(policies, *wanted.names)
        paginator = RowCursor("id")
        page = paginator.read(policies, request)
        return paginator.get_paginated_response(policies_json(self.actor, page))

    @extend_schema(
        operation_id="retry_policies_create",
        parameters=query_parameters(ScopeQuery),
        request=shapes.PolicyBody,
        responses={201: shapes.Policy},
    )
    def post(self, request: Request) -> Response:
        """Make a policy. Its scope is in the document, the address, or both."""
        made = _apply(self, request, create=True)
        return _applied(self.actor, made, request.build_absolute_uri(_address(made)))


class PolicyView(DocumentView):
    """`/retry-policies/{name}/`."""

    actions: ClassVar = {
        "GET": Action.POLICY_READ,
        "PUT": Action.POLICY_WRITE,
        "DELETE": Action.POLICY_WRITE,
    }

    @extend_schema(
        operation_id="retry_policy_read",
        parameters=query_parameters(ScopeQuery),
        responses=shapes.Policy,
    )
    def get(self, request: Request, name: str) -> Response:
        """A policy as it decides now; without its `status` it is what `PUT` takes."""
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
        """Make a policy, or a new revision of it; the same again changes nothing."""
        made = _apply(self, request, name=name)
        return _applied(self.actor, made, request.build_absolute_uri())

    @extend_schema(
        operation_id="retry_policy_delete",
        parameters=[*query_parameters(ScopeQuery), IF_MATCH],
        responses=shapes.PolicyDeleted,
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a policy that nothing names; one that chains still need is archived."""
        names = query_of(ScopeQuery, request.query_params).names
        scope = _scope(self.actor, self.required_action, *names)
        expected = expected_of(request)
        outcome = policy_delete(name, scope, by=self.actor.name, expected=expected)
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
        """What a policy has said, newest first."""
        wanted = query_of(PageQuery, request.query_params)
        policy = policy_get(self.actor, name, *wanted.names)
        paginator = RowCursor("-revision")
        page = paginator.read(RetryPolicyRevision.objects.filter(policy=policy), request)
        return paginator.get_paginated_response([revision_json(each) for each in page])


def _apply(
    view: RestView, request: Request, *, name: str | None = None, create: bool = False
) -> Applied:
    asked = query_of(ScopeQuery, request.query_params).names
    # What `GET` answers may be sent back: its status says nothing about what is wanted.
    sent = {key: value for key, value in body_of(request).items() if key != "status"}
    document = PolicyDocument.model_validate(sent)
    told = document.metadata
    if name is not None and told.name != name:
        raise InvalidInput({"metadata.name": [f"must be {name!r}, as in the address"]})
    if asked == (None, None):
        scope = _scope_told(view, told.domain, told.project)
    else:
        scope = _scope(view.actor, view.required_action, *asked)
    expected = None if create else expected_of(request)
    return policy_apply(document, scope, by=view.actor.name, create=create, expected=expected)


def _scope(actor: Actor, action: Action, domain: str | None, project: str | None) -> ConfigScope:
    """The scope that an address names, if the actor may do this in it."""
    if project is not None:
        return ConfigScope(project=project_get(actor, domain or "", project, action))
    if domain is not None:
        return ConfigScope(domain=domain_get(actor, domain, action))
    authorize(actor, action)
    return ConfigScope()


def _scope_told(view: RestView, domain: str | None, project: str | None) -> ConfigScope:
    """As `_scope`, of the names in a document: they are fields, and not what is looked for."""
    try:
        return _scope(view.actor, view.required_action, domain, project)
    except NotFound as error:
        field = "metadata.domain" if project is None else "metadata.project"
        raise InvalidInput({field: [error.detail]}) from None


def _address(made: Applied) -> str:
    policy = made.policy
    if policy.project is not None:
        return f"{policy.name}/?project={policy.project.address}"
    return f"{policy.name}/?domain={policy.domain.name}" if policy.domain else f"{policy.name}/"


def _applied(actor: Actor, made: Applied, location: str) -> Response:
    (body,) = policies_json(actor, [made.policy])
    headers = etag(policy_version(made.policy))
    if made.created:
        return Response(body, status=201, headers={**headers, "Location": location})
    return Response(body, headers=headers)
