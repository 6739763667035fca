"""Sends leased sessions for which nothing was started back to their queue."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from retry.evidence.termination import Termination
from sessions_app import wakeups
from sessions_app.core.states import Status
from sessions_app.locks import LockedSession
from sessions_app.services.chains.settle import End, settle_locked
from sessions_app.services.write.transitions import Change, Event, sessions_change


def sessions_unlease(
    sessions: Sequence[LockedSession],
    *,
    event: str,
    reason: str | Mapping[UUID, str],
    counted: bool,
    now: datetime,
    avoid: str = "",
    columns: Mapping[str, Any] | None = None,
) -> None:
    """Send locked sessions back to their queue; no executor has started anything for them.

    A `counted` session that was sent back too often ends as `scheduler_timeout` instead. `reason`
    is that of all of them, or the one of each. `avoid` is the executor that refused them, `columns`
    are further values to write. Their leases no longer count; the caller may delete them.
    """
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
            **(columns or {}),
        }
        if avoid and avoid not in session.avoid_executors:
            values["avoid_executors"] = sorted({*session.avoid_executors, avoid})
            # It belongs to another line now; the next lease round computes the key.
            values["scheduling_key"] = None
        changes.append(Change(session, values, [Event(event, {"reason": reasons[session.id]})]))
    sessions_change(changes, now=now)
    settle_locked([(s, _worn_out(limit, reasons[s.id])) for s in worn_out], now=now)
    wakeups.work_after_commit()


def _worn_out(limit: int, reason: str) -> End:
    text = f"handed back {limit} times by executors, last: {reason}"
    return End(Termination(conditions=("Unschedulable",)), message=text)
