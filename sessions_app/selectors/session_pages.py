"""Filters of sessions, and pages of them, at a cost that does not depend on their number.

Every condition has an index of the form `(project, condition, id)`. One `LATERAL` for each project
reads its few newest matches, and a page is the newest of those. Without such a condition, there is
one `LATERAL` for each queue of each project. So rare sessions are not searched for among all, and
frequent ones are not all sorted. The conditions of partial indexes appear as constants in the text,
since PostgreSQL keeps one plan for all parameter values.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from retry.evidence.causes import RetryCause
from sessions_app.authorization import Actor, require_user
from sessions_app.core.states import Phase, RetryState, Status, phase_of, resting
from sessions_app.db.joined_rows import read_rows
from sessions_app.models import Session
from sessions_app.models.sessions import SessionType
from sessions_app.selectors.session_rows import listed_rows

CLOCKS_APART = 600.0
"""Seconds by which clocks may differ: an id has its process's time, the row the database's."""
COUNTED = 10_000
SEARCHED = 10_000
"""The most sessions whose specifications a page looks at: no index has what is in these."""
# The order of the indexes, which is not the primary key's: see `NEWEST` of the model.
_NEWEST, _OLDEST = "DESC NULLS LAST", "ASC NULLS FIRST"
_FIRST, _LAST = "0" * 32, "f" * 32


@dataclass(slots=True)
class Where:
    """Conditions on a session `s` of the project `p` in the domain `d`; all must hold."""

    conditions: list[str] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)

    def add(self, condition: str, *parameters: Any) -> None:
        """Add a condition; each `%s` in it stands for a parameter."""
        self.conditions.append(condition)
        self.parameters += parameters

    @property
    def sql(self) -> str:
        """Return all conditions as SQL."""
        return " AND ".join(self.conditions) or "true"


@dataclass(frozen=True, slots=True)
class SessionsWanted:
    """The filters of sessions; None matches all. See `GET /sessions/`."""

    project: str | None = None
    queue: str | None = None
    job_set: str | None = None
    status: Status | None = None
    session_type: str | None = None
    retry_cause: RetryCause | None = None
    failure_category: str | None = None
    signature: str | None = None
    retry_state: RetryState | None = None
    exit_code: int | None = None
    root: UUID | None = None
    parent: UUID | None = None
    tip: bool | None = None
    owner: str | None = None
    executor: str | None = None
    node: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    search: str | None = None

    def places(self) -> Where:
        """Return the conditions on the projects."""
        found = Where()
        if self.project is not None:
            domain, _, name = self.project.partition("/")
            found.add("d.name = %s AND p.name = %s", domain, name)
        return found

    def sessions(self) -> Where:
        """Return the conditions on the sessions of a project."""
        found = self._place()
        for name, condition in _CONDITIONS.items():
            value = getattr(self, name)
            if value is not None:
                found.add(condition, *[value] * condition.count("%s"))
        if self.status is not None:
            _of_status(found, self.status)
        if self.retry_cause is not None:
            found.add(f"s.phase = 'final' AND s.retry_cause = '{self.retry_cause.value}'")
        if self.retry_state is not None:
            found.add(_of_retry_state(self.retry_state))
        if self.exit_code is not None:
            found.add("s.exit_code = 0" if self.exit_code == 0 else "s.exit_code <> 0")
        if self.tip is not None:
            found.add("s.tip" if self.tip else f"NOT s.tip AND {_UNRESTED}")
        self._time(found)
        if self.search:
            _search(found, self.search)
        return found

    @property
    def by_queue(self) -> bool:
        """Whether no filter has an index of its own: the newest of each queue are read for them."""
        if self.tip is False or self.session_type not in {None, SessionType.BATCH}:
            return False
        return all(getattr(self, name) is None for name in _INDEXED)

    def places_read(self) -> str:
        """Return the tables of whose rows each is looked at: projects, or all their queues."""
        return f"{_PROJECTS} {_QUEUES}" if self.by_queue else _PROJECTS

    def source(self) -> tuple[str, str]:
        """Return the tables to read, and the column that has the id in the order of the index."""
        if self.retry_state is RetryState.SCHEDULED:
            return _SCHEDULED, "w.session_id"
        return "sessions_app_session s", "s.id"

    def parts(self) -> Sequence[str]:
        """Return conditions of which each session has one: every part has an index of its own."""
        if self.status is Status.PENDING:
            return _PENDING
        if self.status is Status.CANCELLED and self.retry_cause is None:
            return _CANCELLED
        if self.retry_state is RetryState.NONE:
            return _UNFINISHED if self.executor is None else [_LIVE]
        if self.executor is None:
            return _WITHOUT_AND_WITH_CAUSE if self._succeeded else ["true"]
        # What waits has no executor; what has another retry state has ended.
        return [_LIVE, _FINAL] if self.retry_state is None else [_FINAL]

    @property
    def _succeeded(self) -> bool:
        """Whether successes are meant, and no other filter tells the causes."""
        if self.status is not None or self.retry_cause is not None:
            return False
        if self.retry_state is None:
            return self.exit_code == 0
        return self.retry_state is RetryState.SUCCEEDED

    def _place(self) -> Where:
        """Return the conditions that lead to the index which is read."""
        found = Where()
        if self.by_queue:
            found.add("s.queue_id = q.id")
        if self.search or self.executor is not None or not (self.by_queue or self.queue):
            found.add("s.project_id = p.id")
        if self.session_type not in {None, SessionType.BATCH}:
            found.add("s.session_type <> 'batch'")
        return found

    def _time(self, found: Where) -> None:
        """Add conditions on the creation time and on the id, which grows with it."""
        if self.created_after is not None:
            first = _id_at(self.created_after.timestamp() - CLOCKS_APART, _FIRST)
            found.add("s.created_at >= %s AND s.id >= %s", self.created_after, first)
        if self.created_before is not None:
            last = _id_at(self.created_before.timestamp() + CLOCKS_APART, _LAST)
            found.add("s.created_at < %s AND s.id <= %s", self.created_before, last)


_PROJECTS = "sessions_app_project p JOIN sessions_app_domain d ON d.id = p.domain_id"
_QUEUES = "JOIN sessions_app_queue q ON q.project_id = p.id"
_SCHEDULED = """
    sessions_app_retrydecision w JOIN sessions_app_session s
        ON s.id = w.session_id AND w.state = 'scheduled' AND w.project_id = p.id
