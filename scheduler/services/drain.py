"""Drain: an executor gets no new leases, and its runs are asked to stop.

The drain is a state of the executor that lasts until it is uncordoned. The call goes through the
leases at once; a sweep continues if that was interrupted.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from scheduler.locks import lock_executor
from scheduler.models import Executor
from scheduler.services.leases import leases_delete
from sessions_app.core.errors import NotFound
from sessions_app.core.states import Phase, Status, phase_of
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.models.sessions import SessionType
from sessions_app.services.sessions.preempt import preempt_locked
from sessions_app.services.write.records import record_save

BATCH = 200
FIELDS = frozenset({"cordoned", "cordon_reason", "draining_since", "drained_by", "drain_force"})
NO_REASON = "drained"


class Drained(NamedTuple):
    """The counts of one drain call, and of what is left on the executor."""

    asked: int
    """The number of runs that this call asked to stop."""
    returned: int
    """Leases that were not accepted: they went back to their queues, uncounted."""
    left: int
    """Leases that the executor still has."""
    kept: int
    """The leases among `left` whose runs end by themselves: no retry would bring them back."""


def executor_drain(name: str, *, by: str, reason: str = "", force: bool = False) -> Drained:
    """Cordon an executor and preempt its runs, on behalf of `by`.

    Interactive and inference sessions, which are never retried, are preempted only with `force`. A
    repeated call can change the reason or add the force. Raises `NotFound`.
    """
    with atomic_step("drain"):
        executor = lock_executor(name)
        if executor is None:
            raise NotFound(f"no executor {name}")
        if executor.draining_since is None:
            executor.draining_since, executor.drained_by = database_now(), by
        executor.cordoned = True
        executor.cordon_reason = reason or executor.cordon_reason or NO_REASON
        executor.drain_force = executor.drain_force or force
        record_save(executor, by=by, fields=FIELDS, verb="drain")
    asked, returned = _go_through(executor.pk)
    return Drained(asked, returned, *_left(executor.pk))


# A lease that no longer counts is an orphan; another sweep deletes it.
_TO_DRAIN = """
    FROM scheduler_lease l
    JOIN sessions_app_session s ON s.id = l.session_id AND s.fencing_token = l.fencing_token
    WHERE l.executor_id = e.id AND s.phase = 'live' AND s.status <> 'TERMINATING'
        AND (NOT l.accepted OR s.session_type = 'batch' OR e.drain_force)
"""
_UNFINISHED = f"""
    SELECT e.id FROM scheduler_executor e
    WHERE e.cordoned AND e.draining_since IS NOT NULL AND EXISTS (SELECT {_TO_DRAIN})
"""
_NEXT = f"""
    SELECT s.id FROM scheduler_executor e CROSS JOIN LATERAL (
        SELECT s.id {_TO_DRAIN} AND s.id > %s ORDER BY s.id LIMIT %s) s
    WHERE e.id = %s AND e.cordoned AND e.draining_since IS NOT NULL
"""
_LEFT = """
    SELECT count(*), count(*) FILTER (WHERE s.status <> 'TERMINATING' AND l.accepted
        AND s.session_type <> 'batch' AND NOT e.drain_force)
    FROM scheduler_executor e
    JOIN scheduler_lease l ON l.executor_id = e.id
    JOIN sessions_app_session s ON s.id = l.session_id AND s.fencing_token = l.fencing_token
    WHERE e.id = %s AND s.phase = 'live'
"""


def drains_go_on() -> int:
    """Continue drains that were interrupted, for example by a killed process.

    Return the number of sessions that were asked to stop or taken back.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNFINISHED)
        executors = [row[0] for row in cursor.fetchall()]
    return sum(sum(_go_through(each)) for each in executors)


def _go_through(executor_id: int) -> tuple[int, int]:
    """Preempt batches, each in its own transaction; skip locked sessions for the sweep."""
    asked = returned = 0
    last: UUID | None = UUID(int=0)
    while last is not None:
        with atomic_step("drain") as writes:
            ids = _next(executor_id, last)
            done = _preempt(writes, ids, executor_id) if ids else (0, 0)
        asked += done[0]
        returned += done[1]
        last = ids[-1] if len(ids) == BATCH else None
    return asked, returned


def _next(executor_id: int, after: UUID) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [after, BATCH, executor_id])
        return [row[0] for row in cursor.fetchall()]


def _preempt(writes: Writes, session_ids: Sequence[UUID], executor_id: int) -> tuple[int, int]:
    # Read again for each batch: the reason or the force may have changed.
    executor = Executor.objects.get(pk=executor_id)
    locked = lock_sessions(session_ids, skip_locked=True)
    sessions = [each for each in locked if _is_to_drain(each, executor)]
    done = preempt_locked(
        writes,
        sessions,
        by=executor.drained_by,
        reason=f"executor {executor.name}: {executor.cordon_reason}",
        now=database_now(),
    )
    leases_delete([each.id for each in sessions if each.accepted_at is None])
    return done


def _is_to_drain(session: LockedSession, executor: Executor) -> bool:
    """Return whether the session still has to be drained, now that it is locked."""
    here = session.executor == executor.name and phase_of(session.status) is Phase.LIVE
    retried = session.session_type == SessionType.BATCH or executor.drain_force
    stays = session.accepted_at is not None and not retried
    return here and session.status is not Status.TERMINATING and not stays


def _left(executor_id: int) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(_LEFT, [executor_id])
        row: tuple[int, int] = cursor.fetchone()
    return row
