"""Sets the quotas of a project or a domain, and recounts their use."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from django.db import connection, transaction

from sessions_app import wakeups
from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict
from sessions_app.db.bulk import array, columns
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.locks import Counter, usage_lock_scope, usage_stop
from sessions_app.models import Project, ProjectUsage
from sessions_app.services.write.usage import usage_counted

Limits = Mapping[str, Decimal]
TRIES = 3


def quotas_put(
    scope: ConfigScope, limits: Mapping[str, Decimal | None], *, by: str, keep: bool = False
) -> None:
    """Set the limits of a project or a domain, by the name of the quota; None: no limit.

    With `keep`, quotas that are not named stay as they are. If the present use exceeds a new limit,
    sessions go on, and nothing is admitted until there is room.
    """
    wanted = {name: limit for name, limit in limits.items() if limit is not None}
    for _ in range(TRIES):
        _begin_counting(scope, wanted)
        with audited(by=by), transaction.atomic():
            found = usage_lock_scope(**_key(scope))
            # Somebody may just have removed the limit that is changed here.
            if wanted.keys() <= found.keys():
                before = {each.name for each in found.values() if each.limit is not None}
                named = limits.keys() if keep else {*limits, *before}
                _set(scope, [found[name] for name in named if name in found], wanted)
                wakeups.work_after_commit()
                return
    raise Conflict("another call is changing the quotas; try again")


def _key(scope: ConfigScope) -> dict[str, int | None]:
    domain, project = scope.domain, scope.project
    return {
        "project_id": None if project is None else project.pk,
        "domain_id": None if domain is None else domain.pk,
    }


_BEGIN = """
    INSERT INTO sessions_app_projectusage (project_id, domain_id, name, used)
    SELECT %s, %s, name, 0 FROM unnest(%s::text[]) AS v(name) ON CONFLICT DO NOTHING
"""


def _begin_counting(scope: ConfigScope, names: Collection[str]) -> None:
    """Create the missing counters, so that from now on every session is counted.

    Committed separately, since everybody who moves sessions waits for it. The counters have no
    limit yet, and their values are incomplete until the earlier sessions are counted, too.
    """
    key = _key(scope)
    there = set(ProjectUsage.objects.filter(**_filled(key)).values_list("name", flat=True))
    missing = sorted(set(names) - there)
    if not missing:
        return
    with transaction.atomic():
        usage_stop()
        with connection.cursor() as cursor:
            cursor.execute(_BEGIN, [*key.values(), array(missing)])


def _filled(key: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in key.items() if value is not None}


_SET = """
    UPDATE sessions_app_projectusage u SET "limit" = v."limit", used = v.used
    FROM unnest(%s::bigint[], %s::numeric[], %s::numeric[]) AS v(id, "limit", used)
    WHERE u.id = v.id
"""


def _set(scope: ConfigScope, counters: Sequence[Counter], limits: Limits) -> None:
    """Set the limits of locked counters, and delete those that get none."""
    new = [each.name for each in counters if each.limit is None and each.name in limits]
    counted = usage_counted(_projects(scope), new) if new else {}
    rows = [
        (each.id, limits[each.name], counted.get(each.name, each.used))
        for each in counters
        if each.name in limits
    ]
    # Counters without a limit stay: somebody is about to set it.
    over = [each.id for each in counters if each.name not in limits and each.limit is not None]
    with connection.cursor() as cursor:
        if rows:
            cursor.execute(_SET, columns(rows))
        if over:
            cursor.execute(
                "DELETE FROM sessions_app_projectusage WHERE id = ANY(%s::bigint[])", [array(over)]
            )


def _projects(scope: ConfigScope) -> list[int]:
    if scope.project is not None:
        return [scope.project.pk]
    return list(Project.objects.filter(domain=scope.domain).values_list("pk", flat=True))


class Rebuilt(NamedTuple):
    """The number of counters that were recounted, and how many of them were wrong."""

    counters: int
    corrected: int


def usage_rebuild() -> Rebuilt:
    """Recount the use of all quotas, scope by scope.

    Transactions that move sessions of the scope wait for it, so that none is missed.
    """
    counters = corrected = 0
    scopes = ProjectUsage.objects.order_by().values_list("project", "domain").distinct()
    for project_id, domain_id in list(scopes):
        with transaction.atomic():
            found = usage_lock_scope(project_id=project_id, domain_id=domain_id)
            wrong = _recount(found, project_id, domain_id)
        counters += len(found)
        corrected += wrong
    return Rebuilt(counters, corrected)


def _recount(found: Mapping[str, Counter], project_id: int | None, domain_id: int | None) -> int:
    if not found:
        return 0
    inside = Project.objects.filter(domain=domain_id) if domain_id else None
    projects = [project_id] if inside is None else inside.values_list("pk", flat=True)
    counted = usage_counted([each for each in projects if each is not None], list(found))
    # A counter without a limit is counted by whoever sets the limit.
    wrong = [
        (each.id, each.limit, counted[each.name])
        for each in found.values()
        if each.limit is not None and each.used != counted[each.name]
    ]
    if wrong:
        with connection.cursor() as cursor:
            cursor.execute(_SET, columns(wrong))
    return len(wrong)
