"""What retries were worth, from the figures of days: the cost does not grow with the sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from retry.advice import sentences
from sessions_app.core.asked_times import times_checked
from sessions_app.core.errors import InvalidInput
from sessions_app.core.retry_worth import Dimension, Worth, percentile, worth_of
from sessions_app.db.bulk import array
from sessions_app.models import RetryAdvice
from sessions_app.selectors.ended_chains import Wanted, ended_chains

DAY = "day"
GROUPS = (*(each.value for each in Dimension if each), DAY)
"""By what a report can tell chains apart."""
MOST_DAYS = 366
"""Maximum length of the time of a report."""
DEFAULT_DAYS = 30
TOP = 1_000
"""Maximum number of values of a report; all others are one row."""
ADVICE_KEPT = timedelta(days=3)
"""How long advice is shown: it is about the 30 days before it was computed."""
_DAY = timedelta(days=1)

# A node may be given by its name alone.
_HAVING = """
    (%(value)s::text IS NULL OR value = %(value)s
        OR dimension = 'node' AND right(value, length(%(value)s) + 1) = '/' || %(value)s)
"""
# The values that cost most have rows of their own; all others, and those that were others on their
# day already, are the row "".
_FIGURES = f"""
    WITH figures AS (
        SELECT {{key}} AS key, sum(chains)::bigint AS chains, sum(retried)::bigint AS retried,
            sum(recovered)::bigint AS recovered, sum(given_up)::bigint AS given_up,
            sum(cancelled)::bigint AS cancelled, sum(attempts)::bigint AS attempts,
            sum(run) AS run, sum(rescued) AS rescued, sum(wasted) AS wasted,
            sum(waiting) AS waiting
        FROM sessions_app_retryday
        WHERE project_id = ANY(%(projects)s::bigint[]) AND dimension = %(dimension)s
            AND day >= %(since)s AND day < %(until)s
            AND {_HAVING}
        GROUP BY 1
    ), placed AS (
        SELECT *, row_number() OVER (ORDER BY key = '', wasted DESC, chains DESC, key) AS place
        FROM figures)
    SELECT CASE WHEN place <= %(top)s THEN key ELSE '' END, sum(chains)::bigint,
        sum(retried)::bigint, sum(recovered)::bigint, sum(given_up)::bigint,
        sum(cancelled)::bigint, sum(attempts)::bigint, sum(run), sum(rescued), sum(wasted),
        sum(waiting)
    FROM placed GROUP BY 1 ORDER BY min(place)
"""
_RECOVERIES = f"""
    SELECT CASE WHEN d.key = ANY(%(shown)s::text[]) THEN d.key ELSE '' END, u.bucket - 1,
        sum(u.chains)::bigint
    FROM (SELECT {{key}} AS key, recoveries FROM sessions_app_retryday
        WHERE project_id = ANY(%(projects)s::bigint[]) AND dimension = %(dimension)s
            AND day >= %(since)s AND day < %(until)s
            AND {_HAVING} AND recovered > 0) AS d
    CROSS JOIN LATERAL unnest(d.recoveries) WITH ORDINALITY AS u(chains, bucket)
    WHERE u.chains > 0 GROUP BY 1, 2
"""
_DAYS = f"""
    SELECT day::text, CASE WHEN value = ANY(%(shown)s::text[]) THEN value ELSE '' END,
        sum(chains)::bigint, sum(retried)::bigint, sum(recovered)::bigint, sum(given_up)::bigint,
        sum(cancelled)::bigint, sum(attempts)::bigint, sum(run), sum(rescued), sum(wasted),
        sum(waiting)
    FROM sessions_app_retryday
    WHERE project_id = ANY(%(projects)s::bigint[]) AND dimension = %(dimension)s
        AND day >= %(since)s AND day < %(until)s
        AND {_HAVING}
    GROUP BY 1, 2
