"""Leases: grant them to an executor, delete them, and tell the executor which runs to stop."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from retry.evidence.causes import WITHHELD
from retry.evidence.termination import Termination
from scheduler.allocation.claims import Claimed
from scheduler.allocation.round import Allocation, allocate
from scheduler.locks import HeldLease, lock_executor_for_round, next_fencing_tokens
from scheduler.models import Executor
from scheduler.services.handover import TOO_OLD, Handover, leased_sessions
from scheduler.wire import LeasedSession, Run, Stop, StopReason
from sessions_app import wakeups
from sessions_app.core.states import Status
from sessions_app.db.bulk import SentRows, array
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import database_now
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.write.transitions import Change, Event, sessions_change


class LeaseRound(NamedTuple):
    """The leases of one round, and how many lines still wait."""

    leases: list[LeasedSession]
    passed_over: int
    """Lines that wait for room, or whose sessions another round was about to take."""


_NOTHING = Handover([], {})


def lease_round(name: str, incarnation: int, *, secrets: bool = True) -> LeaseRound:
    """Grant waiting sessions to an executor as far as it has room, most important first.

    `secrets` says whether its agent can pass secret variables to runs.
    """
    with atomic_step("lease") as writes:
        handed, left_waiting, tokens = _allocate(writes, name, incarnation, secrets=secrets)
    if handed.withheld:
        _fail(handed.withheld, tokens)
    return LeaseRound(handed.leases, left_waiting)


def _allocate(
    writes: Writes, name: str, incarnation: int, *, secrets: bool
) -> tuple[Handover, int, Mapping[UUID, int]]:
    """Return the granted leases, the number of lines that still wait, and the fencing tokens."""
    executor = lock_executor_for_round(name)
    if executor is None or executor.incarnation != incarnation or executor.cordoned:
        return _NOTHING, 0, {}
    found = allocate(executor, database_now())
    tokens = _write_leases(writes, found, executor) if found.sessions else {}
    labels = {each["name"]: each["labels"] for each in executor.node_templates}
    handed = leased_sessions(found.sessions, tokens, labels, secrets=secrets)
    return handed, found.left_waiting, tokens


def _fail(withheld: Mapping[UUID, str], tokens: Mapping[UUID, int]) -> None:
    """End leased sessions that cannot be handed over, in a step of its own: it locks their roots.

    What has another token by then was leased anew. If this process dies first, the executor does
    not know the lease, and its next call sends the session back to its queue.
    """
    ends = {
        key: End(
            Termination(reason=WITHHELD),
            message=f"not started: {why}",
            avoid_executor=why == TOO_OLD,
        )
        for key, why in withheld.items()
    }
    leases_delete(sessions_settle(ends, leased=tokens))


_FRESH = SentRows[[Claimed, int]](
    ("session_id", "uuid", lambda claimed, _: claimed.id),
    ("fencing_token", "bigint", lambda _, token: token),
    ("queue_id", "bigint", lambda claimed, _: claimed.session.queue_id),
    ("scheduling_key", "bigint", lambda claimed, _: claimed.key),
    ("nodes", "jsonb", lambda claimed, _: claimed.nodes or None),
    ("template", "text", lambda claimed, _: claimed.template),
    named=True,
)
# An old lease is one from earlier in the session's life that no sweep has deleted yet. Sessions are
# locked, so that nobody inserts others. An INSERT that looks for conflicts itself writes a second
# record for each row.
_INSERT = f"""
    WITH fresh AS (SELECT * FROM {_FRESH}),
    old AS (
        UPDATE scheduler_lease l SET
            executor_id = %(executor)s, fencing_token = v.fencing_token, granted_at = %(now)s,
            queue_id = v.queue_id, scheduling_key = v.scheduling_key, nodes = v.nodes::jsonb,
            template = v.template, accepted = false, lost_at = NULL, run_deadline = NULL,
            verify_at = NULL, pod = NULL, pod_created_at = NULL, initializing_since = NULL,
            initializing_checks = 0, unknown_checks = 0, suspected = false, progress = NULL
        FROM fresh v WHERE l.session_id = v.session_id
        RETURNING l.session_id)
    INSERT INTO scheduler_lease
        (session_id, executor_id, fencing_token, granted_at, accepted, queue_id, scheduling_key,
        nodes, template)
    SELECT v.session_id, %(executor)s, v.fencing_token, %(now)s, false, v.queue_id,
        v.scheduling_key, v.nodes::jsonb, v.template
    FROM fresh v WHERE v.session_id NOT IN (SELECT session_id FROM old)