"""
_UNRESTED = "s.phase = 'final' AND s.resting = ''"
"""Holds for each session that has been retried; an index on `tip` would be written to by each
dispatch."""
_BLOCKED, _WAITING, _LIVE, _FINAL = (f"s.phase = '{phase.value}'" for phase in Phase)
_PENDING = [_BLOCKED, _WAITING]
_UNFINISHED = [*_PENDING, _LIVE]
_WITHOUT_AND_WITH_CAUSE = [f"{_FINAL} AND s.retry_cause = ''", "s.retry_cause <> ''"]
# Sessions without a value have an empty text.
_CONDITIONS = {
    "queue": "s.queue_id = (SELECT q.id FROM sessions_app_queue q "
    "WHERE q.project_id = p.id AND q.name = %s)",
    "job_set": "s.job_set = %s AND s.job_set <> ''",
    "session_type": "s.session_type = %s",
    "failure_category": "s.failure_category = %s AND s.failure_category <> ''",
    "signature": "s.failure_signature = %s AND s.failure_signature <> ''",
    "exit_code": "s.exit_code = %s",
    "root": "s.root_id = %s",
    "parent": "s.root_id = (SELECT f.root_id FROM sessions_app_session f WHERE f.id = %s) "
    "AND s.parent_id = %s",
    "owner": "s.owner_id = (SELECT u.id FROM auth_user u WHERE u.username = %s)",
    "executor": "s.executor = %s AND s.executor <> ''",
    "node": "s.node = %s AND s.node <> ''",
}
_INDEXED = frozenset(_CONDITIONS) - {"session_type"} | {"status", "retry_cause", "retry_state"}
_CAUSES = {
    Status.TERMINATED: "s.retry_cause = ''",
    Status.ERROR: "s.retry_cause NOT IN ('', 'user_cancelled', 'dependency_failed')",
}
_CANCELLED = [
    "s.retry_cause = 'user_cancelled'",
    "s.retry_cause = 'dependency_failed'",
]
"""The condition on the cause that follows from a final status. An index on the status would be
written to at every change of status."""


def _of_status(found: Where, status: Status) -> None:
    found.add(f"s.status = '{status.value}'")
    if status is not Status.PENDING:
        found.add(f"s.phase = '{phase_of(status).value}'")
    if status in _CAUSES:
        found.add(_CAUSES[status])


def _of_retry_state(state: RetryState) -> str:
    if resting(state):
        return f"s.resting = '{state.value}'"
    condition = f"s.retry_state = '{state.value}'"
    return f"{condition} AND {_UNRESTED}" if state is RetryState.RETRIED else condition


def _id_at(seconds: float, rest: str) -> UUID:
    """Return the first or the last UUIDv7 of a moment since 1970, or the nearest possible one."""
    milliseconds = min(max(0, round(seconds * 1000)), 2**48 - 1)
    return UUID(f"{milliseconds:012x}{rest}"[:32])


def _search(found: Where, text: str) -> None:
    pattern = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    name, ids = "s.name LIKE %s AND s.name <> ''", ids_beginning(text)
    if ids is None:
        found.add(name, pattern)
    else:
        found.add(f"({name} OR s.id BETWEEN %s AND %s)", pattern, *ids)


def ids_beginning(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id that begin with `text`; None if no id can."""
    compact = text.replace("-", "").lower()
    if len(compact) > 32 or not all(letter in "0123456789abcdef" for letter in compact):
        return None
    return UUID((compact + _FIRST)[:32]), UUID((compact + _LAST)[:32])


