"""Reads of quotas: how they stand, and what they hold back."""

from typing import NamedTuple

from django.db.models import Q

from sessions_app.core.quotas import Held, running, spelled
from sessions_app.core.states import Phase
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.quotas import quotas_read
from sessions_app.models import ProjectUsage, Session


class QuotaStanding(NamedTuple):
    """A quota as people read it: whose, which, its limit, and what is in use of it."""

    scope: str
    name: str
    limit: str
    used: str


def quotas_standing(scope: ConfigScope) -> list[QuotaStanding]:
    """The quotas that hold in a scope, its own first: of a project also those of its domain."""
    project, domain = scope.project, scope.domain
    holds = (
        Q(domain=domain) if project is None else Q(project=project) | Q(domain=project.domain_id)
    )
    rows = ProjectUsage.objects.filter(holds, limit__isnull=False).order_by("project", "name")
    # Nulls come last, and so do those of a domain.
    return [_standing(row, scope) for row in rows]


def _standing(row: ProjectUsage, scope: ConfigScope) -> QuotaStanding:
    owner = scope.name
    if scope.project is not None and row.domain_id is not None:
        owner = scope.project.domain.name
    assert row.limit is not None  # noqa: S101  # the query asks for those that are set
    return QuotaStanding(owner, row.name, spelled(row.name, row.limit), spelled(row.name, row.used))


def quota_holding(session: Session) -> Held | None:
    """The quota for which a waiting session waits just now, if there is one."""
    if session.phase != Phase.WAITING or session.has_quotas is False:
        return None
    quotas = quotas_read([session.project_id], waiting=False, live=True)
    spec = session.spec
    wanted = running(spec.resources, spec.cluster_size) if quotas else {}
    return quotas.held(session.project_id, wanted)
