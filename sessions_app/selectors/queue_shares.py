"""How a project's queues shared its run time, hour by hour, from a sample of bounded size."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from sessions_app.db.bulk import array
from sessions_app.selectors.past_chains import first_id

HOURS = 24
SAMPLED = 400
"""Most attempts of an hour that are looked at."""


@dataclass(frozen=True, slots=True)
class QueueShares:
    """Seconds of runs by queue id, for each of the hours; an attempt counts where it began to
    wait."""

    hours: Sequence[datetime]
    seconds: Mapping[int, Sequence[float]]
    capped: bool
    """Whether an hour has more attempts than were looked at."""


# Of each hour the newest rows are read: the ids from the index, queue by queue.
_SHARES = """
    SELECT d.n, s.queue_id, count(*), sum(s.cluster_size * greatest(0, extract(epoch FROM
        coalesce(s.finished_at, statement_timestamp()) - s.started_at)::float8))
    FROM unnest(%(first)s::uuid[], %(last)s::uuid[]) WITH ORDINALITY AS d(first, last, n)
    CROSS JOIN LATERAL (
        SELECT a.queue_id, a.started_at, a.finished_at, p.cluster_size FROM (
            SELECT r.id FROM sessions_app_queue q CROSS JOIN LATERAL (
                SELECT id FROM sessions_app_session
                WHERE queue_id = q.id AND id >= d.first AND id < d.last
                ORDER BY id DESC NULLS LAST LIMIT %(most)s) r
            WHERE q.project_id = %(project)s ORDER BY r.id DESC LIMIT %(most)s
        ) AS n JOIN sessions_app_session a ON a.id = n.id
        JOIN sessions_app_sessionspec p ON p.id = a.spec_id
    ) s
    GROUP BY d.n, s.queue_id
"""


def queue_shares(project_id: int, until: datetime) -> QueueShares:
    """Return the shares of the last `HOURS` hours, in one statement.

    It reads `HOURS * SAMPLED` attempts at most, at any number of sessions.
    """
    last = until.replace(minute=0, second=0, microsecond=0)
    hours = [last - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)]
    ids = [first_id(each) for each in [*hours, last + timedelta(hours=1)]]
    with connection.cursor() as cursor:
        bounds = {"first": array(ids[:-1]), "last": array(ids[1:])}
        cursor.execute(_SHARES, {**bounds, "project": project_id, "most": SAMPLED})
        rows = cursor.fetchall()
    seconds: dict[int, list[float]] = defaultdict(lambda: [0.0] * HOURS)
    seen = [0] * HOURS
    for hour, queue_id, count, lasted in rows:
        seconds[queue_id][hour - 1] = lasted or 0.0
        seen[hour - 1] += count
    return QueueShares(hours, dict(seconds), max(seen) >= SAMPLED)
