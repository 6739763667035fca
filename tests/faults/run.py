"""One run: load and faults for a while, then peace, then judgement."""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread

import psycopg

from tests.acceptance.running import check_database
from tests.faults import judgement, poison, timetable
from tests.faults.injections import LIMITS, NOT_NOW, Injector
from tests.faults.late import Late
from tests.faults.load import JOB_SET, Load
from tests.faults.plan import KINDS, LONG, Fault, plan
from tests.faults.plant import OUTPUT_BYTES, Plant
from tests.faults.stream import Follower, StreamReader
from tests.faults.watch import Watch
from tests.prepared import copy_database

TICK = 0.1
AGAIN_SECONDS = 1.0
PEACE_SECONDS = 150.0
"""After the last fault every chain has to end within so long, and all poison to be parked: longer
than the watchdog's patience with a worker that hangs and holds it."""
PEACE_LOOK = 1.0
LATE_SECONDS = 150.0
DEFAULT_RATE = 12.0


@dataclass
class Result:
    """The result of a run."""

    seed: int
    submitted: int = 0
    sessions: int = 0
    attempts: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    paced: int = 0
    unfenced: int = 0
    regained: int = 0
    overtaken: int = 0
    waited: int = 0
    made_room: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    lasted: dict[str, float] = field(default_factory=dict)
    troubles: Counter[str] = field(default_factory=Counter)
    played: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    peace: float = 0.0
    violations: list[str] = field(default_factory=list)


class Storm:
    """Does the faults of a plan, each part of the plant one at a time.

    `lasted` is how long the longest fault of each kind did, in seconds.
    """

    def __init__(self, plant: Plant, faults: list[Fault]):
        self.injector = Injector(plant)
        self._waiting = list(faults)
        self._going: list[tuple[float, Fault]] = []
        self._closing: list[tuple[Thread, Fault]] = []
        self._busy: set[str] = set()
        self._not_before: dict[Fault, float] = {}
        self.done: Counter[str] = Counter()
        self.lasted: dict[str, float] = {}

    def step(self, now: float, *, hurry: bool = False) -> None:
        """End and begin what is due.

        In a `hurry` long faults end before their time, and none of a kind begins that there was.
        """
        for thread, fault in self._closing:
            if not thread.is_alive():
                self._busy.discard(fault.part)
        self._closing = [(thread, fault) for thread, fault in self._closing if thread.is_alive()]
        for began, fault in sorted(self._going, key=lambda each: each[0] + each[1].seconds):
            lasts = min(fault.seconds, LONG) if hurry else fault.seconds
            if began + lasts <= now and self._not_before.get(fault, 0.0) <= now:
                self._end(began, fault, now)
        if hurry:
            self._waiting = [each for each in self._waiting if each.kind not in self.done]
        for fault in [each for each in self._waiting if each.at <= now]:
            if fault.part not in self._busy and self._not_before.get(fault, 0.0) <= now:
                self._begin(fault, now)

    def _begin(self, fault: Fault, now: float) -> None:
        try:
            self.injector.begin(fault)
        except NOT_NOW:
            self._not_before[fault] = now + AGAIN_SECONDS
            return
        self._waiting.remove(fault)
        self._busy.add(fault.part)
        self._going.append((now, fault))
        self.done[fault.kind] += 1
        _say(f"{now:6.1f} s  {fault.kind}, {fault.part}, {fault.seconds:.1f} s")

    def _end(self, began: float, fault: Fault, now: float) -> None:
        try:
            closing = self.injector.end(fault)
        except NOT_NOW:
            self._not_before[fault] = now + AGAIN_SECONDS
            return
        self._going.remove((began, fault))
        self.lasted[fault.kind] = max(now - began, self.lasted.get(fault.kind, 0.0))
        if closing is None:
            self._busy.discard(fault.part)
        else:
            self._closing.append((closing, fault))

    def owes(self, late: float) -> bool:
        """Kinds of faults had to wait for others, and may come `late`, in seconds."""
        return late < LATE_SECONDS and any(each.kind not in self.done for each in self._waiting)

    def forgo(self) -> None:
        """Begin nothing more."""
        self._waiting.clear()

    @property
    def over(self) -> bool:
        """Return whether nothing of it is left."""
        return not self._going and not self._closing


def run(
    seed: int,
    seconds: float,
    rate: float = DEFAULT_RATE,
    *,
    keep: Path | None = None,
    prepared: Path | None = None,
    first: bool = False,
) -> Result:
    """Load and faults for so many seconds; with `keep` everything is left in that directory.

    On a copy of the `prepared` database, if there is one. With `first` it ends as soon as anything
    is seen to be wrong.
    """
    directory = keep or Path(tempfile.mkdtemp(prefix="reprise-faults-"))
    directory.mkdir(parents=True, exist_ok=True)
    result = Result(seed)
    try:
        if prepared is not None:
            copy_database(prepared, directory)
        with Plant(directory, seed) as plant:
            _play(plant, result, seconds, rate, first=first)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return result


