"""Executors: the check of their incarnation, heartbeats, and the reconciliation of leases."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import connection

from retry.evidence.termination import Termination
from scheduler.allocation.holdings import nodes_digest, reported_nodes
from scheduler.allocation.project_troubles import Troubles, project_troubles
from scheduler.allocation.reservations import reservations_sweep
from scheduler.core.below import Below, below_of
from scheduler.locks import HeldLease, leases_of
from scheduler.models import Executor
from scheduler.services.leases import lease_keys, leases_delete
from scheduler.services.progress import progress_of
from scheduler.wire import LeaseCall
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.core.states import FINAL_STATUSES
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.services.chains.settle import End, settle_locked
from sessions_app.services.sessions.unlease import Handback, sessions_unlease

GONE = "the executor no longer has this run"


def executor_check(name: str, incarnation: int) -> None:
    """Check the executor of a call; a newer incarnation takes over.

    Raises `NotFound`, and `Conflict` for an older incarnation.
    """
    known = _incarnation_of(name)
    if known < incarnation:
        Executor.objects.filter(name=name, incarnation__lt=incarnation).update(
            incarnation=incarnation, round=0
        )
        known = _incarnation_of(name)
    if known != incarnation:
        raise _superseded(name, known)


def _incarnation_of(name: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT incarnation FROM scheduler_executor WHERE name = %s", [name])
        row: tuple[int] | None = cursor.fetchone()
    if row is None:
        raise NotFound(f"no executor {name}")
    return row[0]


def _superseded(name: str, incarnation: int) -> Conflict:
    return Conflict(
        f"a newer agent has taken over executor {name}", current_incarnation=incarnation
    )


class Heartbeat(NamedTuple):
    """The result of a heartbeat: the executor's leases, whether a session waits that it serves, and
    the projects whose troubles need not be reported any more."""

    held: Sequence[HeldLease]
    waiting: bool
    forgotten: Sequence[str]


class _Recorded(NamedTuple):
    """A row of the heartbeat statement. `fenced`: no run of a replaced agent can still be alive."""

    executor_id: int
    holds: bool
    waiting: bool
    fenced: bool


# Whether a session waits that an executor `e` serves. The orders make PostgreSQL take the first
# entry of an index: if many waited a moment ago, it would look through all sessions for one.
_WAITS = """
    CASE WHEN EXISTS (SELECT FROM scheduler_executor_projects p WHERE p.executor_id = e.id)
    THEN EXISTS (
        SELECT FROM scheduler_executor_projects p CROSS JOIN LATERAL (
            SELECT FROM sessions_app_session s
            WHERE s.phase = 'waiting' AND s.project_id = p.project_id
            ORDER BY s.project_id, s.id NULLS FIRST LIMIT 1) first
        WHERE p.executor_id = e.id)
    ELSE (SELECT s.id FROM sessions_app_session s
        WHERE s.phase = 'waiting' ORDER BY s.queue_id LIMIT 1) IS NOT NULL END
"""
_WORK_WAITS = f"SELECT {_WAITS} FROM scheduler_executor e WHERE e.name = %s"
# One statement, since an idle server does mostly this. An agent on another state directory does not
# know the runs of the one before, which may go on until their leases end.
_HEARTBEAT = f"""
    UPDATE scheduler_executor e
    SET incarnation = %(incarnation)s, round = %(round)s, last_seen_at = clock_timestamp(),
        driver = %(driver)s, nodes = coalesce(%(nodes)s::jsonb, nodes),
        nodes_digest = coalesce(%(digest)s, e.nodes_digest),
        node_templates = coalesce(%(templates)s::jsonb, e.node_templates),
        pod_placing = coalesce(%(placing)s::jsonb, e.pod_placing),
        extended_tolerations = coalesce(%(extended)s, e.extended_tolerations),
        refusals = CASE WHEN %(nodes)s::jsonb IS NULL THEN e.refusals ELSE '{{}}' END,
        max_sessions = %(max_sessions)s, trouble = %(trouble)s, state_id = %(state_id)s,
        project_troubles = %(project_troubles)s::jsonb, warnings = %(warnings)s::jsonb,
        fenced_at = CASE WHEN e.state_id IN ('', %(state_id)s) THEN e.fenced_at
            ELSE e.last_seen_at + make_interval(secs => %(silence)s) END
    WHERE e.name = %(name)s AND (e.incarnation < %(incarnation)s
        OR e.incarnation = %(incarnation)s AND e.state_id IN ('', %(state_id)s)
            AND (%(round)s = 0 OR e.round <= %(round)s))
    RETURNING e.id, EXISTS (SELECT FROM scheduler_lease l WHERE l.executor_id = e.id),
        {_WAITS}, coalesce(e.fenced_at < clock_timestamp(), true)
