"""Leases that an executor returns."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from scheduler.allocation.reservations import reservations_restore
from scheduler.core.placement import MOST_REFUSALS, resources_lacking
from scheduler.locks import lock_executor
from scheduler.services.executors import executor_check
from scheduler.services.leases import leases_delete
from scheduler.services.reports import APPLIED, BUSY, INVALID, NOT_ITS_LEASE, STALE, UNKNOWN
from scheduler.wire import Outcome, Return
from sessions_app.core.states import FINAL_STATUSES, Status
from sessions_app.db.steps import atomic_step
from sessions_app.locks import LockedSession, database_now, lock_sessions
from sessions_app.models import Session
from sessions_app.services.sessions.unlease import Handback, sessions_unlease


def returns_apply(name: str, incarnation: int, returns: Sequence[Return]) -> list[Outcome]:
    """Take back leases for which nothing was started. Return one outcome each, in their order."""
    executor_check(name, incarnation)
    with atomic_step("return") as writes:
        if any(item.refused_node for item in returns):
            # First, as rounds do. None may plan the returned sessions without knowing why.
            lock_executor(name)
        ids = {item.session_id for item in returns}
        sessions = lock_sessions(sorted(ids), skip_locked=True)
        locked = {s.id: s for s in sessions if s.executor == name}
        own = Session.objects.filter(pk__in=ids, executor=name)
        existing = set(own.values_list("pk", flat=True))
        outcomes = [_outcome_of(item, locked.get(item.session_id), existing) for item in returns]
        now = database_now()
        done: dict[_Why, list[LockedSession]] = {}
        for item, outcome in zip(returns, outcomes, strict=True):
            session = locked.pop(item.session_id, None)
            if outcome.outcome == APPLIED and session is not None:
                done.setdefault(_why(item, session), []).append(session)
        for why, group in done.items():
            sessions_unlease(writes, group, _handback(name, why), now=now)
        returned = [session.id for group in done.values() for session in group]
        leases_delete(returned)
        reservations_restore(returned)
        _plan_with_less(name, done)
    return outcomes


class _Why(NamedTuple):
    """Why leases came back. `refusals` is the number of refused plans of the attempt, after it."""

    reason: str
    counted: bool
    refused_node: str = ""
    refusals: int | None = None


def _why(item: Return, session: LockedSession) -> _Why:
    reason = item.reason or "no reason given"
    if not (item.refused_node and item.own_trouble):
        return _Why(reason, not item.own_trouble)
    before = session.placement_refusals or 0
    # Another node would not help against what the session's own rules or volumes forbid.
    now = before + 1 if resources_lacking(item.reason) else max(before + 1, MOST_REFUSALS)
    return _Why(reason, False, item.refused_node, now)


def _handback(name: str, why: _Why) -> Handback:
    if why.refusals is None:
        reason = f"{name}: {why.reason}"
        return Handback("session.lease_returned", reason, counted=why.counted, avoid=name)
    return Handback(
        "session.placement_refused",
        f"{name}: node {why.refused_node}: {why.reason}",
        counted=False,
        columns={"placement_refusals": why.refusals},
    )


# Merges the resources of a node with those that are known already.
_REFUSED = """
    UPDATE scheduler_executor SET refusals = refusals || (
        SELECT jsonb_object_agg(v.key, coalesce(refusals -> v.key, '[]') || v.value)
        FROM jsonb_each(%s::jsonb) v)
    WHERE name = %s
"""


def _plan_with_less(name: str, done: Iterable[_Why]) -> None:
    """Let rounds give out no more of what nodes lack, until the executor reports its nodes."""
    lacking: dict[str, set[str]] = {}
    for why in done:
        if why.refused_node and (resources := resources_lacking(why.reason)):
            lacking.setdefault(why.refused_node, set()).update(resources)
    if lacking:
        text = json.dumps({node: sorted(resources) for node, resources in lacking.items()})
        with connection.cursor() as cursor:
            cursor.execute(_REFUSED, [text, name])


def _outcome_of(item: Return, session: LockedSession | None, existing: set[UUID]) -> Outcome:
    outcome, detail = APPLIED, ""
    if session is None:
        known = item.session_id in existing
        outcome = BUSY if known else INVALID
        detail = "its row is locked just now" if known else UNKNOWN
    # The last return of a worn-out session has ended it; the executor may ask again.
    elif item.fencing_token != session.fencing_token or session.status in FINAL_STATUSES:
        outcome, detail = STALE, NOT_ITS_LEASE
    elif session.accepted_at is not None and not _started_nothing(item, session):
        outcome, detail = INVALID, "the session was accepted: report its end instead"
    return Outcome(
        session_id=str(item.session_id),
        fencing_token=item.fencing_token,
        outcome=outcome,
        detail=detail,
    )


def _started_nothing(item: Return, session: LockedSession) -> bool:
    """Return whether an accepted lease may go back: its executor found no place for it."""
    waits = session.status is Status.PREPARING and session.cancel_requested_at is None
    return item.own_trouble and waits
