"""Adds the ends of chains to the figures of their days: what retries were worth."""

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from django.db import connection

from sessions_app.core.node_addresses import node_name
from sessions_app.core.retry_worth import Dimension, Value, Worth, chain_add
from sessions_app.db.bulk import SentRows, array, columns
from sessions_app.models.reports import VALUE_LENGTH
from sessions_app.services.failures.chain_ends import ChainEnd, Ends

MOST_VALUES = 1_000
"""Maximum number of values of a dimension on a day of a project; all others are one row."""
OTHERS = ""
"""The value of that row."""

_KNOWN = """
    SELECT d.project_id, d.dimension, d.day::text, d.value
    FROM unnest(%s::bigint[], %s::text[], %s::date[], %s::text[])
        AS v(project_id, dimension, day, value)
    JOIN sessions_app_retryday d USING (project_id, dimension, day, value)
"""
_VALUES = """
    SELECT v.project_id, v.dimension, v.day::text, (
        SELECT count(*) FROM sessions_app_retryday d
        WHERE d.project_id = v.project_id AND d.dimension = v.dimension AND d.day = v.day
            AND d.value <> '')
    FROM unnest(%s::bigint[], %s::text[], %s::date[]) AS v(project_id, dimension, day)
"""


class Place(NamedTuple):
    """What a row is about; the day is in ISO 8601."""

    project_id: int
    dimension: str
    day: str
    value: str


_ADDED = SentRows[[Place, Worth]](
    ("project_id", "bigint", lambda at, _: at.project_id),
    ("dimension", "text", lambda at, _: at.dimension),
    ("day", "date", lambda at, _: at.day),
    ("value", "text", lambda at, _: at.value),
    ("chains", "bigint", lambda _, worth: worth.chains),
    ("retried", "bigint", lambda _, worth: worth.retried),
    ("recovered", "bigint", lambda _, worth: worth.recovered),
    ("given_up", "bigint", lambda _, worth: worth.given_up),
    ("cancelled", "bigint", lambda _, worth: worth.cancelled),
    ("attempts", "bigint", lambda _, worth: worth.attempts),
    ("run", "float8", lambda _, worth: worth.run),
    ("rescued", "float8", lambda _, worth: worth.rescued),
    ("wasted", "float8", lambda _, worth: worth.wasted),
    ("waiting", "float8", lambda _, worth: worth.waiting),
    ("recoveries", "text", lambda _, worth: _recoveries(worth)),
)
_INSERT = _ADDED.inserted("sessions_app_retryday AS d", {"recoveries": "v.recoveries::bigint[]"})
_ADD = f"""
    {_INSERT}
    ON CONFLICT (project_id, dimension, day, value) DO UPDATE SET
        chains = d.chains + excluded.chains,
        retried = d.retried + excluded.retried,
        recovered = d.recovered + excluded.recovered,
        given_up = d.given_up + excluded.given_up,
        cancelled = d.cancelled + excluded.cancelled,
        attempts = d.attempts + excluded.attempts,
        run = d.run + excluded.run,
        rescued = d.rescued + excluded.rescued,
        wasted = d.wasted + excluded.wasted,
        waiting = d.waiting + excluded.waiting,
        recoveries = CASE WHEN excluded.recoveries = '{{}}' THEN d.recoveries ELSE ARRAY(
            SELECT coalesce(u.old, 0) + coalesce(u.new, 0)
            FROM unnest(d.recoveries, excluded.recoveries) WITH ORDINALITY AS u(old, new, bucket)
            ORDER BY u.bucket) END
"""
# A chain that recovered ends no second time, so nothing of recoveries is ever taken back. Days that
# are no longer kept have no row.
_TAKE = f"""
    UPDATE sessions_app_retryday d SET
        chains = d.chains - v.chains, retried = d.retried - v.retried,
        given_up = d.given_up - v.given_up, cancelled = d.cancelled - v.cancelled,
        attempts = d.attempts - v.attempts, run = d.run - v.run, wasted = d.wasted - v.wasted,
        waiting = d.waiting - v.waiting
    FROM {_ADDED}
    WHERE d.project_id = v.project_id AND d.dimension = v.dimension AND d.day = v.day
        AND d.value = v.value
"""
_FORGET = """
    DELETE FROM sessions_app_retryday WHERE id IN (
        SELECT id FROM sessions_app_retryday WHERE day < %s ORDER BY day LIMIT %s)
"""


