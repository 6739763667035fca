"""Running totals of failures, so that the list of any time reads little.

A ledger has names: the signatures of a project, of one of its queues, images or nodes; or the
queues, images or nodes of a signature. It has the totals of its names after some hours. What
happened between two of these is the difference of their totals, whatever lies between them; only
the hours around them are read one by one.

Totals are written once enough has changed since the last ones. So the hours around them are few,
however many failures there are, and all totals together are as long as a part of the hours. The
task that deletes what is old writes them. Lists are right without them, and slower.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from sessions_app.db.bulk import SentRows, array, columns
from sessions_app.db.steps import atomic_step
from sessions_app.locks import lock_failures
from sessions_app.services.failures.figures import Place

FEW = 16
"""Minimum number of rows of hours from which on totals are written."""
PART_OF_PROJECT, PART_OF_PLACE, PART_OF_SIGNATURE = 16, 4, 16
"""Totals are written once the rows of hours are this part of the names: of a project; of one of its
queues, images and nodes, which are many; of a signature."""
MOST_UNUSED = 64
"""Number of names that did not change for long up to which a ledger goes on."""
MOST_TOTAL = 2**30
"""A ledger with a larger total is begun anew, before the totals get too large for their type."""
LATE = timedelta(minutes=5)
"""What ended in an hour is usually counted so long after it."""
_HOUR = timedelta(hours=1)

_NEXT = """
    SELECT (SELECT h.hour FROM sessions_app_failurehour h
        WHERE h.hour >= coalesce(r.summed_until, '-infinity') AND h.hour <= %s
        ORDER BY h.hour LIMIT 1)
    FROM sessions_app_failurereader r WHERE r.id = 1
"""
# A ledger goes on unless most of its names are those of nodes that are long gone, or of other
# values that were not seen since its oldest totals.
_DUE_OF_KIND = """
    SELECT d.project_id, d.dimension, d.value, d.key, l.id, c.begin, (
        SELECT count(*) FILTER (WHERE old = new) > greatest(%(unused)s, count(*) / 2)
            OR coalesce(max(new), 0) > %(total)s
        FROM unnest((SELECT o.sessions FROM sessions_app_failuretotals o
            WHERE o.ledger_id = l.id ORDER BY o.hour LIMIT 1), l.sessions) AS n(old, new))
    FROM (SELECT DISTINCT {place} FROM sessions_app_failurehour h
        WHERE h.hour >= %(hour)s AND h.hour < %(until)s AND {counted})
        AS d(project_id, dimension, value, key)
    LEFT JOIN LATERAL (
        SELECT l.id, cardinality(l.names) AS names, t.hour, t.sessions
        FROM (SELECT * FROM sessions_app_failureledger l WHERE l.project_id = d.project_id
            AND l.dimension = d.dimension AND l.value = d.value AND l.key = d.key
            ORDER BY l.id DESC LIMIT 1) AS l
        CROSS JOIN LATERAL (SELECT t.hour, t.sessions FROM sessions_app_failuretotals t
            WHERE t.ledger_id = l.id ORDER BY t.hour DESC LIMIT 1) AS t) AS l ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS rows, min(r.hour) AS begin
        FROM (SELECT h.hour FROM sessions_app_failurehour h WHERE {of_due}
            AND h.hour >= coalesce(l.hour, '-infinity') AND h.hour < %(until)s
            ORDER BY h.hour LIMIT greatest(%(few)s, l.names / {part})) AS r) AS c
    WHERE c.rows >= greatest(%(few)s, l.names / {part})
"""
_DUE = " UNION ALL ".join(
    (
        _DUE_OF_KIND.format(
            place="h.project_id, h.dimension, h.value, ''",
            counted="(h.dimension = '' OR h.value <> '')",
            of_due="h.project_id = d.project_id AND h.dimension = d.dimension "
            "AND h.value = d.value",
            part="CASE d.dimension WHEN '' THEN %(of_project)s ELSE %(of_place)s END",
        ),
        _DUE_OF_KIND.format(
            place="h.project_id, h.dimension, '', h.key",
            counted="h.dimension <> '' AND h.value <> ''",
            of_due="h.project_id = d.project_id AND h.key = d.key "
            "AND h.dimension = d.dimension AND h.value <> ''",
            part="%(of_signature)s",
        ),
    )
)
_BEGIN = """
    INSERT INTO sessions_app_failureledger (project_id, dimension, value, key, names)
    SELECT *, '{}' FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[])
    RETURNING id, project_id, dimension, value, key