@dataclass(frozen=True, slots=True)
class SpecWanted:
    """Filters by the specification. They look at the newest `SEARCHED` sessions that match all
    other filters, an equal share of each project or queue."""

    image: str | None = None
    """A part of its name."""
    label: str | None = None
    """`name=value`, or the name alone."""

    def conditions(self) -> Where:
        """Return the conditions on the specification `c`; none if there is no filter."""
        found = Where()
        if self.image is not None:
            found.add("strpos(c.image, %s) > 0", self.image)
        if self.label is not None:
            name, equals, value = self.label.partition("=")
            if equals:
                found.add("c.labels @> %s::jsonb", json.dumps({name: value}))
            else:
                found.add("jsonb_exists(c.labels, %s)", name)
        return found


ANY_SPEC = SpecWanted()


@dataclass(frozen=True, slots=True)
class Place:
    """The start of a page: the first session, or after the one with the id `beyond`."""

    limit: int
    newest_first: bool = True
    beyond: UUID | None = None


def sessions_page(
    actor: Actor, wanted: SessionsWanted, place: Place, spec: SpecWanted = ANY_SPEC
) -> list[Session]:
    """Return at most `limit` sessions that the actor may see, with everything that lists show."""
    ids, parameters = _ids(actor, wanted, place, spec)
    return listed_rows(ids, parameters, order="DESC" if place.newest_first else "ASC")


def sessions_matching(
    actor: Actor, wanted: SessionsWanted, spec: SpecWanted, limit: int
) -> list[UUID]:
    """Return the ids of at most `limit` sessions that the actor may see, newest first."""
    return [row[0] for row in read_rows(*_ids(actor, wanted, Place(limit), spec))]


def sessions_left(actor: Actor, wanted: SessionsWanted, after: UUID) -> int:
    """Return how many sessions follow one, newest first; counted up to `COUNTED`."""
    return _counted(*_ids(actor, wanted, Place(COUNTED, beyond=after), ANY_SPEC))


def sessions_count(actor: Actor, wanted: SessionsWanted, spec: SpecWanted) -> int:
    """Return how many sessions match, counted up to `COUNTED`."""
    return _counted(*_ids(actor, wanted, Place(COUNTED), spec))


def _counted(ids: str, parameters: Sequence[Any]) -> int:
    ((count,),) = read_rows(f"SELECT count(*) FROM ({ids}) counted", parameters)
    return int(count)


def _ids(
    actor: Actor, wanted: SessionsWanted, place: Place, spec: SpecWanted
) -> tuple[str, Sequence[Any]]:
    """Return a statement for the ids of a page, and its parameters."""
    require_user(actor)
    projects, sessions = wanted.places(), wanted.sessions()
    visible_only(actor, projects)
    _, key = wanted.source()
    sign, order = ("<", _NEWEST) if place.newest_first else (">", _OLDEST)
    if place.beyond is not None:
        sessions.add(f"{key} {sign} %s", place.beyond)
    if spec == ANY_SPEC:
        limits = place.limit, place.limit
        return _found(wanted, projects, sessions, order, limits)
    conditions, limits = spec.conditions(), (_share(wanted, projects), SEARCHED)
    sql, parameters = _found(wanted, projects, sessions, order, limits)
    specified = f"""
        SELECT page.id FROM ({sql}) page JOIN sessions_app_session s ON s.id = page.id
        JOIN sessions_app_sessionspec c ON c.id = s.spec_id
        WHERE {conditions.sql} ORDER BY page.id {order} LIMIT {place.limit:d}
    """
    return specified, [*parameters, *conditions.parameters]


def _share(wanted: SessionsWanted, projects: Where) -> int:
    """Return how many sessions of each project, or of each queue, are looked at."""
    ((count,),) = read_rows(
        f"SELECT count(*) FROM {wanted.places_read()} WHERE {projects.sql}", projects.parameters
    )
    return max(SEARCHED // max(int(count), 1), 1)


def _found(
    wanted: SessionsWanted, projects: Where, sessions: Where, order: str, limits: tuple[int, int]
) -> tuple[str, Sequence[Any]]:
    """Return a statement for ids, and its parameters.

    The limits are those of each project or queue, and of all together.
    """
    (tables, key), parts, (each, most) = wanted.source(), wanted.parts(), limits
    newest = " UNION ALL ".join(
        f"""(
            SELECT s.id FROM {tables} WHERE {sessions.sql} AND {part}
            ORDER BY {key} {order} LIMIT {each:d}
        )"""
        for part in parts
    )
    sql = f"""
        SELECT found.id FROM {wanted.places_read()}
        CROSS JOIN LATERAL ({newest}) found
        WHERE {projects.sql} ORDER BY found.id {order} LIMIT {most:d}
    """
    return sql, [*sessions.parameters * len(parts), *projects.parameters]


def visible_only(actor: Actor, projects: Where) -> None:
    """Restrict the projects `p` to those that the actor may see."""
    if actor.only_project_id is not None:
        projects.add("p.id = %s", actor.only_project_id)
    if actor.is_superuser:
        return
    projects.add("(p.id = ANY(%s) OR p.domain_id = ANY(%s))", *actor.places_with_role())