Figures = dict[Place, Worth]


def worth_add(ends: Ends, first_day: date | None) -> None:
    """Add chains that ended, and take back the ends that theirs take the place of.

    Ends before `first_day` were counted once, and stay. The caller holds the lock of the figures.
    """

    def counted(end: ChainEnd) -> bool:
        return first_day is None or end.day >= first_day

    added = _figures(end for end in ends.added if counted(end))
    taken = _as_counted(_figures(before for before, _ in ends.replaced if counted(before)))
    if not added:
        return
    kept = _kept({*added, *taken})
    with connection.cursor() as cursor:
        cursor.execute(_ADD, _ADDED.arrays(*zip(*_merged(added, kept), strict=True)))
        if taken:
            cursor.execute(_TAKE, _ADDED.arrays(*zip(*_merged(taken, kept), strict=True)))


def worth_forget(before: date, limit: int) -> int:
    """Delete at most `limit` rows of days before a day. Return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [before, limit])
        return int(cursor.rowcount)


def _figures(ends: Iterable[ChainEnd]) -> Figures:
    days: dict[tuple[int, date], dict[Value, Worth]] = {}
    for end in ends:
        chain_add(days.setdefault((end.project_id, end.day), {}), end.state, end.attempts)
    found: Figures = {}
    for (project_id, day), values in days.items():
        for (dimension, value), worth in values.items():
            place = Place(project_id, dimension.value, day.isoformat(), value[:VALUE_LENGTH])
            found.setdefault(place, Worth()).add(worth)
    return found


def _as_counted(taken: Figures) -> Figures:
    """Return the figures under the values under which they were counted.

    Rows of before nodes were told apart by executor have their names alone.
    """
    named = {
        place: place._replace(value=node_name(place.value))
        for place in taken
        if place.dimension == Dimension.NODE and "/" in place.value
    }
    if not named:
        return taken
    known = _known({*named, *named.values()})
    found: Figures = {}
    for place, worth in taken.items():
        name = named.get(place)
        counted = name if name in known and place not in known else place
        found.setdefault(counted, Worth()).add(worth)
    return found


def _known(places: set[Place]) -> set[Place]:
    """Return the places that have a row of their own."""
    if not places:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN, columns(sorted(places)))
        return {Place._make(row) for row in cursor.fetchall()}


def _kept(places: set[Place]) -> set[Place]:
    """Return the places that have a row of their own, or get one now."""
    own = {place for place in places if place.dimension != Dimension.ALL}
    known = _known(own)
    new = own - known
    room: dict[tuple[int, str, str], int] = {}
    with connection.cursor() as cursor:
        if new:
            cursor.execute(_VALUES, columns(sorted({place[:3] for place in new})))
            room = {(at, by, day): MOST_VALUES - count for at, by, day, count in cursor.fetchall()}
    for place in sorted(new):
        if room[place[:3]] > 0:
            room[place[:3]] -= 1
            known.add(place)
    return known


def _merged(figures: Figures, kept: set[Place]) -> list[tuple[Place, Worth]]:
    """Return the figures in the order of their rows, with those of all others as one row."""
    found: Figures = {}
    for place, worth in figures.items():
        at = place if place in kept else place._replace(value=OTHERS)
        found.setdefault(at, Worth()).add(worth)
    return sorted(found.items(), key=lambda each: each[0])


def _recoveries(worth: Worth) -> str:
    """Return the number of recovered chains in each bucket, as an array in an array."""
    buckets = range(max(worth.recoveries, default=-1) + 1)
    return array(worth.recoveries.get(bucket, 0) for bucket in buckets)
