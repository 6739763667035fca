"""Reads of failures by their signatures, from the figures of days and of the hours around them.

Their cost does not grow with the number of sessions.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.db.bulk import array
from sessions_app.models import Project
from sessions_app.models.failures import Dimension
from sessions_app.selectors.failure_nodes import node_values
from sessions_app.selectors.sessions import project_resolve

BINS = 24
"""Number of the values of a sparkline."""
MOST_DAYS = 31
"""Maximum length of the time that a list spans."""
TOP = 5
ORDERS = ("sessions", "chains", "recovered_chains", "lost_run_seconds", "last_seen", "first_seen")
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)

# The figures of the time: of the days in it that are summed, and of the hours around them.
_AROUND = (
    ("failurehour", "hour >= %(since)s AND hour < %(first)s"),
    ("failurehour", "hour >= %(last)s AND hour < %(until)s"),
)
_DAYS = (("failureday", "day >= %(first_day)s AND day < %(last_day)s"),)
_PARTS = (*_DAYS, *_AROUND)


def _of_parts(select: str, parts: Sequence[tuple[str, str]] = _PARTS) -> str:
    """Return the rows of all parts; the select has the name of the table and the condition."""
    return " UNION ALL ".join(
        select.format(table=f"sessions_app_{table}", time=time) for table, time in parts
    )


# Of one signature also if nothing of it happened in the time.
_ADDED = _of_parts("""
    SELECT project_id, key, sessions, chains, recovered_chains, lost_run_seconds FROM {table}
    WHERE project_id = ANY(%(projects)s::bigint[]) AND dimension = %(dimension)s
        AND value = ANY(%(values)s::text[]) AND {time} AND (%(key)s::text IS NULL OR key = %(key)s)
""")
_LIST = f"""
    WITH figures AS (
        SELECT project_id, key, sum(sessions)::bigint AS sessions, sum(chains)::bigint AS chains,
            sum(recovered_chains)::bigint AS recovered_chains,
            sum(lost_run_seconds) AS lost_run_seconds
        FROM ({_ADDED}) AS added GROUP BY project_id, key)
    SELECT s.id, s.project_id, d.name || '/' || p.name, s.key, s.title, s.cause, s.first_seen,
        s.last_seen, s.example, s.muted, coalesce(f.sessions, 0), coalesce(f.chains, 0),
        coalesce(f.recovered_chains, 0), coalesce(f.lost_run_seconds, 0)
    FROM sessions_app_failuresignature s
    JOIN sessions_app_project p ON p.id = s.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    LEFT JOIN figures f ON f.project_id = s.project_id AND f.key = s.key
    WHERE s.project_id = ANY(%(projects)s::bigint[])
        AND CASE WHEN %(key)s::text IS NULL THEN f.key IS NOT NULL ELSE s.key = %(key)s END
        AND (%(cause)s::text IS NULL OR s.cause = %(cause)s)
        AND (%(muted)s::boolean IS NULL OR s.muted = %(muted)s)
    ORDER BY %(sign)s * CASE %(order)s
            WHEN 'sessions' THEN f.sessions
            WHEN 'chains' THEN f.chains
            WHEN 'recovered_chains' THEN f.recovered_chains
            WHEN 'lost_run_seconds' THEN f.lost_run_seconds
            WHEN 'last_seen' THEN extract(epoch FROM s.last_seen)
            ELSE extract(epoch FROM s.first_seen) END,
        s.last_seen DESC, s.id
    OFFSET %(offset)s LIMIT %(limit)s
"""
_SHOWN = "unnest(%(projects)s::bigint[], %(keys)s::text[]) AS v(project_id, key)"
_OF_SHOWN = """
    h.project_id = v.project_id AND h.key = v.key AND h.dimension = %(dimension)s
    AND h.value = ANY(%(values)s::text[])
