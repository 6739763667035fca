"""Retries that go, but that their shared budgets are not charged for yet: those that wait for their
slots under the storm limits."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import connection

from retry.policies.shared_budget import SharedBudget
from retry.shared_budgets import Standing
from sessions_app.db.bulk import SentRows, array
from sessions_app.in_force.shared_budgets import PLATFORM, UNCOUNTED
from sessions_app.selectors.retry_budgets import standings_of

_SCOPES = SentRows[[str, int, SharedBudget]](
    ("scope", "text", lambda scope, _, __: scope),
    ("level", "text", lambda scope, _, __: scope.partition(":")[0]),
    ("id", "bigint", lambda scope, _, __: int(scope.partition(":")[2] or 0)),
    ("room", "bigint", lambda _, room, __: room),
    ("platform", "boolean", lambda _, __, budget: budget.platform),
    named=True,
)
# Two parts, since each has an index: retries that come later and have no slot are not read. The
# limit ends it: of more than there is room for, the number says nothing.
_UNCHARGED = f"""
    SELECT v.scope, (SELECT count(*) FROM (
        SELECT FROM (
            SELECT * FROM sessions_app_retrydecision
            WHERE state = 'scheduled' AND due_at <= %(due)s
            UNION ALL
            SELECT * FROM sessions_app_retrydecision
            WHERE state = 'scheduled' AND paced AND (due_at <= %(due)s) IS NOT TRUE
        ) d
        JOIN sessions_app_session s ON s.id = d.session_id
        JOIN sessions_app_project p ON p.id = d.project_id
        WHERE d.requested_by = ''
            AND NOT d.paid_by = ANY(%(uncounted)s::text[])
            AND (v.platform OR NOT d.cause = ANY(%(platform)s::text[]))
            AND NOT d.session_id = ANY(%(without)s::uuid[])
            AND CASE v.level WHEN 'queue' THEN s.queue_id = v.id WHEN 'project'
                THEN d.project_id = v.id WHEN 'domain' THEN p.domain_id = v.id ELSE true END
        LIMIT v.room) AS waiting)
    FROM {_SCOPES}
"""


def standings_after(
    budgets: Mapping[str, SharedBudget],
    *,
    now: datetime,
    due: datetime | None = None,
    without: Collection[UUID] = (),
) -> dict[str, Standing]:
    """Return how scopes stand, by their keys, once the retries that wait for their slots are
    charged, too; of these, as many as have room.

    With `due`, those that are due by then count, too. Leaves out the failed sessions `without`.
    """
    limits = {scope: budget.limit for scope, budget in budgets.items()}
    found = standings_of(limits, now=now)
    rows = [(scope, each.room, budgets[scope]) for scope, each in found.items() if each.room]
    if not rows:
        return found
    wanted = {
        **_SCOPES.named(*zip(*rows, strict=True)),
        "due": due,
        "uncounted": array(sorted(UNCOUNTED)),
        "platform": array(sorted(PLATFORM)),
        "without": array(without),
    }
    with connection.cursor() as cursor:
        cursor.execute(_UNCHARGED, wanted)
        going = dict(cursor.fetchall())
    return {
        scope: replace(each, retries=each.retries + going.get(scope, 0))
        for scope, each in found.items()
    }
