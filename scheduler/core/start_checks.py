"""Start checks: when a pod's start is checked, and when it has taken too long. Pure.

All times are the caller's.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from retry.evidence.causes import RetryCause
from scheduler.core.pod_status import Progress, StartState


@dataclass(frozen=True, slots=True)
class Limits:
    """The times of start checks in seconds, and how often a missing pod is looked for.

    The first check is `first` after the pod's creation, the next ones every `again`. A pod that
    initializes is checked after `again`, `again` + `step` and so on, up to `longest`. A limit of 0
    is no limit.
    """

    first: float
    again: float
    step: float
    longest: float
    scheduling: float
    initializing: float
    looks: int
    scale_up: float
    """For a pod that waits for a new node of its cluster, if that is longer than `scheduling`."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The state of a pod that is kept between checks.

    `scheduling_timeout` is the session's own, and `wait_deadline` the end of its `queue_timeout`.
    `template` is the node template of which its cluster has to add a node; "" for none.
    """

    created_at: datetime
    initializing_since: datetime | None = None
    initializing_checks: int = 0
    unknown_checks: int = 0
    suspected: bool = False
    scheduling_timeout: float | None = None
    wait_deadline: datetime | None = None
    template: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """A verdict that the pod is checked again, at `at`."""

    at: datetime
    watch: Watch


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict that the start has failed."""

    cause: RetryCause
    message: str


def check(state: StartState, watch: Watch, limits: Limits, now: datetime) -> Again | Verdict | None:
    """Return what follows from a pod's state; None if it has started and needs no more checks."""
    failed = state.progress is Progress.FAILED
    match state.progress:
        case Progress.RUNNING | Progress.FINISHED:
            return None
        case Progress.WAITING:
            return _waiting(state, watch, limits, now)
        case Progress.INITIALIZING:
            return _initializing(state, watch, limits, now)
        case Progress.UNKNOWN:
            watch = replace(watch, unknown_checks=watch.unknown_checks + 1)
            failed = watch.unknown_checks >= limits.looks
        case Progress.SUSPECT:
            failed, watch = watch.suspected, replace(watch, suspected=True)
    return _verdict(state) if failed else Again(_later(now, limits.again), watch)


def _waiting(state: StartState, watch: Watch, limits: Limits, now: datetime) -> Again | Verdict:
    limit = watch.scheduling_timeout or limits.scheduling
    if watch.template and limit:
        limit = max(limit, limits.scale_up) if limits.scale_up else 0
    found = _bounded(state, watch, watch.created_at, limit, limits.again, now)
    if watch.wait_deadline is None or isinstance(found, Verdict):
        return found
    # Who was leased in the last moment may still get a node.
    over = max(watch.wait_deadline, _later(watch.created_at, limits.again))
    if now >= over:
        return _verdict(replace(state, message=f"{state.message}; its queue_timeout is over"))
    return replace(found, at=min(found.at, over))


def _initializing(
    state: StartState, watch: Watch, limits: Limits, now: datetime
) -> Again | Verdict:
    pause = min(limits.again + limits.step * watch.initializing_checks, limits.longest)
    since = watch.initializing_since or now
    watch = replace(
        watch, initializing_since=since, initializing_checks=watch.initializing_checks + 1
    )
    return _bounded(state, watch, since, limits.initializing, pause, now)


def _bounded(
    state: StartState, watch: Watch, since: datetime, limit: float, pause: float, now: datetime
) -> Again | Verdict:
    """Fail after the limit; schedule the next check no later than the limit's end."""
    over = _later(since, limit) if limit else None
    if over is not None and now >= over:
        return _verdict(replace(state, message=f"{state.message}; so it is for {limit:g} s now"))
    again = _later(now, pause)
    return Again(again if over is None else min(again, over), watch)


def _verdict(state: StartState) -> Verdict:
    return Verdict(state.cause or RetryCause.UNKNOWN, state.verdict)


def _later(moment: datetime, seconds: float) -> datetime:
    # A limit may exceed the range of dates.
    return moment + timedelta(seconds=min(seconds, 10 * 366 * 86_400.0))
