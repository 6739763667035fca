"""Filters of sessions, and pages of them, at a cost that does not depend on their number.

Every condition has an index of the form `(project, condition, id)`. One `LATERAL` for each project
reads its few newest matches, and a page is the newest of those. So rare sessions are not searched
for among all, and frequent ones are not all sorted. The conditions of partial indexes appear as
constants in the text, since PostgreSQL keeps one plan for all parameter values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from retry.evidence.causes import RetryCause
from sessions_app.authorization import Actor, require_user
from sessions_app.core.states import Phase, RetryState, Status, phase_of
from sessions_app.db.joined_rows import read_rows
from sessions_app.models import Session
from sessions_app.selectors.session_rows import listed_rows

CLOCKS_APART = 600.0
"""Seconds by which clocks may differ: an id has its process's time, the row the database's."""
COUNTED = 10_000
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
        found = Where()
        if self.queue is None:
            found.add("s.project_id = p.id")
        for name, condition in _CONDITIONS.items():
            value = getattr(self, name)
            if value is not None:
                found.add(condition, value)
        if self.status is not None:
            _of_status(found, self.status)
        if self.retry_cause is not None:
            found.add(f"s.phase = 'final' AND s.retry_cause = '{self.retry_cause.value}'")
        if self.retry_state is not None:
            found.add(f"s.retry_state = '{self.retry_state.value}'")
        if self.retry_state is RetryState.RETRIED:
            found.add("NOT s.tip")  # the same sessions, by their index
        if self.tip is not None:
            found.add("s.tip" if self.tip else "NOT s.tip")
        self._time(found)
        if self.search:
            _search(found, self.search)
        return found

    def parts(self) -> Sequence[str]:
        """Return conditions of which each session has one: every part has an index of its own."""
        return _UNFINISHED if self.retry_state is RetryState.NONE else ["true"]

    def _time(self, found: Where) -> None:
        """Add conditions on the creation time and on the id, which grows with it."""
        if self.created_after is not None:
            first = _id_at(self.created_after.timestamp() - CLOCKS_APART, _FIRST)
            found.add("s.created_at >= %s AND s.id >= %s", self.created_after, first)
        if self.created_before is not None:
            last = _id_at(self.created_before.timestamp() + CLOCKS_APART, _LAST)
            found.add("s.created_at < %s AND s.id <= %s", self.created_before, last)


_UNFINISHED = [f"s.phase = '{phase.value}'" for phase in (Phase.WAITING, Phase.LIVE)]
# Sessions without a value have an empty text.
_CONDITIONS = {
    "queue": "s.queue_id = (SELECT q.id FROM sessions_app_queue q "
    "WHERE q.project_id = p.id AND q.name = %s)",
    "job_set": "s.job_set = %s AND s.job_set <> ''",
    "session_type": "s.session_type = %s",
    "failure_category": "s.failure_category = %s AND s.failure_category <> ''",
    "exit_code": "s.exit_code = %s",
    "root": "s.root_id = %s",
    "parent": "s.parent_id = %s",
    "owner": "s.owner_id = (SELECT u.id FROM auth_user u WHERE u.username = %s)",
    "executor": "s.executor = %s AND s.executor <> ''",
    "node": "s.node = %s AND s.node <> ''",
}
_CAUSES = {
    Status.TERMINATED: "s.retry_cause = ''",
    Status.CANCELLED: "s.retry_cause = 'user_cancelled'",
    Status.ERROR: "s.retry_cause NOT IN ('', 'user_cancelled')",
}
"""The condition on the cause that follows from a final status. An index on the status would be
written to at every change of status."""


def _of_status(found: Where, status: Status) -> None:
    found.add(f"s.status = '{status.value}' AND s.phase = '{phase_of(status).value}'")
    if phase_of(status) is Phase.FINAL:
        found.add(_CAUSES[status])


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
class Place:
    """The start of a page: the first session, or after the one with the id `beyond`."""

    limit: int
    newest_first: bool = True
    beyond: UUID | None = None


def sessions_page(actor: Actor, wanted: SessionsWanted, place: Place) -> list[Session]:
    """Return at most `limit` sessions that the actor may see, with everything that lists show."""
    ids, parameters = _ids(actor, wanted, place)
    return listed_rows(ids, parameters, order="DESC" if place.newest_first else "ASC")


def sessions_left(actor: Actor, wanted: SessionsWanted, after: UUID) -> int:
    """Return how many sessions follow one, newest first; counted up to `COUNTED`."""
    ids, parameters = _ids(actor, wanted, Place(COUNTED, beyond=after))
    ((count,),) = read_rows(f"SELECT count(*) FROM ({ids}) left_over", parameters)
    return int(count)


def _ids(actor: Actor, wanted: SessionsWanted, place: Place) -> tuple[str, Sequence[Any]]:
    """Return a statement for the ids of a page, and its parameters."""
    require_user(actor)
    projects, sessions = wanted.places(), wanted.sessions()
    visible_only(actor, projects)
    sign, order = ("<", _NEWEST) if place.newest_first else (">", _OLDEST)
    if place.beyond is not None:
        sessions.add(f"s.id {sign} %s", place.beyond)
    parts = wanted.parts()
    newest = " UNION ALL ".join(
        f"""(
            SELECT s.id FROM sessions_app_session s WHERE {sessions.sql} AND {part}
            ORDER BY s.id {order} LIMIT {place.limit:d}
        )"""
        for part in parts
    )
    sql = f"""
        SELECT found.id FROM sessions_app_project p
        JOIN sessions_app_domain d ON d.id = p.domain_id
        CROSS JOIN LATERAL ({newest}) found
        WHERE {projects.sql} ORDER BY found.id {order} LIMIT {place.limit:d}
    """
    return sql, [*sessions.parameters * len(parts), *projects.parameters]


def visible_only(actor: Actor, projects: Where) -> None:
    """Restrict the projects `p` to those that the actor may see."""
    if actor.only_project_id is not None:
        projects.add("p.id = %s", actor.only_project_id)
    if actor.is_superuser:
        return
    projects.add("(p.id = ANY(%s) OR p.domain_id = ANY(%s))", *actor.places_with_role())