"""
_OF_DAYS = _of_parts(
    f"""
    SELECT (%(day_bins)s::int[])[24 * (day - %(first_day)s) + u.place] AS bin, u.sessions
    FROM {{table}} h CROSS JOIN unnest(h.hours) WITH ORDINALITY AS u(sessions, place)
    WHERE {_OF_SHOWN} AND {{time}} AND u.sessions > 0
    """,
    _DAYS,
)
_OF_HOURS = _of_parts(
    f"""
    SELECT v.project_id, v.key, width_bucket(h.hour, %(bins)s::timestamptz[]) - 1, h.sessions
    FROM {_SHOWN} JOIN {{table}} h ON {_OF_SHOWN} AND {{time}}
    """,
    _AROUND,
)
_BINS = f"""
    SELECT v.project_id, v.key, d.bin, d.sessions FROM {_SHOWN} CROSS JOIN LATERAL (
        SELECT bin, sum(sessions)::bigint AS sessions FROM ({_OF_DAYS}) AS d GROUP BY 1) AS d
    UNION ALL {_OF_HOURS}
"""
_VALUES = _of_parts("""
    SELECT value, sessions FROM {table} WHERE project_id = v.project_id AND key = v.key
        AND dimension = d.dimension AND value <> '' AND {time}
""")
_TOP = f"""
    SELECT v.project_id, v.key, d.dimension, t.value, t.sessions
    FROM {_SHOWN} CROSS JOIN unnest(%(dimensions)s::text[]) AS d(dimension) CROSS JOIN LATERAL (
        SELECT h.value, sum(h.sessions)::bigint AS sessions FROM ({_VALUES}) AS h
        GROUP BY 1 HAVING sum(h.sessions) > 0 ORDER BY 2 DESC, 1 LIMIT %(top)s) AS t
    ORDER BY 1, 2, 3, 5 DESC, 4
"""
# Sums of an older release lack their hours, until they are made once more.
_SUMMED = """
    SELECT least(days_before, (SELECT min(day) FROM sessions_app_failureday WHERE hours IS NULL))
    FROM sessions_app_failurereader WHERE id = 1
"""


@dataclass(frozen=True, slots=True)
class FailuresWanted:
    """Which failures are wanted, of which time: from the hour of `since`, before `until`."""

    since: datetime
    until: datetime
    cause: str | None = None
    muted: bool | None = None
    dimension: Dimension = Dimension.ALL
    value: str = ""
    key: str | None = None
    order: str = "sessions"
    descending: bool = True

    @classmethod
    def of(
        cls,
        now: datetime,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        queue: str | None = None,
        image: str | None = None,
        node: str | None = None,
        ordering: str = "-sessions",
        **more: Any,
    ) -> "FailuresWanted":
        """Return what a caller asks for; by default the last day. Raises `InvalidInput`."""
        end = until or now
        begin = since or end - _DAY
        if not begin < end <= begin + MOST_DAYS * _DAY:
            raise InvalidInput({"since": [f"must be before until, and at most {MOST_DAYS} days"]})
        named = {"queue": queue, "image": image, "node": node}
        given = [(name, value) for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise InvalidInput({given[1][0]: ["give only one of queue, image and node"]})
        dimension, value = given[0] if given else ("", "")
        return cls(
            # The last hour is whole: what happens in it counts.
            since=begin.astimezone(UTC).replace(minute=0, second=0, microsecond=0),
            until=end,
            dimension=Dimension(dimension),
            value=value,
            order=ordering.removeprefix("-"),
            descending=ordering.startswith("-"),
            **more,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A signature of failures in a project, with its figures of the asked time."""

    pk: int
    project_id: int
    address: str
    key: str
    title: str
    cause: str
    first_seen: datetime
    last_seen: datetime
    example: UUID
    muted: bool
    sessions: int
    chains: int
    recovered_chains: int
    lost_run_seconds: float
    sparkline: Sequence[int] = ()
    """Failed attempts in each 24th of the time."""
    queues: Sequence[tuple[str, int]] = field(default=())
    """The queues with most of them, with their numbers; likewise the next two."""
    images: Sequence[tuple[str, int]] = field(default=())
    nodes: Sequence[tuple[str, int]] = field(default=())


