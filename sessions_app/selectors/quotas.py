"""Reads of quotas: their use, and what they hold back."""

from typing import NamedTuple

from django.db.models import Q

from sessions_app.core.quotas import Held, running, spelled
from sessions_app.core.states import Phase
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.quotas import quotas_read
from sessions_app.models import ProjectUsage, Session


class QuotaUse(NamedTuple):
    """A quota for display: its scope, its name, its limit and its use."""

    scope: str
    name: str
    limit: str
    used: str


def quota_uses(scope: ConfigScope) -> list[QuotaUse]:
    """Return the quotas of a scope, its own first; for a project also those of its domain."""
    project, domain = scope.project, scope.domain
    holds = (
        Q(domain=domain) if project is None else Q(project=project) | Q(domain=project.domain_id)
    )
    rows = ProjectUsage.objects.filter(holds, limit__isnull=False).order_by("project", "name")
    # Nulls sort last, and so do the rows of a domain.
    return [_quota_use(row, scope) for row in rows]


def _quota_use(row: ProjectUsage, scope: ConfigScope) -> QuotaUse:
    owner = scope.name
    if scope.project is not None and row.domain_id is not None:
        owner = scope.project.domain.name
    assert row.limit is not None  # noqa: S101  # the query returns only rows with a limit
    return QuotaUse(owner, row.name, spelled(row.name, row.limit), spelled(row.name, row.used))


def quota_holding(session: Session) -> Held | None:
    """Return the quota that a waiting session waits for now, if there is one."""
    if session.phase != Phase.WAITING or session.has_quotas is False:
        return None
    quotas = quotas_read([session.project_id], waiting=False, live=True)
    spec = session.spec
    wanted = running(spec.resources, spec.cluster_size) if quotas else {}
    return quotas.held(session.project_id, wanted)