def _play(plant: Plant, result: Result, seconds: float, rate: float, *, first: bool) -> None:
    storm = Storm(plant, plan(result.seed, seconds))
    begin = partial(timetable.schedules_make, job_set=JOB_SET, seconds=seconds)
    load = Load(plant, result.seed, rate, begin)
    readers = StreamReader(plant), Follower(plant)
    late, watch = Late(plant), Watch(plant)
    began = time.monotonic()
    for thread in (load, *readers, late, watch):
        thread.start()
    while (now := time.monotonic() - began) < seconds or _owes(storm, load, plant, now - seconds):
        storm.step(now, hurry=now >= seconds)
        plant.look()
        if first and (wrong := [*late.violations, *watch.violations]):
            result.violations += wrong
            return
        time.sleep(TICK)
    _say(f"{now:6.1f} s  peace")
    load.finish()
    storm.forgo()
    while not storm.over:
        storm.step(time.monotonic() - began, hurry=True)
        plant.look()
        time.sleep(TICK)
    late.finish()
    left = _await_peace(plant, storm, result)
    result.violations += [f"has not ended: {line}" for line in left]
    table_reader, follower = readers
    follower.finish()
    plant.stop_parts()
    table_reader.finish()
    watch.finish()
    result.faults, result.lasted = storm.done, storm.lasted
    result.submitted, result.outcomes = load.submitted, load.outcomes
    result.violations += [f"refused: {line}" for line in load.refused]
    result.violations += [text for part in plant.parts for text in part.surprises]
    result.played, result.looks = late.played, watch.looks
    result.violations += watch.violations
    with plant.connect() as connection:
        result.violations += late.judge(connection)
    seen = [reader.seen for reader in readers]
    result.violations += _judge(plant, result, load, seen, storm)


def _owes(storm: Storm, load: Load, plant: Plant, late: float) -> bool:
    """Return whether something that every run has to see has not happened yet."""
    if storm.owes(late):
        return True
    load.slacken()
    return late < LATE_SECONDS and not _made_room(plant)


def _made_room(plant: Plant) -> bool:
    # Of one alone the chain may still be cancelled, and then nothing can be said of it.
    with suppress(psycopg.Error), plant.connect() as connection:
        return len(judgement.gave_way_of(connection)) > 1
    return False


def _await_peace(plant: Plant, storm: Storm, result: Result) -> list[str]:
    """Wait until every chain has ended and every poison is parked; what is left in the end."""
    began = time.monotonic()
    left = ["nobody has looked"]
    while (waited := time.monotonic() - began) < PEACE_SECONDS:
        plant.look()
        storm.injector.hasten()
        try:
            with plant.connect() as connection:
                left = judgement.unfinished(connection)
                parked = judgement.parked_of(connection).issuperset(storm.injector.poisons)
        except psycopg.Error as error:
            left, parked = [f"the database does not answer: {error}"], False
        if not left and parked:
            break
        _say(f"{waited:6.1f} s  {len(left)} chains go on, all poison is parked: {parked}")
        if len(left) == 1:
            _say(f"          {left[0]}")
        time.sleep(PEACE_LOOK)
    result.peace = time.monotonic() - began
    return left


def _judge(
    plant: Plant, result: Result, load: Load, seen: list[list[int]], storm: Storm
) -> Iterator[str]:
    truth = judgement.truth_of(plant.run_logs, plant.deaths)
    result.troubles = truth.troubles
    with plant.connect() as connection:
        attempts = judgement.attempts_of(connection)
        result.attempts = len(attempts)
        result.sessions = sum(each.retry_count == 0 for each in attempts)
        result.statuses = Counter(each.status for each in attempts)
        result.paced = sum(each.paced for each in attempts)
        result.unfenced = sum(each.unfenced for each in attempts)
        result.regained = sum(each.lost and each.status == "TERMINATED" for each in attempts)
        result.overtaken = judgement.overtaken(attempts, truth)
        yield from judgement.nothing_is_lost(attempts, load.acknowledged, load.submitted)
        yield from judgement.promises_are_kept(attempts, load.promised)
        slots = judgement.slots_of(connection)
        yield from judgement.limits_hold(slots, *LIMITS.values())
        yield from judgement.nothing_runs_twice(truth)
        yield from judgement.one_run_of_a_chain(attempts, truth)
        yield from judgement.ends_are_true(attempts, truth)
        waited, planned = judgement.waited_of(connection), timetable.planned_of(connection)
        result.waited = len(waited)
        yield from judgement.dependants_come_later(waited, truth)
        yield from timetable.times_become_chains(planned, attempts)
        gave_way = judgement.gave_way_of(connection)
        result.made_room = len(gave_way)
        yield from judgement.who_made_room_comes_back(gave_way, attempts, truth)
        yield from judgement.output_is_whole(attempts, OUTPUT_BYTES)
        for events in seen:
            yield from judgement.streams_tell_all(connection, events)
        found = poison.whereabouts(plant.broker.url)
        parked = judgement.parked_of(connection)
        yield from judgement.poison_is_parked(parked, storm.injector.poisons, found)
    yield from check_database(plant.database_url)


def table(result: Result) -> str:
    """The figures for people."""
    lines = [
        ("seed", result.seed),
        ("submissions", result.submitted),
        ("chains", result.sessions),
        ("attempts", result.attempts),
        *((f"  {status}", count) for status, count in sorted(result.statuses.items())),
        ("  of them with a retry that had to wait", result.paced),
        ("  of them settled unfenced", result.unfenced),
        ("  of them succeeded while lost, and told it in time", result.regained),
        ("  of them succeeded too late", result.overtaken),
        ("successes that others waited for", result.waited),
        ("attempts that made room for others", result.made_room),
        *(
            (f"calls {what}" if what == "failed" else what, count)
            for what, count in sorted(result.outcomes.items())
        ),
        *((f"played late: {case}", count) for case, count in sorted(result.played.items())),
        ("looks at every moment", result.looks),
        *((kind, result.faults[kind]) for kind in KINDS),
        *((f"reports {kind}", count) for kind, count in sorted(result.troubles.items())),
        ("seconds to peace", round(result.peace)),
        ("violations", len(result.violations)),
    ]
    return "\n".join(f"{name:40} {value:>8}" for name, value in lines)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