"""
_KEYS = {DAY: "day::text", "": "value"}
_TITLES = """
    SELECT DISTINCT ON (key) key, title FROM sessions_app_failuresignature
    WHERE project_id = ANY(%s::bigint[]) AND key = ANY(%s::text[]) AND title <> ''
    ORDER BY key, last_seen DESC
"""


@dataclass(frozen=True, slots=True)
class ReportWanted:
    """Of which days a report is wanted, from `since` to before `until`, and by what."""

    since: date
    until: date
    by: str = Dimension.CAUSE
    having: Mapping[Dimension, str] = field(default_factory=dict)
    """Only attempts with these values, and the chains that have one."""

    @classmethod
    def of(
        cls,
        now: datetime,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        by: str = Dimension.CAUSE,
        **having: str | None,
    ) -> "ReportWanted":
        """Return what a caller asks for; by default the last 30 days. Raises `InvalidInput`.

        Days (UTC) count as a whole. `having` has the values of dimensions, by their names.
        """
        times_checked(since=since, until=until)
        end = (until or now).astimezone(UTC)
        last = end.date() if end.timetz() == _MIDNIGHT else end.date() + _DAY
        first = since.astimezone(UTC).date() if since else last - DEFAULT_DAYS * _DAY
        if not first < last <= first + MOST_DAYS * _DAY:
            raise InvalidInput({"since": [f"must be before until, and at most {MOST_DAYS} days"]})
        given = {name: value for name, value in having.items() if value is not None}
        named = {Dimension(name): str(value) for name, value in given.items()}
        return cls(first, last, by, named)

    @property
    def days(self) -> list[date]:
        """Return the days, in order."""
        return [self.since + at * _DAY for at in range((self.until - self.since).days)]


_MIDNIGHT = time(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one value; `value` is None for those beyond the first 1,000."""

    value: str | None
    worth: Worth
    title: str = ""
    """Of a signature: that of its failures."""

    def percentile(self, share: float) -> float | None:
        """Return the seconds that this share of the recoveries took at most; None for none."""
        return percentile(self.worth.recoveries, share)


Cells = Mapping[tuple[str, str], Worth]
"""Figures by day and value."""


@dataclass(frozen=True, slots=True)
class Report:
    """What retries were worth in a time: all together, and by what was asked for."""

    wanted: ReportWanted
    total: Row
    rows: Sequence[Row]
    days: Mapping[str, Worth]
    """The figures of each day that has any."""
    cells: Cells | None = None
    """Those of each value in it, if they were read from the sessions."""
    advice: Sequence[str] = ()
    """Sentences about the 30 days before `advised_at`, if the report is about one project."""
    advised_at: datetime | None = None
    """When the advice was computed, also if there was nothing to say; None without any."""


def retry_report(projects: Sequence[int], wanted: ReportWanted) -> Report:
    """Return the report of projects, in at most six statements.

    Figures with several filters, or by something else than the only one, are those of sessions.
    Raises `TooLarge` if these are too many.
    """
    if not wanted.having or (len(wanted.having) == 1 and wanted.by in {*wanted.having, DAY}):
        days, cells = _rolled_up(projects, wanted, DAY), None
        found = {} if wanted.by == DAY else _rolled_up(projects, wanted, wanted.by)
    else:
        days, cells = _of_sessions(projects, wanted)
        found = _by_value(cells)
    total = Worth()
    for worth in days.values():
        total.add(worth)
    if wanted.by == DAY:
        rows = [Row(str(day), days.get(str(day), Worth())) for day in wanted.days]
    else:
        titles = _titles(projects, list(found)) if wanted.by == Dimension.SIGNATURE else {}
        rows = [Row(key or None, worth, titles.get(key, "")) for key, worth in found.items()]
    advice, at = _advice(projects[0]) if len(projects) == 1 else ([], None)
    return Report(wanted, Row(None, total), rows, days, cells, advice, at)