"""
_ZERO = """
    INSERT INTO sessions_app_failuretotals (ledger_id, hour, sessions)
    SELECT *, '{}' FROM unnest(%s::bigint[], %s::timestamptz[])
"""
_TOTAL = "array_agg(coalesce(n.{name}, 0) + coalesce(s.{name}, 0) ORDER BY n.place, s.name)"
_SESSIONS = _TOTAL.format(name="sessions")
_CHAINS = _TOTAL.format(name="chains")
_RECOVERED = _TOTAL.format(name="recovered_chains")
_LOST = _TOTAL.format(name="lost_run_seconds")
# What the hours since the last totals add.
_SINCE = """
    SELECT h.key AS name, h.sessions, h.chains, h.recovered_chains, h.lost_run_seconds
    FROM sessions_app_failurehour h
    WHERE l.key = '' AND h.project_id = l.project_id AND h.dimension = l.dimension
        AND h.value = l.value AND h.hour >= t.hour AND h.hour < %(until)s
    UNION ALL
    SELECT h.value, h.sessions, h.chains, h.recovered_chains, h.lost_run_seconds
    FROM sessions_app_failurehour h
    WHERE l.key <> '' AND h.project_id = l.project_id AND h.key = l.key
        AND h.dimension = l.dimension AND h.value <> '' AND h.hour >= t.hour AND h.hour < %(until)s
"""
# Names that are new have no place yet, and come last. Of queues, images and nodes a list shows the
# failures alone.
_WRITE = f"""
    WITH written AS MATERIALIZED (
        SELECT l.id, n.* FROM sessions_app_failureledger l CROSS JOIN LATERAL (
            SELECT * FROM sessions_app_failuretotals t WHERE t.ledger_id = l.id
            ORDER BY t.hour DESC LIMIT 1) AS t
        CROSS JOIN LATERAL (
            SELECT array_agg(coalesce(n.name, s.name) ORDER BY n.place, s.name) AS names,
                count(*) FILTER (WHERE n.name IS NULL) AS new, {_SESSIONS} AS sessions,
                {_CHAINS} FILTER (WHERE l.key = '') AS chains,
                {_RECOVERED} FILTER (WHERE l.key = '') AS recovered_chains,
                {_LOST} FILTER (WHERE l.key = '') AS lost_run_seconds
            FROM unnest(l.names, t.sessions, t.chains, t.recovered_chains, t.lost_run_seconds)
                WITH ORDINALITY
                AS n(name, sessions, chains, recovered_chains, lost_run_seconds, place)
            FULL JOIN (SELECT name, sum(sessions) AS sessions, sum(chains) AS chains,
                    sum(recovered_chains) AS recovered_chains,
                    sum(lost_run_seconds) AS lost_run_seconds
                FROM ({_SINCE}) AS h GROUP BY 1) AS s ON s.name = n.name) AS n
        WHERE l.id = ANY(%(ids)s::bigint[])
    ), named AS (
        UPDATE sessions_app_failureledger l SET names = w.names FROM written w
        WHERE l.id = w.id AND w.new > 0
    )
    INSERT INTO sessions_app_failuretotals
        (ledger_id, hour, sessions, chains, recovered_chains, lost_run_seconds)
    SELECT id, %(until)s, sessions, chains, recovered_chains, lost_run_seconds FROM written
"""
_SUMMED = "UPDATE sessions_app_failurereader SET summed_until = %s WHERE id = 1"
_Ledger = tuple[int, str, str, str]
_OUTDATED = SentRows[[_Ledger, datetime]](
    ("project_id", "bigint", lambda ledger, _: ledger[0]),
    ("dimension", "text", lambda ledger, _: ledger[1]),
    ("value", "text", lambda ledger, _: ledger[2]),
    ("key", "text", lambda ledger, _: ledger[3]),
    ("hour", "timestamptz", lambda _, hour: hour),
)
_UNWRITE = f"""
    DELETE FROM sessions_app_failuretotals t
    USING {_OUTDATED}
        JOIN sessions_app_failureledger l USING (project_id, dimension, value, key)
    WHERE t.ledger_id = l.id AND t.hour > v.hour
    RETURNING l.id
