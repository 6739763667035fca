"""Counts for operators, each from an index; their cost does not grow with the number of rows."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from retry.evidence.causes import RetryCause
from sessions_app.core.states import Phase
from sessions_app.db.bulk import array
from sessions_app.models import Domain, Queue, RetryDecision, Session

CAP = 10_000
SCANNED = 100_000
"""Maximum number of scheduled retries read to count those of some projects."""
COUNTED = 100_000
"""Maximum number of waiting sessions counted over all queues ..."""
COUNTED_OF_A_QUEUE = (100, CAP)
"""... with at least and at most these numbers for each queue."""


class Count(NamedTuple):
    """A number of rows; with `more`, a lower bound."""

    value: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{' or more' if self.more else ''}"


class Waiting(NamedTuple):
    """The numbers of retries that wait for their time, and that something holds."""

    scheduled: Count
    held: Count


_SCHEDULED = """
    SELECT count(*) FILTER (
        WHERE (%(projects)s::bigint[] IS NULL OR s.project_id = ANY(%(projects)s::bigint[]))
        AND (%(domain)s::bigint IS NULL OR p.domain_id = %(domain)s)), count(*)
    FROM (
        SELECT session_id FROM sessions_app_retrydecision
        WHERE state = 'scheduled' ORDER BY due_at LIMIT %(limit)s
    ) d
    JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_project p ON p.id = s.project_id
"""
_HELD = """
    SELECT count(*) FROM (
        SELECT FROM sessions_app_project p CROSS JOIN LATERAL (
            SELECT FROM sessions_app_session s
            WHERE s.resting = 'held' AND s.project_id = p.id LIMIT %(limit)s) s
        WHERE (%(projects)s::bigint[] IS NULL OR p.id = ANY(%(projects)s::bigint[]))
            AND (%(domain)s::bigint IS NULL OR p.domain_id = %(domain)s)
        LIMIT %(limit)s
    ) held
"""


def retries_waiting(
    *, projects: Collection[int] | None = None, domain: Domain | None = None
) -> Waiting:
    """Return the numbers of waiting retries of projects, a domain, or (both None) all."""
    scope: dict[str, Any] = {
        "projects": None if projects is None else array(projects),
        "domain": domain.pk if domain else None,
    }
    with connection.cursor() as cursor:
        cursor.execute(_HELD, {**scope, "limit": CAP + 1})
        (held,) = cursor.fetchone()
        if projects is None and domain is None:
            scheduled = count_of(RetryDecision.objects.filter(state="scheduled"))
        else:
            cursor.execute(_SCHEDULED, {**scope, "limit": SCANNED})
            found, scanned = cursor.fetchone()
            scheduled = Count(found, scanned >= SCANNED)
    return Waiting(scheduled, Count(min(held, CAP), held > CAP))


def sessions_in(phase: Phase) -> Count:
    """Return the number of sessions in a phase, such as those that wait for an executor."""
    return count_of(Session.objects.filter(phase=phase))


_WAITING = """
    WITH busy AS MATERIALIZED (
        SELECT q.id FROM unnest(%(queues)s::bigint[]) AS q(id) WHERE EXISTS (
            SELECT FROM sessions_app_session s WHERE s.phase = 'waiting' AND s.queue_id = q.id)
    ), most AS (
        SELECT least(greatest(%(counted)s / count(*), %(least)s), %(most)s) AS n
        FROM busy HAVING count(*) > 0
    )
    SELECT b.id, least(w.n, most.n), w.n > most.n FROM busy b CROSS JOIN most
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM sessions_app_session s
            WHERE s.phase = 'waiting' AND s.queue_id = b.id LIMIT most.n + 1) s
    ) w
    WHERE w.n > 0
"""


def waiting_by_queue(queues: Collection[int]) -> dict[int, Count]:
    """Return how many sessions wait in each of these queues; omit empty queues."""
    least, most = COUNTED_OF_A_QUEUE
    wanted: dict[str, Any] = {
        "queues": array(queues),
        "counted": COUNTED,
        "least": least,
        "most": most,
    }
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, wanted)
        return {key: Count(found, more) for key, found, more in cursor.fetchall()}


def count_of(rows: QuerySet[Any]) -> Count:
    """Return the number of rows, counted up to `CAP`."""
    found = rows.order_by().values("pk")[: CAP + 1].count()
    return Count(min(found, CAP), found > CAP)


_FAILURES = """
    SELECT c.cause, sum(f.n) FROM sessions_app_project p
    CROSS JOIN unnest(%(causes)s::text[]) AS c(cause)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM sessions_app_session s
            WHERE s.phase = 'final' AND s.retry_cause <> '' AND s.project_id = p.id
                AND s.retry_cause = c.cause AND s.id >= %(first)s
            LIMIT %(limit)s) s
    ) f
    GROUP BY c.cause HAVING sum(f.n) > 0 ORDER BY sum(f.n) DESC, c.cause
"""


def failures_by_cause(now: datetime, window: timedelta) -> Mapping[str, int]:
    """Return the number of failed attempts created in the window, by cause, most frequent first.

    At most `CAP` attempts are counted for each cause in each project.
    """
    # The first 48 bits of a session's id (UUIDv7) are the millisecond of its creation.
    first = UUID(int=int((now - window).timestamp() * 1000) << 80)
    causes = [cause.value for cause in RetryCause]
    with connection.cursor() as cursor:
        cursor.execute(_FAILURES, {"causes": causes, "first": first, "limit": CAP})
        return {cause: int(found) for cause, found in cursor.fetchall()}


def newest_behind(count: int) -> UUID | None:
    """Return the id of the newest session but `count`; None if there are no more than these."""
    keys = Session.objects.order_by("-pk").values_list("pk", flat=True)
    return keys[count : count + 1].first()


def queue_has_sessions(queue: Queue) -> bool:
    """Return whether a session was ever submitted to a queue and is not archived."""
    return Session.objects.filter(queue=queue).exists()
