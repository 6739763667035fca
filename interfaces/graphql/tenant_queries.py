"""The root fields of domains, projects, memberships, tokens, quotas and the caller."""

from functools import partial
from typing import Any

import graphene

from interfaces.graphql.connections import connection_to, one
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import Role
from interfaces.graphql.kinds import Kind, KindNode, by_id, one_of, pages_of
from interfaces.graphql.nodes import RestObject, key_of
from interfaces.graphql.peers import Peer
from interfaces.graphql.scopes import SCOPE, scope_of
from interfaces.graphql.shapes import shape_of, type_of
from interfaces.graphql.tenants import (
    DOMAINS,
    PROJECTS,
    Domain,
    Project,
    domains_of,
    resolve_project,
)
from interfaces.kinds.memberships import MEMBERSHIP
from interfaces.kinds.tokens import TOKEN
from interfaces.render.tenant_render import quotas_json, whoami_json
from interfaces.shapes import session_shapes, tenant_shapes
from sessions_app.authorization import Action
from sessions_app.core.errors import NotFound
from sessions_app.models import Membership as MembershipRow

_MembershipShape: Any = shape_of(
    tenant_shapes.Membership, leave_out={"id", "domain", "project"}, kinds={"role": Role}
)
_TokenShape: Any = shape_of(tenant_shapes.Token, leave_out={"project"})
_WhoAmIShape: Any = shape_of(session_shapes.WhoAmI, leave_out={"project"})


class Membership(_MembershipShape, KindNode):
    """A user's role in a project or in all projects of a domain. One of the two is null."""

    of = MEMBERSHIP
    membership_id = graphene.Int(required=True, description="The id that REST uses.")
    domain = graphene.Field(Domain)
    project = graphene.Field(Project)
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_membership_id(source: Peer[MembershipRow], _info: Any) -> int:
        return source.row.pk

    @staticmethod
    def resolve_domain(source: Peer[MembershipRow], _info: Any) -> Any:
        return source.ask("domain", domains_of)


class Token(_TokenShape, KindNode):
    """A bearer token of a user or an executor. `prefix` holds its first characters."""

    of = TOKEN
    project = graphene.Field(Project)
    resolve_project = staticmethod(resolve_project)


class Viewer(_WhoAmIShape, RestObject):
    """The caller, and the scope that the token is restricted to."""

    project = graphene.String(
        description="`domain/name` of the only project that the token may use."
    )


def _membership(text: str) -> int:
    key = key_of("Membership", text)
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        raise NotFound(f"no membership {key[:100]}")
    return int(key)


DomainConnection = connection_to(Domain)
ProjectConnection = connection_to(Project)
MembershipConnection = connection_to(Membership)
TokenConnection = connection_to(Token)
MEMBERSHIPS = Kind(MEMBERSHIP, Membership, by_id(_membership))
TOKENS = Kind(TOKEN, Token, by_id(partial(key_of, "Token")))


class TenantQueries:
    """The root fields of tenants."""

    viewer = one(Viewer, "The caller.")
    domain = one_of(DOMAINS, name=graphene.String(required=True))
    domains = pages_of(DOMAINS, DomainConnection)
    project = one_of(PROJECTS, address=graphene.String(required=True, description="`domain/name`."))
    projects = pages_of(PROJECTS, ProjectConnection)
    memberships = pages_of(
        MEMBERSHIPS,
        MembershipConnection,
        "The memberships of what you may see, oldest first.",
        kinds={"role": Role},
    )
    tokens = pages_of(TOKENS, TokenConnection, "Your own tokens. A cluster admin gets all tokens.")
    quotas = one(
        type_of(session_shapes.Quotas),
        "The limits of a project or a domain, and their usage.",
        **SCOPE,
    )

    @staticmethod
    def resolve_viewer(_root: None, info: Any) -> dict[str, Any]:
        return whoami_json(actor_of(info), info.context.token)

    @staticmethod
    def resolve_quotas(_root: None, info: Any, **scope: Any) -> dict[str, Any]:
        actions = {"domain": Action.DOMAIN_QUOTA_READ, "project": Action.PROJECT_QUOTA_READ}
        return quotas_json(scope_of(actor_of(info), actions, **scope))
