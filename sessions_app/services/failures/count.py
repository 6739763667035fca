"""The one sweep that counts failures and ended chains, behind the log; it alone writes the figures,
in order.

A stretch of the log is one transaction with a fixed number of statements, under the lock of the
figures, which moves the positions as well: no event counts twice, and none is left out. Failures
and reports have a position each. Usually both are at the same place, and one stretch is read for
both; a report that starts anew reads on from its own place until it is there, too.
"""

import math
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from django.db import connection

from sessions_app.core.cursors import START, Cursor
from sessions_app.db.bulk import SentRows, array, columns
from sessions_app.db.steps import atomic_step
from sessions_app.eventlog.places import Stretch, position_here, stretch_after
from sessions_app.locks import lock_failures
from sessions_app.services.failures.chain_ends import chain_ends
from sessions_app.services.failures.figures import (
    Added,
    Figures,
    Place,
    Seen,
    figures_of,
    hour_of,
    keys_of,
)
from sessions_app.services.failures.hours import hours_merged
from sessions_app.services.failures.reading import SLICE, Ended, ends_between
from sessions_app.services.failures.totals import totals_drop, totals_outdate
from sessions_app.services.failures.worth import worth_add, worth_forget

MOST_OF_PROJECT = 5_000
"""Maximum number of signatures of a project; the ones not seen for longest are dropped."""
MOST_NEW = 100
"""Maximum number of new signatures of a project in an hour."""
TASK_SECONDS = 10.0
"""Seconds for which one run goes on; the next one continues."""

_FAILURES, _REPORTS = 1, 2
_DAY = timedelta(days=1)
_PLACES = """
    SELECT id, epoch, xid::text, event_id, first_day, summed_until
    FROM sessions_app_failurereader WHERE id IN (1, 2)
"""
_SET_PLACES = """
    INSERT INTO sessions_app_failurereader AS r (id, epoch, xid, event_id)
    SELECT v.id, v.epoch, v.xid::xid8, v.event_id
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::bigint[]) AS v(id, epoch, xid, event_id)
    ON CONFLICT (id) DO UPDATE
    SET epoch = excluded.epoch, xid = excluded.xid, event_id = excluded.event_id
"""
_FIRST_DAY = "UPDATE sessions_app_failurereader SET first_day = %s WHERE id = 2"
_KNOWN = """
    SELECT s.project_id, s.key, CASE WHEN s.sessions = 0 THEN s.first_seen END
    FROM unnest(%s::bigint[], %s::text[]) AS v(project_id, key)
    JOIN sessions_app_failuresignature s USING (project_id, key)
"""
_NEW = """
    SELECT project_id, date_trunc('hour', first_seen, 'UTC'), count(*)
    FROM sessions_app_failuresignature WHERE project_id = ANY(%s::bigint[])
        AND first_seen >= %s AND key <> 'other' GROUP BY 1, 2
"""
_SEEN = SentRows[[tuple[int, str], Seen]](
    ("project_id", "bigint", lambda at, _: at[0]),
    ("key", "text", lambda at, _: at[1]),
    ("title", "text", lambda _, seen: seen.title),
    ("cause", "text", lambda _, seen: seen.cause),
    ("exit_code", "integer", lambda _, seen: seen.exit_code),
    ("first_seen", "timestamptz", lambda _, seen: seen.first),
    ("last_seen", "timestamptz", lambda _, seen: seen.last),
    ("example", "uuid", lambda _, seen: seen.example),
    ("sessions", "bigint", lambda _, seen: seen.sessions),
    ("chains", "bigint", lambda _, seen: seen.chains),
    ("recovered_chains", "bigint", lambda _, seen: seen.recovered),
    ("lost_run_seconds", "float8", lambda _, seen: seen.lost),
)
_INSERT = _SEEN.inserted("sessions_app_failuresignature AS s", {"muted": "false"})
_ADD = f"""
    {_INSERT}
    ON CONFLICT (project_id, key) DO UPDATE SET
        title = coalesce(nullif(excluded.title, ''), s.title),
        exit_code = excluded.exit_code,
        first_seen = least(s.first_seen, excluded.first_seen),
        last_seen = greatest(s.last_seen, excluded.last_seen),
        example = CASE WHEN excluded.last_seen >= s.last_seen
            THEN excluded.example ELSE s.example END,
        sessions = s.sessions + excluded.sessions,
        chains = s.chains + excluded.chains,
        lost_run_seconds = s.lost_run_seconds + excluded.lost_run_seconds,
        recovered_chains = s.recovered_chains + excluded.recovered_chains
"""
_RECOVER = """
    UPDATE sessions_app_failuresignature s SET recovered_chains = s.recovered_chains + v.recovered
    FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) AS v(project_id, key, recovered)
    WHERE s.project_id = v.project_id AND s.key = v.key
"""
_HOURS = SentRows[[Place, Added]](
    ("project_id", "bigint", lambda at, _: at.project_id),
    ("dimension", "text", lambda at, _: at.dimension),
    ("value", "text", lambda at, _: at.value),
    ("hour", "timestamptz", lambda at, _: at.hour),
    ("key", "text", lambda at, _: at.key),
    ("sessions", "bigint", lambda _, added: added.sessions),
    ("chains", "bigint", lambda _, added: added.chains),
    ("recovered_chains", "bigint", lambda _, added: added.recovered),
    ("lost_run_seconds", "float8", lambda _, added: added.lost),
)
_INSERT_HOURS = _HOURS.inserted("sessions_app_failurehour AS h")
_ADD_HOURS = f"""
    {_INSERT_HOURS}
    ON CONFLICT (project_id, dimension, value, hour, key) DO UPDATE SET
        sessions = h.sessions + excluded.sessions,
        chains = h.chains + excluded.chains,
        recovered_chains = h.recovered_chains + excluded.recovered_chains,
        lost_run_seconds = h.lost_run_seconds + excluded.lost_run_seconds
"""
_DROP = """
    DELETE FROM sessions_app_failuresignature WHERE id IN (
        SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY project_id ORDER BY last_seen DESC, id DESC)
                AS place
            FROM sessions_app_failuresignature WHERE project_id = ANY(%s::bigint[])) AS counted
        WHERE place > %s)
"""
_FORGET_HOURS = """
    DELETE FROM sessions_app_failurehour WHERE id IN (
        SELECT id FROM sessions_app_failurehour WHERE hour < %s ORDER BY hour LIMIT %s)
"""
_FORGET = "DELETE FROM sessions_app_failuresignature WHERE last_seen < %s"


