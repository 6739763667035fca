"""Sends leased sessions for which nothing was started back to their queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from retry.evidence.termination import Termination
from sessions_app import wakeups
from sessions_app.core.states import Status
from sessions_app.db.writes import Writes
from sessions_app.locks import LockedSession
from sessions_app.services.chains.settle import End, settle_locked
from sessions_app.services.write.transitions import Change, Event, sessions_change


@dataclass(frozen=True, slots=True)
class Handback:
    """Why sessions go back to their queue, and what is written about it."""

    event: str
    """The type of their events."""
    reason: str | Mapping[UUID, str]
    """The words for all of them, or those for each."""
    counted: bool
    """Whether it wears a session out."""
    avoid: str = ""
    """The executor that refused them."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further values to write."""


def sessions_unlease(
    writes: Writes, sessions: Sequence[LockedSession], handback: Handback, *, now: datetime
) -> None:
    """Send locked sessions back to their queue; no executor has started anything for them.

    A session that was sent back too often, and is again with a `counted` handback, ends as
    `scheduler_timeout` instead. Their leases no longer count; the caller may delete them.
    """
    reason, counted, avoid = handback.reason, handback.counted, handback.avoid
    reasons = dict.fromkeys((s.id for s in sessions), reason) if isinstance(reason, str) else reason
    limit = int(settings.REPRISE["max_lease_returns"])
    worn_out = [s for s in sessions if counted and s.lease_returns + 1 >= limit]
    changes = []
    for session in [each for each in sessions if each not in worn_out]:
        values: dict[str, Any] = {
            "status": Status.PENDING,
            "scheduled_at": None,
            "accepted_at": None,
            "executor": "",
            "fencing_token": None,
            "lease_returns": session.lease_returns + counted,
            **handback.columns,
        }
        if avoid and avoid not in session.avoid_executors:
            values["avoid_executors"] = sorted({*session.avoid_executors, avoid})
            # It belongs to another line now; the next lease round computes the key.
            values["scheduling_key"] = None
        event = Event(handback.event, {"reason": reasons[session.id]})
        changes.append(Change(session, values, [event]))
    sessions_change(writes, changes, now=now)
    settle_locked(writes, [(s, _worn_out(limit, reasons[s.id])) for s in worn_out], now=now)
    wakeups.work_after_commit()


def _worn_out(limit: int, reason: str) -> End:
    text = f"handed back {limit} times by executors, last: {reason}"
    return End(Termination(conditions=("Unschedulable",)), message=text)
