"""The root fields of domains, projects, memberships, tokens, quotas and the caller."""

from typing import Any

import graphene

from sessions_app.api.graphql.connections import Page, connection_to, one, page_of, pages
from sessions_app.api.graphql.context import actor_of
from sessions_app.api.graphql.enums import Role
from sessions_app.api.graphql.errors import read_arguments
from sessions_app.api.graphql.nodes import RestNode, RestObject, found_by
from sessions_app.api.graphql.peers import Peer, one_by_one, single_peer
from sessions_app.api.graphql.scopes import SCOPE, scope_of
from sessions_app.api.graphql.shapes import arguments_of, shape_of, type_of
from sessions_app.api.graphql.tenants import (
    Domain,
    Project,
    domains_of,
    render_domains,
    render_projects,
    resolve_project,
    split_address,
)
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.render.tenant_render import (
    membership_json,
    quotas_json,
    token_json,
    whoami_json,
)
from sessions_app.api.requests.filters import (
    DomainFilter,
    MembershipFilter,
    ProjectFilter,
    TokenFilter,
)
from sessions_app.api.shapes import session_shapes, tenant_shapes
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import NotFound
from sessions_app.models import ApiToken
from sessions_app.models import Domain as DomainRow
from sessions_app.models import Membership as MembershipRow
from sessions_app.models import Project as ProjectRow
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.selectors.tenants import (
    domains_visible,
    membership_get,
    memberships_visible,
    projects_listed,
    token_get,
    tokens_visible,
)

_MembershipShape: Any = shape_of(
    tenant_shapes.Membership, leave_out={"id", "domain", "project"}, kinds={"role": Role}
)
_TokenShape: Any = shape_of(tenant_shapes.Token, leave_out={"project"})
_WhoAmIShape: Any = shape_of(session_shapes.WhoAmI, leave_out={"project"})


class Membership(_MembershipShape, RestNode):
    """A user's role in a project or in all projects of a domain. One of the two is null."""

    membership_id = graphene.Int(required=True, description="The id that REST uses.")
    domain = graphene.Field(Domain)
    project = graphene.Field(Project)
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_id(source: Peer[MembershipRow], _info: Any) -> int:
        return source.row.pk

    @staticmethod
    def resolve_membership_id(source: Peer[MembershipRow], _info: Any) -> int:
        return source.row.pk

    @staticmethod
    def resolve_domain(source: Peer[MembershipRow], _info: Any) -> Any:
        return source.ask("domain", domains_of)


class Token(_TokenShape, RestNode):
    """A bearer token of a user or an executor. `prefix` holds its first characters."""

    project = graphene.Field(Project)
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_id(source: Peer[ApiToken], _info: Any) -> str:
        return source.row.prefix


class Viewer(_WhoAmIShape, RestObject):
    """The caller, and the scope that the token is restricted to."""

    project = graphene.String(
        description="`domain/name` of the only project that the token may use."
    )


render_memberships = one_by_one(membership_json)
"""Return memberships in REST's form."""


render_tokens = one_by_one(token_json)
"""Return tokens in REST's form, without their secrets."""


DomainConnection = connection_to(Domain)
ProjectConnection = connection_to(Project)
MembershipConnection = connection_to(Membership)
TokenConnection = connection_to(Token)


class TenantQueries:
    """The root fields of tenants."""

    viewer = one(Viewer, "The caller.")
    domain = one(Domain, "One domain.", name=graphene.String(required=True))
    domains = pages(
        DomainConnection, "The domains that you may see, by name.", **arguments_of(DomainFilter)
    )
    project = one(
        Project,
        "One project.",
        address=graphene.String(required=True, description="`domain/name`."),
    )
    projects = pages(
        ProjectConnection,
        "The projects that you may see, oldest first.",
        **arguments_of(ProjectFilter),
    )
    memberships = pages(
        MembershipConnection,
        "The memberships of what you may see, oldest first.",
        **arguments_of(MembershipFilter, kinds={"role": Role}),
    )
    tokens = pages(
        TokenConnection,
        "Your own tokens. A cluster admin gets all tokens.",
        **arguments_of(TokenFilter),
    )
    quotas = one(
        type_of(session_shapes.Quotas),
        "The limits of a project or a domain, and their usage.",
        **SCOPE,
    )

    @staticmethod
    def resolve_viewer(_root: None, info: Any) -> dict[str, Any]:
        return whoami_json(actor_of(info), info.context.token)

    @staticmethod
    def resolve_domain(_root: None, info: Any, name: str) -> Peer[DomainRow]:
        return domain_found(actor_of(info), name)

    @staticmethod
    def resolve_domains(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(DomainFilter, asked).apply(actor, domains_visible(actor))
        return page_of(Domain, rows, RowCursor("name"), page, render_domains)

    @staticmethod
    def resolve_project(_root: None, info: Any, address: str) -> Peer[ProjectRow]:
        return project_found(actor_of(info), address)

    @staticmethod
    def resolve_projects(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(ProjectFilter, asked).apply(actor, projects_listed(actor))
        return page_of(Project, rows, RowCursor("id"), page, render_projects)

    @staticmethod
    def resolve_memberships(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(MembershipFilter, asked).apply(actor, memberships_visible(actor))
        return page_of(Membership, rows, RowCursor("id"), page, render_memberships)

    @staticmethod
    def resolve_tokens(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(TokenFilter, asked).apply(actor, tokens_visible(actor))
        return page_of(Token, rows, RowCursor("-id"), page, render_tokens)

    @staticmethod
    def resolve_quotas(_root: None, info: Any, **scope: Any) -> dict[str, Any]:
        actions = {"domain": Action.DOMAIN_QUOTA_READ, "project": Action.PROJECT_QUOTA_READ}
        return quotas_json(scope_of(actor_of(info), actions, **scope))


@found_by("Domain")
def domain_found(actor: Actor, name: str) -> Peer[DomainRow]:
    """Return a domain by its name."""
    return single_peer(Domain, domain_get(actor, name, Action.DOMAIN_READ), render_domains)


@found_by("Project")
def project_found(actor: Actor, address: str) -> Peer[ProjectRow]:
    """Return a project by its address."""
    found = project_get(actor, *split_address(address), Action.PROJECT_READ)
    return single_peer(Project, found, render_projects)


@found_by("Membership")
def membership_found(actor: Actor, key: str) -> Peer[MembershipRow]:
    """Return a membership by its number."""
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        raise NotFound(f"no membership {key[:100]}")
    found = membership_get(actor, int(key), Action.MEMBERSHIP_READ)
    return single_peer(Membership, found, render_memberships)


@found_by("Token")
def token_found(actor: Actor, prefix: str) -> Peer[ApiToken]:
    """Return a token by its prefix."""
    return single_peer(Token, token_get(actor, prefix, Action.TOKEN_READ), render_tokens)