def failures_count(seconds: float = TASK_SECONDS) -> int:
    """Count what is new in the log, for at most `seconds`. Return the number of ends counted."""
    until = time.monotonic() + seconds
    counted, more = stretch_count()
    while more and time.monotonic() < until:
        found, more = stretch_count()
        counted += found
    return counted


class _Places(NamedTuple):
    """The positions of both readers, the first day that reports count, and the first hour that the
    totals of failures have not passed."""

    failures: Cursor
    reports: Cursor
    first_day: date | None
    summed_until: datetime | None


def stretch_count(limit: int = SLICE) -> tuple[int, bool]:
    """Count the next stretch of the log. Return the number of ends of attempts in it, and whether
    more follows."""
    with atomic_step("failures"):
        lock_failures()
        before, here = _places(), position_here()
        read = stretch_after(before.failures, here, limit)
        ends = ends_between(before.failures, read.reached)
        if ends:
            _write(_figures(ends), before)
        together = before.reports == before.failures
        behind = read if together else _caught_up(before.reports, before.failures, limit)
        if behind.reached != before.reports:
            worth_add(chain_ends(before.reports, behind.reached), before.first_day)
        _move(before, read.place, behind.place)
    return len(ends), read.more or behind.place != read.place


def failures_rebuild(complete_from: datetime | None = None) -> int:
    """Count all of the log anew. Return the number of ends of attempts counted.

    Titles and what is muted stay; signatures that the log no longer has go. The log has all chains
    that ended after `complete_from` (None: all there were): the reports of earlier days stay.
    """
    first_day = None if complete_from is None else complete_from.date() + _DAY
    # What is new is counted first, so that no day that stays lacks anything.
    failures_count(seconds=math.inf)
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sessions_app_failurehour")
            totals_drop()
            cursor.execute(
                "UPDATE sessions_app_failuresignature SET sessions = 0, chains = 0, "
                "recovered_chains = 0, lost_run_seconds = 0"
            )
            cursor.execute(
                "DELETE FROM sessions_app_retryday WHERE day >= %s", [first_day or date.min]
            )
            _set_places({_FAILURES: START, _REPORTS: START})
            cursor.execute(_FIRST_DAY, [first_day])
    counted, more = stretch_count()
    while more:
        found, more = stretch_count()
        counted += found
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sessions_app_failuresignature WHERE sessions = 0")
    return counted


