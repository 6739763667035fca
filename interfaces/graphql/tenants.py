"""Domains and projects in GraphQL."""

from collections.abc import Sequence
from typing import Any

import graphene

from interfaces.graphql.context import actor_of
from interfaces.graphql.kinds import BY_NAME, Kind, KindNode, Names, Naming
from interfaces.graphql.peers import Peer, belonging, one_by_one
from interfaces.graphql.shapes import shape_of
from interfaces.kinds.tenants import DOMAIN, PROJECT
from interfaces.render.tenant_render import domain_json, project_json
from sessions_app.models import Domain as DomainRow
from sessions_app.models import Project as ProjectRow

_DomainShape: Any = shape_of(DOMAIN.shape)
_ProjectShape: Any = shape_of(PROJECT.shape, leave_out={"domain"})


class Domain(_DomainShape, KindNode):
    """A domain: a group of projects."""

    of = DOMAIN


class Project(_ProjectShape, KindNode):
    """A project: one team's part of a domain."""

    of = PROJECT
    address = graphene.String(required=True, description="`domain/name`, as in arguments.")
    domain = graphene.Field(Domain, description="Null if the token is restricted to a project.")

    @staticmethod
    def resolve_address(source: Peer[ProjectRow], _info: Any) -> str:
        return source.row.address

    @staticmethod
    def resolve_domain(source: Peer[ProjectRow], info: Any) -> Peer[DomainRow] | None:
        return seen_domain(info, source.ask("domain", domains_of))


def seen_domain(info: Any, found: Peer[DomainRow] | None) -> Peer[DomainRow] | None:
    """Return the domain of a visible object if the caller may see the domain, too."""
    if found is None or not actor_of(info).rank_in_domain(found.row):
        return None
    return found


def domains_of(rows: Sequence[Any]) -> list[Peer[DomainRow] | None]:
    """Return the domains of rows that were read with theirs; None for rows without one."""
    found = {row.domain_id: row.domain for row in rows if row.domain_id is not None}
    return belonging(Domain, [row.domain_id for row in rows], found, render_domains)


def projects_of(rows: Sequence[Any]) -> list[Peer[ProjectRow] | None]:
    """Return the projects of rows that were read with theirs; None for rows without one."""
    found = {row.project_id: row.project for row in rows if row.project_id is not None}
    return belonging(Project, [row.project_id for row in rows], found, render_projects)


def resolve_project(source: Peer[Any], _info: Any) -> Peer[ProjectRow] | None:
    """Resolve a field `project`."""
    return source.ask("project", projects_of)


def split_address(address: str) -> tuple[str, str]:
    """Return the domain and the name in an address (`domain/name`); an invalid one matches
    nothing."""
    domain, _, name = address.partition("/")
    return domain, name


def _names(address: str) -> Names:
    domain, project = split_address(address)
    return {"domain": domain, "project": project}


DOMAINS = Kind(DOMAIN, Domain, BY_NAME)
BY_ADDRESS = {"project": graphene.String(required=True, description="`domain/name`.")}
PROJECTS = Kind(
    PROJECT, Project, Naming(BY_ADDRESS, lambda given: _names(given.pop("project")), _names)
)
render_domains = one_by_one(domain_json)
"""Return domains in REST's form."""


render_projects = one_by_one(project_json)
"""Return projects in REST's form."""
