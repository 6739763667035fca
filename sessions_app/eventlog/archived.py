"""Archived sessions, rebuilt from the log after their rows were deleted.

The facts come from the fold of a session's events. Its owner, specification and related records
come from its last event (`sessions_app/services/sessions/retention.py`). Every selector and page
can use the results like rows; they must not be saved.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection, models

from sessions_app.core.fold import fold
from sessions_app.db.bulk import columns
from sessions_app.models import (
    Project,
    Queue,
    RetryDecision,
    RetryTrace,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.models.events import ARCHIVED

Row = TypeVar("Row", bound=models.Model)
_Log = list[SessionEvent]


def archived_session(session_id: UUID) -> Session | None:
    """Return a session that exists only in the log, with its related records, or None."""
    log = _logs([session_id]).get(session_id)
    if log is None or log[-1].type != ARCHIVED:
        return None
    chain = _chain(log)
    found = {each.pk: each for each in _sessions(_logs(chain))}
    return found[session_id]


def archived_chain(chain: Sequence[UUID]) -> list[Session]:
    """Return the attempts of a chain that exists only in the log, oldest first."""
    return _sessions(_logs(chain))


def archived_tips(session_ids: Iterable[UUID]) -> dict[UUID, SessionEvent]:
    """Return the last events of chains that exist only in the log, by the id of any attempt.

    Each is that of the newest attempt, with what it folds to as its `data`, and the `creation_id`
    of its root. Two statements.
    """
    last = SessionEvent.objects.filter(type=ARCHIVED, session_id__in=list(session_ids))
    tips = {each.session_id: _chain([each])[-1] for each in last}
    found: dict[UUID, SessionEvent] = {}
    for tip, log in _logs(set(tips.values())).items():
        creation_id = log[-1].data["archive"]["session"]["creation_id"].partition(":retry:")[0]
        log[-1].data = {**fold(event.data for event in log), "creation_id": creation_id}
        found[tip] = log[-1]
    return {asked: found[tip] for asked, tip in tips.items() if tip in found}


_NAMED = f"""
    SELECT v.project_id, v.name, e.session_id
    FROM unnest(%s::bigint[], %s::text[]) AS v(project_id, name) CROSS JOIN LATERAL (
        SELECT session_id FROM sessions_app_sessionevent
        WHERE project_id = v.project_id AND type = '{ARCHIVED}'
            AND (data #>> '{{archive,session,creation_id}}') = v.name
        ORDER BY id DESC LIMIT 1) e
"""


def archived_named(names: Collection[tuple[int, str]]) -> dict[tuple[int, str], UUID]:
    """Return the sessions that exist only in the log and had these names in one statement.

    A name is a project's id and a `creation_id`. If several sessions had it one after the other, it
    is the one that was archived last.
    """
    if not names:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_NAMED, columns(list(names)))
        return {(project, name): session_id for project, name, session_id in cursor.fetchall()}


def _logs(session_ids: Iterable[UUID]) -> dict[UUID, _Log]:
    found: dict[UUID, _Log] = defaultdict(list)
    events = SessionEvent.objects.filter(session_id__in=list(session_ids))
    for event in events.order_by("session_id", "seq"):
        found[event.session_id].append(event)
    return found


def _chain(log: _Log) -> list[UUID]:
    return [UUID(each) for each in log[-1].data["archive"]["chain"]]


def _sessions(logs: Mapping[UUID, _Log]) -> list[Session]:
    """Return the sessions of one chain, oldest first."""
    ordered = sorted(logs.values(), key=lambda log: log[-1].attempt)
    projects = Project.objects.select_related("domain").in_bulk(
        {log[-1].project_id for log in ordered}
    )
    records = [log[-1].data["archive"] for log in ordered]
    owners = User.objects.in_bulk({each["session"]["owner_id"] for each in records} - {None})
    specs_given = [each["spec"] for each in records if each["spec"] is not None]
    specs = {each["id"]: _made(SessionSpec, each) for each in specs_given}
    sessions = []
    for log, record in zip(ordered, records, strict=True):
        session = _session(log, record)
        session.project = projects[log[-1].project_id]
        session.owner = owners.get(record["session"]["owner_id"])
        session.spec = specs[record["session"]["spec_id"]]
        sessions.append(session)
    return sessions


def _session(log: _Log, record: Mapping[str, Any]) -> Session:
    facts = fold(event.data for event in log)
    decided = facts.pop("decision", {})
    session = _made(Session, {**record["session"], **facts})
    session.archived_chain = tuple(_chain(log))
    session.queue = Queue(pk=session.queue_id, name=record["queue"], project_id=session.project_id)
    root = {
        "id": record["session"]["root_id"],
        "cancel_requested_at": record["cancel_requested_at"],
    }
    session.root = _made(Session, root)
    if record["decision"] is not None:
        decision = _made(RetryDecision, {**record["decision"], **decided})
        decision.session = session  # the session knows its decision then, too
        RetryTrace(decision=decision, steps=record["decision"]["trace"])  # and this its trace
    else:
        session._state.fields_cache["decision"] = None  # noqa: SLF001  # there is none to look for
    return session


def _made(kind: type[Row], values: Mapping[str, Any]) -> Row:
    """Return a record with these columns; others, and wrong nulls, get their defaults."""
    made = kind()
    for field in kind._meta.concrete_fields:
        column = field.db_column or field.attname
        value = values.get(column)
        if value is not None or (column in values and field.null):
            setattr(made, field.attname, field.to_python(value))
    return made