"""


def executor_heartbeat(name: str, call: LeaseCall) -> Heartbeat:
    """Record that the executor lives, which renews its leases, and settle the runs that it lost.

    Raises `NotFound` for an unknown executor. Raises `Conflict` for a superseded agent, and for a
    call that a later one of the same agent has overtaken: the overtaken call does not know the
    leases granted since, and its answer must not count as a renewal.
    """
    with atomic_step("heartbeat") as writes:
        troubles = project_troubles(name, call.project_troubles)
        recorded = _record(name, call, troubles)
        held = leases_of(recorded.executor_id) if recorded.holds else []
        known = lease_keys(call.runs) if held else set()
        missing = [each for each in held if (each.fencing_token, each.session_id.int) not in known]
        if missing:
            _reconcile(writes, missing, fenced=recorded.fenced, now=database_now())
    troubled = {each["project"] for each in troubles.values()}
    forgotten = sorted(call.project_troubles.keys() - troubled)
    return Heartbeat(held, recorded.waiting or bool(missing), forgotten)


def work_waits(name: str) -> bool:
    """Return whether a session waits that the executor serves, as its heartbeat tells."""
    with connection.cursor() as cursor:
        cursor.execute(_WORK_WAITS, [name])
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def _record(name: str, call: LeaseCall, troubles: Troubles) -> _Recorded:
    nodes = reported_nodes(call)
    templates = [each.model_dump() for each in call.node_templates]
    values = {
        **call.model_dump(include={"incarnation", "round", "driver", "state_id", "trouble"}),
        "name": name,
        "nodes": None if nodes is None else json.dumps(nodes),
        "digest": None if nodes is None else nodes_digest(nodes, templates, _pods_of(call)),
        "templates": None if nodes is None else json.dumps(templates),
        "placing": None if nodes is None else json.dumps(call.pod_placing),
        "extended": None if nodes is None else call.extended_tolerations,
        "project_troubles": json.dumps(troubles),
        "warnings": json.dumps(call.warnings),
        "max_sessions": call.limits.max_sessions,
        "silence": lease_silence(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_HEARTBEAT, values)
        row = cursor.fetchone()
    if row is not None:
        return _Recorded._make(row)
    executor = Executor.objects.filter(name=name).first()
    if executor is None:
        raise NotFound(f"no executor {name}")
    if executor.incarnation == call.incarnation and executor.state_id == call.state_id:
        raise Conflict("a later lease call of this agent was served before this one")
    raise _superseded(name, executor.incarnation)


def _pods_of(call: LeaseCall) -> Below:
    return below_of(call.pod_placing, tolerations=call.extended_tolerations)


def lease_silence() -> float:
    """Return the seconds of silence after which an agent has fenced (stopped) its runs."""
    return float(settings.REPRISE["lease_ttl"] + settings.REPRISE["lease_grace"])


def _reconcile(
    writes: Writes, missing: Sequence[HeldLease], *, fenced: bool, now: datetime
) -> None:
    """Take back leases that were not accepted, and settle the others, for runs that are missing.

    Runs of a replaced agent may go on until it is `fenced`; until then accepted leases stay.
    """
    tokens = {lease.session_id: lease.fencing_token for lease in missing}
    sessions = [
        session
        for session in lock_sessions(list(tokens), skip_locked=True)
        if session.fencing_token == tokens[session.id] and session.status not in FINAL_STATUSES
    ]
    waiting = [session for session in sessions if session.accepted_at is None]
    ended = [s for s in sessions if s.accepted_at is not None] if fenced else []
    handback = Handback("session.lease_returned", GONE, counted=False)
    sessions_unlease(writes, waiting, handback, now=now)
    settle_locked(writes, lost_ends(ended, GONE), now=now)
    leases_delete([session.id for session in waiting + ended])


def lost_ends(sessions: Sequence[LockedSession], message: str) -> list[tuple[LockedSession, End]]:
    """Return the ends of runs of which we know only that their executor lost them, and how far
    they were."""
    told = progress_of(session.id for session in sessions) if sessions else {}
    return [
        (session, replace(lost_end(session, message), progress=told.get(session.id)))
        for session in sessions
    ]


def lost_end(session: LockedSession, message: str, **facts: object) -> End:
    """Return the end of a run of which we know only that its executor lost it."""
    return End(
        Termination(lease_expired=True, node=session.node),
        message=message,
        avoid_executor=True,
        facts=facts,
    )


def leases_sweep_orphans() -> int:
    """Delete leases that no longer count, and reservations of sessions that wait no longer.

    Return the number of leases.
    """
    reservations_sweep()
    with connection.cursor() as cursor:
        cursor.execute(
            # By session and token, so that a lease granted meanwhile is kept.
            "DELETE FROM scheduler_lease WHERE (session_id, fencing_token) IN ("
            "SELECT l.session_id, l.fencing_token FROM scheduler_lease l "
            "JOIN sessions_app_session s ON s.id = l.session_id "
            "WHERE s.phase <> 'live' OR s.fencing_token IS DISTINCT FROM l.fencing_token)"
        )
        deleted: int = cursor.rowcount
    return deleted
