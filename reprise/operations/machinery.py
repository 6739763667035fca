"""Problems of the machinery: database, broker, workers, beat, deadlines and parked tasks."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from reprise.beat.periodic import DEADLINES, SWEEPS
from reprise.models import Heartbeat
from reprise.monitoring import health
from reprise.operations import facts
from reprise.operations.problems import Act, ActName, Problem, Severity
from reprise.worker.heartbeats import DEAD_SECONDS
from sessions_app.selectors.counts import Count

RECENTLY = timedelta(hours=1)
"""How long a process that was killed is told: its successor has another name."""
LATE = {"retry": (60, 300), "start": (120, 600), "delivery": (300, 3600)}
"""Seconds after which what is due is late, and very late."""
INTERVALS, GRACE = 3, timedelta(minutes=2)
"""A periodic task is late after so many intervals, and some time."""


def machinery(now: datetime) -> Iterator[Problem]:
    """Yield the problems of the machinery; five statements, and a probe of the broker."""
    disk = health.disk_now()
    if disk.state == "dead":
        yield Problem("disk", Severity.CRITICAL, f"{_sentence(disk.detail)} Calls that write fail.")
    broker = health.broker_now()
    if broker.state == "dead":
        told = "The message broker does not answer: tasks are sent by nobody, beat runs the rest."
        yield Problem("broker", Severity.CRITICAL, told)
    beating = facts.heartbeats(now - RECENTLY)
    if disk.state != "dead":  # otherwise they cannot write a heartbeat
        yield from _processes(beating, now)
    yield from _deadlines(now)
    yield from _periodic(now, standby=any(each.doing for each in beating if each.part == "beat"))
    for each in facts.parked():
        yield _parked(each)


def _processes(beating: Sequence[Heartbeat], now: datetime) -> Iterator[Problem]:
    alive = now - timedelta(seconds=DEAD_SECONDS)
    for part, nothing in _NOTHING.items():
        of = [each for each in beating if each.part == part]
        if not any(each.seen_at >= alive for each in of):
            newest = max((each.seen_at for each in of), default=None)
            yield Problem(f"no_{part}", Severity.CRITICAL, nothing, since=newest)
            continue
        for each in of:
            if each.seen_at < alive:
                told = f"A {part} ended without saying so: {each.name}. Others work."
                yield Problem(
                    f"dead_{part}", Severity.WARNING, told, subject=each.name, since=each.seen_at
                )
    for each in beating:
        if each.part == "beat" and each.doing and each.seen_at >= alive:
            told = f"Beat {each.doing}: retries, leases and starts are a few seconds late."
            yield Problem("beat_standby", Severity.WARNING, told, subject=each.name)


_NOTHING = {
    "worker": "No worker is alive: webhooks and upkeep stand still, beat runs the deadlines.",
    "beat": "Beat is not alive: no periodic task runs.",
}


def _deadlines(now: datetime) -> Iterator[Problem]:
    due = facts.deadlines()
    found = (
        ("retry", due.retry, "Retries start late.", due.retries_due, "retries"),
        ("start", due.start, "Starts of sessions are checked late.", None, ""),
        ("delivery", due.delivery, "Webhooks are delivered late.", None, ""),
    )
    for kind, at, told, affected, unit in found:
        late, very_late = LATE[kind]
        if at is None or now - at < timedelta(seconds=late):
            continue
        bad = now - at >= timedelta(seconds=very_late) and kind != "delivery"
        severity = Severity.CRITICAL if bad else Severity.WARNING
        yield Problem(f"late_{kind}", severity, told, since=at, affected=affected, unit=unit)


def _periodic(now: datetime, *, standby: bool) -> Iterator[Problem]:
    for each in facts.periodic():
        if not each.enabled:
            if each.name in SWEEPS:
                told = f"The periodic task “{each.name}” is switched off."
                yield Problem("periodic_off", Severity.WARNING, told, subject=each.name)
        elif each.error:
            told = f"The periodic task “{each.name}” failed: {each.error.splitlines()[0][:200]}"
            yield Problem(
                "periodic_failed", Severity.WARNING, told, subject=each.name, since=each.last_run
            )
        elif _is_late(each, now) and not (standby and each.task in DEADLINES):
            told = f"The periodic task “{each.name}” does not run."
            yield Problem(
                "periodic_late", Severity.WARNING, told, subject=each.name, since=each.last_run
            )


def _is_late(each: facts.Periodic, now: datetime) -> bool:
    if each.every is None or each.last_run is None:
        return False
    return now - each.last_run > INTERVALS * each.every + GRACE


def _parked(each: facts.Parked) -> Problem:
    tasks = "A task is" if each.count == 1 else f"{each.count} tasks are"
    return Problem(
        "parked",
        Severity.WARNING,
        f"{tasks} parked: every worker that took {each.name} died with it.",
        subject=each.name,
        since=each.since,
        affected=Count(each.count),
        unit="tasks",
        acts=(Act(ActName.PARKED_SEND, each.name),),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