"""
_FORGET = """
    DELETE FROM sessions_app_failuretotals WHERE id IN (
        SELECT id FROM sessions_app_failuretotals WHERE hour < %s ORDER BY hour LIMIT %s)
    RETURNING ledger_id
"""
# Every ledger has totals: a new one begins with the last ones of the ledger before it.
_FORGET_LEDGERS = """
    DELETE FROM sessions_app_failureledger l WHERE l.id = ANY(%s::bigint[])
        AND NOT EXISTS (SELECT FROM sessions_app_failuretotals t WHERE t.ledger_id = l.id)
"""


class _Due(NamedTuple):
    """A ledger that needs totals: a new one without an `id`, or one to be begun `anew`, begins with
    the first `hour` that no totals have."""

    project_id: int
    dimension: str
    value: str
    key: str
    id: int | None
    hour: datetime
    anew: bool


def hour_total(now: datetime) -> int:
    """Write the totals that the next hour makes due, if it is over. Return 1, or 0 for none.

    The number of statements does not depend on the number of ledgers.
    """
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, [now - _HOUR - LATE])
            found = cursor.fetchone()
            if found is None or found[0] is None:
                return 0
            until = found[0] + _HOUR
            cursor.execute(_DUE, {"hour": found[0], "until": until, **_limits()})
            ids = _begun([_Due._make(row) for row in cursor.fetchall()])
            if ids:
                cursor.execute(_WRITE, {"ids": array(ids), "until": until})
            cursor.execute(_SUMMED, [until])
    return 1


def totals_outdate(places: Iterable[Place], summed_until: datetime | None) -> None:
    """Delete the totals that lack what was added to hours just now: they had passed these already.

    The next hour of a ledger writes new ones. The caller holds the lock of the figures.
    """
    if summed_until is None:
        return
    hours: dict[_Ledger, datetime] = {}
    for place in places:
        if place.hour < summed_until:
            for ledger in ((*place[:3], ""), (place.project_id, place.dimension, "", place.key)):
                hours[ledger] = min(place.hour, hours.get(ledger, place.hour))
    if hours:
        with connection.cursor() as cursor:
            cursor.execute(_UNWRITE, _OUTDATED.arrays(hours, hours.values()))
            _forget_ledgers(cursor)


def totals_drop() -> None:
    """Delete all totals; they are written anew. The caller holds the lock of the figures."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM sessions_app_failuretotals")
        cursor.execute("DELETE FROM sessions_app_failureledger")
        cursor.execute(_SUMMED, [None])


def totals_forget(before: datetime, limit: int) -> int:
    """Delete at most `limit` totals of old hours, and ledgers that have no others.

    Return the number of totals.
    """
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, [before, limit])
            return _forget_ledgers(cursor)


def _limits() -> dict[str, Any]:
    return {
        "few": FEW,
        "of_project": PART_OF_PROJECT,
        "of_place": PART_OF_PLACE,
        "of_signature": PART_OF_SIGNATURE,
        "unused": MOST_UNUSED,
        "total": MOST_TOTAL,
    }


def _forget_ledgers(cursor: Any) -> int:
    """Delete the ledgers whose last totals the statement before deleted. Return the number of
    totals."""
    ledgers = [ledger for (ledger,) in cursor.fetchall()]
    if ledgers:
        cursor.execute(_FORGET_LEDGERS, [array(sorted({*ledgers}))])
    return len(ledgers)


def _begun(due: Sequence[_Due]) -> list[int]:
    """Make the ledgers that are new, and the totals with which they begin. Return all ids."""
    ids = [each.id for each in due if each.id is not None and not each.anew]
    hours = {each[:4]: each.hour for each in due if each.id is None or each.anew}
    if hours:
        with connection.cursor() as cursor:
            cursor.execute(_BEGIN, columns([*hours]))
            made = {tuple(place): number for number, *place in cursor.fetchall()}
            cursor.execute(_ZERO, columns([(made[at], hour) for at, hour in hours.items()]))
        ids += made.values()
    return ids
