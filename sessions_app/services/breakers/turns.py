"""Opening and closing of breakers, whose lock the caller holds, with their events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sessions_app.core.states import Status
from sessions_app.db.writes import Writes
from sessions_app.models import Breaker
from sessions_app.models.breakers import BreakerState
from sessions_app.services.write.transitions import EventRow, events_append

OPENED, CLOSED = "breaker.opened", "breaker.closed"
_TURNED = (
    *("state", "reason", "chains", "opened_at", "opened_by", "closed_at", "closed_by"),
    *(
        "probe_delay",
        "probe_at",
        "probe",
        "probe_since",
        "probes",
        "projects",
        "event_seq",
        "muted",
    ),
)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an event of a breaker is about, in the form of a session."""

    id: UUID
    project_id: int
    job_set: str = ""
    retry_count: int = 0
    status: Status = Status.ERROR
    event_seq: int = 0
    limited: bool = False
    quiet: bool = False

    @property
    def root_id(self) -> UUID:
        return self.id


def breakers_turn(
    writes: Writes,
    opened: Sequence[Breaker] = (),
    closed: Sequence[Breaker] = (),
    *,
    now: datetime,
) -> None:
    """Write breakers that open or close, and their events: one in the log of each project in
    which chains failed so."""
    rows = [row for breaker in opened for row in _events(breaker, OPENED)]
    rows += [row for breaker in closed for row in _events(breaker, CLOSED)]
    if opened:
        Breaker.objects.bulk_create(
            opened,
            update_conflicts=True,
            unique_fields=["scope", "signature"],
            update_fields=_TURNED,
        )
    if closed:
        Breaker.objects.bulk_update(closed, _TURNED)
    events_append(writes, rows, now=now)


def opened(
    breaker: Breaker, now: datetime, *, delay: float, reason: str, chains: int = 0, by: str = ""
) -> Breaker:
    """Return a breaker that opens, with its first probe after `delay` seconds."""
    breaker.state, breaker.reason, breaker.chains = BreakerState.OPEN, reason, chains
    breaker.opened_at, breaker.opened_by = now, by
    breaker.closed_at, breaker.closed_by = None, ""
    breaker.muted, breaker.probes = False, 0
    breaker.probe, breaker.probe_since = None, None
    breaker.probe_delay, breaker.probe_at = delay, now + timedelta(seconds=delay)
    return breaker


def closed(breaker: Breaker, now: datetime, *, reason: str, by: str = "") -> Breaker:
    """Return a breaker that closes."""
    breaker.state, breaker.reason = BreakerState.CLOSED, reason
    breaker.closed_at, breaker.closed_by = now, by
    breaker.probe, breaker.probe_since, breaker.probe_at = None, None, None
    return breaker


def _events(breaker: Breaker, event_type: str) -> Iterable[EventRow]:
    told: dict[str, Any] = {
        "breaker": str(breaker.pk),
        "scope": breaker.scope.partition(":")[0],
        "signature": breaker.signature,
        "reason": breaker.reason,
        "chains": breaker.chains,
        "by": breaker.opened_by if event_type == OPENED else breaker.closed_by,
    }
    for project_id in breaker.projects:
        breaker.event_seq += 1
        yield EventRow(_Subject(breaker.pk, project_id), breaker.event_seq, event_type, told)
