"""One run: load and faults for a while, then peace, then judgement."""

import heapq
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import psycopg

from tests.acceptance.running import check_database
from tests.faults import judgement
from tests.faults.injections import NOT_NOW, Injector
from tests.faults.load import Load
from tests.faults.plan import KINDS, Fault, plan
from tests.faults.plant import EXECUTORS, OUTPUT_BYTES, Plant
from tests.faults.stream import Follower, StreamReader

TICK = 0.1
AGAIN_SECONDS = 1.0
PEACE_SECONDS = 150.0
"""After the last fault every chain has to end within so long."""
POISON_SECONDS = 40.0
PEACE_LOOK = 2.0
LATE_SECONDS = 30.0
DEFAULT_RATE = 12.0


@dataclass
class Result:
    """What a run came to."""

    seed: int
    submitted: int = 0
    sessions: int = 0
    attempts: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    unfenced: int = 0
    overtaken: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    peace: float = 0.0
    violations: list[str] = field(default_factory=list)


class Storm:
    """Does the faults of a plan, each part of the plant one at a time."""

    def __init__(self, plant: Plant, faults: list[Fault]):
        self._plant = plant
        self.injector = Injector(plant)
        self._waiting = list(faults)
        self._ends: list[tuple[float, int, Fault]] = []
        self._closing: list[tuple[Thread, Fault]] = []
        self._busy: set[str] = set()
        self._not_before = 0.0
        self.done: Counter[str] = Counter()

    def step(self, now: float, *, ending: bool = False) -> None:
        """Begin and end what is due; with `ending` nothing begins and everything ends."""
        for thread, fault in self._closing:
            if not thread.is_alive():
                self._busy.discard(fault.part)
        self._closing = [(thread, fault) for thread, fault in self._closing if thread.is_alive()]
        while self._ends and (ending or self._ends[0][0] <= now):
            _, number, fault = heapq.heappop(self._ends)
            try:
                closing = self.injector.end(fault)
            except NOT_NOW:
                heapq.heappush(self._ends, (now + AGAIN_SECONDS, number, fault))
                return
            if closing is None:
                self._busy.discard(fault.part)
            else:
                self._closing.append((closing, fault))
        if not ending:
            self._begin(now)

    def _begin(self, now: float) -> None:
        for fault in [each for each in self._waiting if each.at <= now]:
            if fault.part in self._busy or now < self._not_before:
                continue
            try:
                self.injector.begin(fault)
            except NOT_NOW:
                self._not_before = now + AGAIN_SECONDS
                continue
            self._waiting.remove(fault)
            self._busy.add(fault.part)
            self.done[fault.kind] += 1
            _say(f"{now:6.1f} s  {fault.kind}, {fault.part}, {fault.seconds:.1f} s")
            heapq.heappush(self._ends, (now + fault.seconds, id(fault), fault))

    def owes(self, late: float) -> bool:
        """Faults had to wait for others, and may be done `late`, in seconds."""
        return bool(self._waiting) and late < LATE_SECONDS

    @property
    def over(self) -> bool:
        """Nothing of it is left."""
        return not self._ends and not self._closing


def run(seed: int, seconds: float, rate: float = DEFAULT_RATE, keep: Path | None = None) -> Result:
    """Load and faults for so many seconds; with `keep` everything is left in that directory."""
    directory = keep or Path(tempfile.mkdtemp(prefix="reprise-faults-"))
    directory.mkdir(parents=True, exist_ok=True)
    result = Result(seed)
    try:
        with Plant(directory, seed) as plant:
            _play(plant, result, seconds, rate)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return result


def _play(plant: Plant, result: Result, seconds: float, rate: float) -> None:
    storm = Storm(plant, plan(result.seed, seconds))
    load, readers = Load(plant, result.seed, rate), (StreamReader(plant), Follower(plant))
    began = time.monotonic()
    for thread in (load, *readers):
        thread.start()
    while (now := time.monotonic() - began) < seconds or storm.owes(now - seconds):
        storm.step(now)
        plant.look()
        time.sleep(TICK)
    _say(f"{now:6.1f} s  peace")
    load.finish()
    while not storm.over:
        storm.step(time.monotonic() - began, ending=True)
        time.sleep(TICK)
    left = _await_peace(plant, storm, result)
    result.violations += [f"has not ended: {line}" for line in left]
    table_reader, follower = readers
    follower.finish()
    plant.stop_parts()
    table_reader.finish()
    result.faults = storm.done
    result.submitted = load.submitted
    result.violations += [f"refused: {line}" for line in load.refused]
    result.violations += [text for part in plant.parts for text in part.surprises]
    seen = [reader.seen for reader in readers]
    result.violations += _judge(plant, result, load, seen, storm)


def _await_peace(plant: Plant, storm: Storm, result: Result) -> list[str]:
    """Wait until every chain has ended and every poison is parked; what is left in the end."""
    began = time.monotonic()
    left = ["nobody has looked"]
    while (waited := time.monotonic() - began) < PEACE_SECONDS:
        plant.look()
        try:
            with plant.connect() as connection:
                left = judgement.unfinished(connection)
                parked = not list(judgement.poison_is_parked(connection, storm.injector.poisons))
        except psycopg.Error as error:
            left, parked = [f"the database does not answer: {error}"], False
        if not left and (parked or waited > POISON_SECONDS):
            break
        _say(f"{waited:6.1f} s  {len(left)} chains go on, all poison is parked: {parked}")
        time.sleep(PEACE_LOOK)
    result.peace = time.monotonic() - began
    return left


def _judge(
    plant: Plant, result: Result, load: Load, seen: list[list[int]], storm: Storm
) -> Iterator[str]:
    deaths = {name: plant.executors[number].deaths for number, name in enumerate(EXECUTORS)}
    truth = judgement.truth_of(plant.run_logs, deaths)
    result.troubles = truth.troubles
    with plant.connect() as connection:
        attempts = judgement.attempts_of(connection)
        result.attempts = len(attempts)
        result.sessions = sum(each.retry_count == 0 for each in attempts)
        result.statuses = Counter(each.status for each in attempts)
        result.unfenced = sum(each.unfenced for each in attempts)
        result.overtaken = judgement.overtaken(attempts, truth)
        yield from judgement.nothing_is_lost(attempts, load.acknowledged, load.submitted)
        yield from judgement.nothing_runs_twice(truth)
        yield from judgement.one_run_of_a_chain(attempts, truth)
        yield from judgement.ends_are_true(attempts, truth)
        yield from judgement.output_is_whole(attempts, OUTPUT_BYTES)
        for told in seen:
            yield from judgement.streams_tell_all(connection, told)
        yield from judgement.poison_is_parked(connection, storm.injector.poisons)
    yield from check_database(plant.database_url)


def table(result: Result) -> str:
    """The figures for people."""
    lines = [
        ("seed", result.seed),
        ("submissions", result.submitted),
        ("chains", result.sessions),
        ("attempts", result.attempts),
        *((f"  {status}", count) for status, count in sorted(result.statuses.items())),
        ("  of them settled unfenced", result.unfenced),
        ("  of them succeeded too late", result.overtaken),
        *((kind, result.faults[kind]) for kind in KINDS),
        *((f"reports {kind}", count) for kind, count in sorted(result.troubles.items())),
        ("seconds to peace", round(result.peace)),
        ("violations", len(result.violations)),
    ]
    return "\n".join(f"{name:40} {value:>8}" for name, value in lines)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