def failures_forget(hours_before: datetime, before: datetime | None, limit: int) -> int:
    """Delete at most `limit` rows of old hours, and signatures not seen since `before`.

    Return the number of rows of hours.
    """
    with atomic_step("failures"):
        lock_failures()
        with connection.cursor() as cursor:
            if before is not None:
                cursor.execute(_FORGET, [before])
            cursor.execute(_FORGET_HOURS, [hours_before, limit])
            return int(cursor.rowcount)


def reports_forget(before: date, limit: int) -> int:
    """Delete at most `limit` rows of reports of days before a day. Return their number."""
    with atomic_step("failures"):
        lock_failures()
        return worth_forget(before, limit)


def _places() -> _Places:
    with connection.cursor() as cursor:
        cursor.execute(_PLACES)
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
    found = {number: Cursor(row[0], int(row[1]), row[2]) for number, row in rows.items()}
    first_day = rows[_REPORTS][3] if _REPORTS in rows else None
    passed = rows[_FAILURES][4] if _FAILURES in rows else None
    return _Places(found.get(_FAILURES, START), found.get(_REPORTS, START), first_day, passed)


def _caught_up(place: Cursor, to: Cursor, limit: int) -> Stretch:
    """Return the next stretch up to a place that was read before; nothing follows it."""
    read = stretch_after(place, to, limit)
    return read if read.more else read._replace(place=to)


def _move(before: _Places, failures: Cursor, reports: Cursor) -> None:
    moved = {_FAILURES: (before.failures, failures), _REPORTS: (before.reports, reports)}
    _set_places({number: to for number, (at, to) in moved.items() if to != at})


def _set_places(places: Mapping[int, Cursor]) -> None:
    if places:
        rows = [
            (number, place.epoch, str(place.xid), place.id)
            for number, place in sorted(places.items())
        ]
        with connection.cursor() as cursor:
            cursor.execute(_SET_PLACES, columns(rows))


def _figures(ends: Sequence[Ended]) -> Figures:
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN, columns(sorted(keys_of(ends))) or ["{}", "{}"])
        known = {(project, key): since for project, key, since in cursor.fetchall()}
        projects = {
            ended.project_id for ended in ends if (ended.project_id, ended.key) not in known
        }
        new: dict[tuple[int, datetime], int] = {}
        if projects:
            oldest = min(ended.time for ended in ends)
            cursor.execute(_NEW, [array(projects), hour_of(oldest)])
            new = {(project, hour): count for project, hour, count in cursor.fetchall()}
    return figures_of(ends, known, lambda project, hour: new.get((project, hour), 0), MOST_NEW)


def _write(figures: Figures, before: _Places) -> None:
    seen = sorted(figures.signatures.items())
    failed = [(at, each) for at, each in seen if each.sessions]
    recovered = [(*at, each.recovered) for at, each in seen if not each.sessions]
    merged = hours_merged(figures.hours)
    with connection.cursor() as cursor:
        if failed:
            cursor.execute(_ADD, _SEEN.arrays(*zip(*failed, strict=True)))
        if figures.grown:
            cursor.execute(_DROP, [array(figures.grown), MOST_OF_PROJECT])
        if recovered:
            cursor.execute(_RECOVER, columns(recovered))
        if merged:
            cursor.execute(_ADD_HOURS, _HOURS.arrays(*zip(*merged, strict=True)))
    totals_outdate((place for place, _ in merged), before.summed_until)