def failures_listed(
    projects: Sequence[int], wanted: FailuresWanted, *, offset: int = 0, limit: int
) -> list[Failure]:
    """Return the failures of projects, in four statements; by the name of a node in five."""
    by_name = wanted.dimension is Dimension.NODE
    values = node_values(projects, wanted.value) if by_name else [wanted.value]
    figures = {**_times(wanted), "dimension": wanted.dimension.value, "values": array(values)}
    rows = _rows(projects, wanted, figures, offset, limit)
    if not rows:
        return []
    asked: dict[str, Any] = {
        **figures,
        **_bins(figures),
        "projects": array(row.project_id for row in rows),
        "keys": array(row.key for row in rows),
        "dimensions": array([Dimension.QUEUE.value, Dimension.IMAGE.value, Dimension.NODE.value]),
        "top": TOP,
    }
    bins = {(row.project_id, row.key): [0] * BINS for row in rows}
    top: dict[tuple[int, str, str], list[tuple[str, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_BINS, asked)
        for project, key, at, sessions in cursor.fetchall():
            bins[project, key][at] += sessions
        cursor.execute(_TOP, asked)
        for project, key, dimension, value, sessions in cursor.fetchall():
            top.setdefault((project, key, dimension), []).append((value, sessions))
    return [
        replace(
            row,
            sparkline=bins[row.project_id, row.key],
            queues=top.get((row.project_id, row.key, Dimension.QUEUE.value), ()),
            images=top.get((row.project_id, row.key, Dimension.IMAGE.value), ()),
            nodes=top.get((row.project_id, row.key, Dimension.NODE.value), ()),
        )
        for row in rows
    ]


def failure_found(project: Project, wanted: FailuresWanted) -> Failure:
    """Return the failure with the wanted key. Raises `NotFound`."""
    found = failures_listed([project.pk], wanted, limit=1)
    if not found:
        raise NotFound(f"no failure {wanted.key} in project {project.address}")
    return found[0]


def failure_project(actor: Actor, key: str, address: str | None, action: Action) -> Project:
    """Return the project of a failure: the named one, the token's, or the default one.

    Raises `NotFound` for one that the actor may not see, `InvalidInput` if none is given or set,
    `NotPermitted`.
    """
    try:
        return project_resolve(actor, address, action)
    except InvalidInput:
        if address is None or "/" not in address:
            raise
    raise NotFound(f"no failure {key} in project {address}")


def _times(wanted: FailuresWanted) -> dict[str, Any]:
    """Return the time, and the days in it that are summed: from `first` to before `last`."""
    first = wanted.since.replace(hour=0)
    first += _DAY if first < wanted.since else timedelta()
    last = wanted.until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if first < last:
        with connection.cursor() as cursor:
            cursor.execute(_SUMMED)
            row = cursor.fetchone()
        summed = row[0] if row and row[0] else first.date()
        last = min(last, datetime(summed.year, summed.month, summed.day, tzinfo=UTC))
    if first >= last:
        first = last = wanted.until
    days = {"first_day": first.date(), "last_day": last.date()}
    return {"since": wanted.since, "until": wanted.until, "first": first, "last": last, **days}


def _bins(times: dict[str, Any]) -> dict[str, Any]:
    """Return the begins of the bins, and the bin of each hour of the days that are summed."""
    since, until, first = times["since"], times["until"], times["first"]
    begins = [since - (since - until) * at // BINS for at in range(BINS)]
    hours = (times["last"] - first) // _HOUR
    return {
        "bins": array(begins),
        "day_bins": array(bisect(begins, first + at * _HOUR) - 1 for at in range(hours)),
    }


def _rows(
    projects: Sequence[int],
    wanted: FailuresWanted,
    figures: dict[str, Any],
    offset: int,
    limit: int,
) -> list[Failure]:
    asked: dict[str, Any] = {
        **figures,
        "projects": array(projects),
        "key": wanted.key,
        "cause": wanted.cause,
        "muted": wanted.muted,
        "order": wanted.order,
        "sign": -1 if wanted.descending else 1,
        "offset": offset,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LIST, asked)
        return [Failure(*row) for row in cursor.fetchall()]