"""


def _write_leases(writes: Writes, found: Allocation, executor: Executor) -> dict[UUID, int]:
    """Write the leases. Return the fencing token of each session.

    They begin after the claim of their sessions, some of which came after the round had begun.
    """
    sessions = found.sessions
    fresh, now = next_fencing_tokens(len(sessions))
    tokens = dict(zip((each.id for each in sessions), fresh, strict=True))
    sessions_change(
        writes,
        [
            Change(
                each.session,
                {
                    "status": Status.SCHEDULED,
                    "scheduled_at": now,
                    "executor": executor.name,
                    "fencing_token": tokens[each.id],
                    "report_seq": 0,
                },
                [Event("session.scheduled", {"fencing_token": tokens[each.id], **each.suspects})],
            )
            for each in sessions
        ],
        now=now,
        within_quotas=found.within_quotas,
    )
    rows = _FRESH.named(sessions, fresh)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, {"executor": executor.pk, "now": now, **rows})
    return tokens


def leases_delete(session_ids: Sequence[UUID]) -> None:
    """Delete the leases of these sessions, which makes room, and wake executors after commit."""
    if session_ids:
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM scheduler_lease WHERE session_id = ANY(%s::uuid[])",
                [array(session_ids)],
            )
        wakeups.work_after_commit()


_GRACES = """
    SELECT s.id, p.termination_grace_period
    FROM sessions_app_session s JOIN sessions_app_sessionspec p ON p.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[])
"""


def stops_for(held: Sequence[HeldLease], runs: Sequence[Run]) -> list[Stop]:
    """Return the runs of a call that must end.

    These are runs that are cancelled, preempted or lost, runs whose pods do not start, and runs
    that no longer belong to the executor. `held` are the executor's leases.
    """
    if not runs:
        return []
    known = lease_keys(runs)
    over = [
        lease
        for lease in held
        if (lease.cancelled or lease.preempted or lease.start_failed or lease.lost_at is not None)
        and (lease.fencing_token, lease.session_id.int) in known
    ]
    graces = _graces([lease.session_id for lease in over]) if over else {}
    wanted = [
        Stop(
            session_id=lease.session_id,
            fencing_token=lease.fencing_token,
            reason=_reason(lease),
            grace_period=graces[lease.session_id],
        )
        for lease in over
    ]
    unknown = [
        Stop(session_id=UUID(int=number), fencing_token=token, reason="unknown", grace_period=0)
        for token, number in sorted(known - lease_keys(held))
    ]
    return wanted + unknown


def lease_keys(leases: Iterable[Run | HeldLease]) -> set[tuple[int, int]]:
    """Return the token and the session of each lease; ids as numbers, which are cheap to hash."""
    return {(lease.fencing_token, lease.session_id.int) for lease in leases}


def _reason(lease: HeldLease) -> StopReason:
    if lease.cancelled:
        return "cancelled"
    if lease.start_failed:
        return "start_failed"
    return "preempted" if lease.preempted else "unknown"


def _graces(session_ids: Sequence[UUID]) -> dict[UUID, float]:
    with connection.cursor() as cursor:
        cursor.execute(_GRACES, [array(session_ids)])
        return dict(cursor.fetchall())
