"""Reads of failures by their signatures, from running totals and the hours around these.

Their cost does not grow with the number of sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from sessions_app.authorization import Action, Actor
from sessions_app.core.asked_times import times_checked
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.db.bulk import array
from sessions_app.models import Project
from sessions_app.models.failures import Dimension
from sessions_app.selectors.failure_nodes import node_values
from sessions_app.selectors.failure_windows import MOST_FREQUENT, OF_SIGNATURES, SPARKLINES
from sessions_app.selectors.sessions import project_resolve

BINS = 24
"""Number of the values of a sparkline."""
MOST_DAYS = 31
"""Maximum length of the time that a list spans."""
TOP = 5
ORDERS = ("sessions", "chains", "recovered_chains", "lost_run_seconds", "last_seen", "first_seen")
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)

_LIST = f"""
    WITH figures AS ({OF_SIGNATURES})
    SELECT s.id, s.project_id, (SELECT d.name || '/' || p.name FROM sessions_app_project p
            JOIN sessions_app_domain d ON d.id = p.domain_id WHERE p.id = s.project_id),
        s.key, s.title, s.cause, s.exit_code, s.first_seen, s.last_seen, s.example, s.muted,
        f.sessions, f.chains, f.recovered_chains, f.lost_run_seconds
    FROM figures f
    JOIN sessions_app_failuresignature s ON s.project_id = f.project_id AND s.key = f.key
    WHERE (%(cause)s::text IS NULL OR s.cause = %(cause)s)
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
        times_checked(since=since, until=until)
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
    exit_code: int | None
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
    """Return the failures of projects, in three statements; by the name of a node in four."""
    by_name = wanted.dimension is Dimension.NODE
    values = node_values(projects, wanted.value) if by_name else [wanted.value]
    figures = {
        "since": wanted.since,
        "until": _hour_from(wanted.until),
        "dimension": wanted.dimension.value,
        "values": array(values),
    }
    rows = _rows(projects, wanted, figures, offset, limit)
    return _with_places(rows, {**figures, **_bins(wanted)}) if rows else []


def _with_places(rows: Sequence[Failure], figures: dict[str, Any]) -> list[Failure]:
    """Return the failures of a page with their sparklines, and with where most of them were."""
    asked: dict[str, Any] = {
        **figures,
        "projects": array(row.project_id for row in rows),
        "keys": array(row.key for row in rows),
        "dimensions": array([Dimension.QUEUE.value, Dimension.IMAGE.value, Dimension.NODE.value]),
        "top": TOP,
    }
    bins = {(row.project_id, row.key): [0] * BINS for row in rows}
    top: dict[tuple[int, str, str], list[tuple[str, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(SPARKLINES, asked)
        for project, key, at, sessions in cursor.fetchall():
            bins[project, key][at] = sessions
        cursor.execute(MOST_FREQUENT, asked)
        for project, key, dimension, value, sessions in cursor.fetchall():
            top.setdefault((project, key, dimension), []).append((value, sessions))
    return [
        replace(
            row,
            # A difference of totals is not exact to the last digit.
            lost_run_seconds=round(row.lost_run_seconds, 6),
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


def _bins(wanted: FailuresWanted) -> dict[str, Any]:
    """Return the times of the bins. What is counted of an hour is in the bin in which it begins."""
    since, until = wanted.since, wanted.until
    hours = [_hour_from(since - (since - until) * at // BINS) for at in range(BINS + 1)]
    return {"begins": array(hours[:-1]), "ends": array(hours[1:])}


def _hour_from(time: datetime) -> datetime:
    """Return the first hour that begins at a time or after it."""
    hour = time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return hour if hour == time else hour + _HOUR


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