def _advice(project_id: int) -> tuple[list[str], datetime | None]:
    """Return the advice about a project, and when it was computed."""
    kept = RetryAdvice.objects.filter(project=project_id, computed_at__gte=Now() - ADVICE_KEPT)
    found = kept.first()
    return ([], None) if found is None else (sentences(found.facts), found.computed_at)


def _of_sessions(projects: Sequence[int], wanted: ReportWanted) -> tuple[dict[str, Worth], Cells]:
    """Return the figures by day, and by day and value."""
    days: dict[str, Worth] = {}
    cells: dict[tuple[str, str], Worth] = {}
    asked = Wanted(projects, wanted.since, wanted.until, wanted.having, wanted.by)
    at_once, chains = ended_chains(asked)
    for group in at_once:
        days.setdefault(group.day, Worth()).add(group.worth)
        if group.value:
            cells.setdefault((group.day, group.value), Worth()).add(group.worth)
    for chain in chains:
        day = str(chain.attempts[-1].finished_at.astimezone(UTC).date())
        for (dimension, value), worth in worth_of(*chain, wanted.having).items():
            if dimension is Dimension.ALL:
                days.setdefault(day, Worth()).add(worth)
            elif dimension == wanted.by:
                cells.setdefault((day, value), Worth()).add(worth)
    return days, cells


def _by_value(cells: Cells) -> dict[str, Worth]:
    """Return the figures by value, those that cost most first."""
    found: dict[str, Worth] = {}
    for (_, value), worth in cells.items():
        found.setdefault(value, Worth()).add(worth)
    most = sorted(found, key=lambda value: (-found[value].wasted, -found[value].chains, value))
    shown = {value: found[value] for value in most[:TOP]}
    for value in most[TOP:]:
        shown.setdefault("", Worth()).add(found[value])
    return shown


def _rolled_up(projects: Sequence[int], wanted: ReportWanted, by: str) -> dict[str, Worth]:
    """Return the figures by day or value, those that cost most first. Two statements."""
    only = next(iter(wanted.having), Dimension.ALL)
    asked: dict[str, Any] = {
        "projects": array(projects),
        "dimension": only.value if by == DAY else by,
        "value": wanted.having.get(only),
        "since": wanted.since,
        "until": wanted.until,
        "top": TOP if by != DAY else MOST_DAYS,
    }
    key = _KEYS[DAY if by == DAY else ""]
    with connection.cursor() as cursor:
        cursor.execute(_FIGURES.format(key=key), asked)
        found = {row[0]: Worth(*row[1:]) for row in cursor.fetchall()}
        cursor.execute(_RECOVERIES.format(key=key), {**asked, "shown": array(found)})
        for value, bucket, chains in cursor.fetchall():
            if value in found:  # the sweep may have brought another between the two statements
                found[value].recoveries[bucket] = chains
    return found


def days_of_values(projects: Sequence[int], report: Report, values: Sequence[str]) -> Cells:
    """Return the figures of a report by day, of each of the values and of all others ("").

    One statement, and none if the report was read from the sessions. Times to recover are left out.
    """
    if report.cells is not None:
        return _with_others(report.cells, values)
    wanted = report.wanted
    asked: dict[str, Any] = {
        "projects": array(projects),
        "dimension": wanted.by,
        "value": next(iter(wanted.having.values()), None),
        "since": wanted.since,
        "until": wanted.until,
        "shown": array(values),
    }
    with connection.cursor() as cursor:
        cursor.execute(_DAYS, asked)
        return {(row[0], row[1]): Worth(*row[2:]) for row in cursor.fetchall()}


def _with_others(cells: Cells, values: Sequence[str]) -> Cells:
    found: dict[tuple[str, str], Worth] = {}
    for (day, value), worth in cells.items():
        found.setdefault((day, value if value in values else ""), Worth()).add(worth)
    return found


def _titles(projects: Sequence[int], keys: Sequence[str]) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(_TITLES, [array(projects), array(keys)])
        return dict(cursor.fetchall())
