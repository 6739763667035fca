"""One lease call, and the parts of it that a long poll repeats."""

from collections.abc import Sequence

from django.conf import settings

from scheduler.locks import leases_of
from scheduler.models import Executor
from scheduler.services.executors import executor_heartbeat, work_waits
from scheduler.services.leases import LeaseRound, lease_round, stops_for
from scheduler.services.progress import progress_note
from scheduler.wire import LeaseAnswer, LeaseCall, Stop


def lease_once(name: str, call: LeaseCall) -> LeaseAnswer:
    """Record the heartbeat and return stops and leases at once."""
    heartbeat = executor_heartbeat(name, call)
    progress_note(name, call.progress)
    stops = stops_for(heartbeat.held, call.runs)
    granted = _granted(name, call, waits=heartbeat.waiting)
    return _answer(granted, stops, heartbeat.forgotten)


def look_again(name: str, call: LeaseCall) -> tuple[LeaseAnswer, int]:
    """Return the stops and leases for an executor now, and how many lines still wait."""
    stops: list[Stop] = []
    if call.runs:
        executor_id = Executor.objects.values_list("pk", flat=True).get(name=name)
        stops = stops_for(leases_of(executor_id), call.runs)
    granted = _granted(name, call, waits=work_waits(name))
    return _answer(granted, stops), granted.passed_over


def _granted(name: str, call: LeaseCall, *, waits: bool) -> LeaseRound:
    """Return what a lease round grants; without work for this executor there is none.

    Most wake-ups tell of others' work, or of room that nobody waits for, and a round locks the
    executor and waits for the disk.
    """
    if not waits:
        return LeaseRound([], 0)
    return lease_round(name, call.incarnation, secrets=call.secrets)


def _answer(granted: LeaseRound, stops: list[Stop], forgotten: Sequence[str] = ()) -> LeaseAnswer:
    return LeaseAnswer.model_construct(
        leases=granted.leases,
        stops=stops,
        lease_ttl=settings.REPRISE["lease_ttl"],
        lease_grace=settings.REPRISE["lease_grace"],
        forget_troubles=list(forgotten),
    )
