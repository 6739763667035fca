"""Fair share: what queues really hold over time, beside an independent model of the rules.

The real lease rounds serve executors over REST in this process; their runs are played by the
simulated driver, at the speed of the clock. Four cases:

* shares: 2, 3 and 10 queues, which come and go, on two executors of 22 and 10 nodes of 32 CPUs.
  Their sessions take 1, 2, 4 or 32 CPUs. The model (`share_model.py`) gets the same sessions, and
  looks for ends when the agents do. `worst_share_error` is the largest difference between a queue's
  mean share and that of the model, of all queues and all windows of 30 s after the first 30 s.
* lasting: 2 to 12 queues of factors 1, 4 and 8 whose work never ends, so that all that waits has
  waited for longer than `starved_after` from soon on, for six times as long. The sessions are
  small, equal or mixed. They count for `worst_share_error`, too. `worst_lasting_error` is the
  largest difference between a queue's share in such a window and the part that its factor says.
* swing: a queue has had the pool for itself for ages; then an equal one comes. `swing` is the
  largest distance of either from one half in any window of 5 s, from 15 s after that on.
* large: two nodes are full of small sessions, and more wait; then comes one as large as a node.
  Runs last twice as long as `starved_after`. `large_start_ratio` is its wait by that in the model.

Shares are of what runs, so that a slow machine, which leaves places free between two rounds, does
not look unfair. `pool_used` is the least that runs in these cases, by what does in the model. With
`--quick` there are fewer of them and one half time, and the last two cases take two fifths of their
time.

    python -m benchmarks.fair_share [--quick]
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, NamedTuple

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.database import benchmark_database
from benchmarks.played_cluster import BACKLOG, CPUS, NODES, REFRESH, World, quiet, with_settings
from benchmarks.share_model import Job, Model, Series, filled, jobs, share

RUN, LONG_RUN, LONGEST_RUN = 5.0, 10.0, 20.0
"""Most seconds that a session runs, in the cases of swing, of shares and of the large session."""
HALF_TIMES = (20.0, 300.0)
STARVED_AFTER = 10.0
WINDOW = 30.0
SIZES = {1: 30, 2: 30, 4: 39, CPUS: 1}
"""The sizes of sessions in the case of shares, in CPUs, with their weights."""
UNEQUAL = (22, 10)
"""The nodes of the executors in that case."""
ALONE, LOOKED_AT, SETTLED = 15.0, 45.0, 15.0
"""Seconds for which a queue has the pool, then for which both are looked at, and in these the
seconds in which places come free for the second one."""
TICK = 0.1
"""Seconds between two steps of the model, in the case of the large session."""


@dataclass(frozen=True)
class Stay:
    """A queue, and from when to when it has work."""

    queue: str
    factor: float = 1.0
    comes: float = 0.0
    leaves: float = inf


@dataclass(frozen=True)
class Case:
    """Queues that come and go within so many seconds.

    `nodes` are the numbers of nodes of the executors. At least `backlog` sessions wait in each
    queue with work.
    """

    name: str
    seconds: float
    stays: Sequence[Stay]
    nodes: Sequence[int] = UNEQUAL
    sizes: Mapping[int, int] = field(default_factory=lambda: SIZES)
    backlog: int = BACKLOG

    def busy(self, now: float) -> list[str]:
        """Return the queues that have work."""
        return [each.queue for each in self.stays if each.comes <= now < each.leaves]


THREE = Case(
    "three queues", 80, [Stay("one", 1, leaves=60), Stay("two", 2), Stay("four", 4, comes=35)]
)
CASES = (
    Case("two queues", 110, [Stay("first", leaves=80), Stay("second", comes=35)]),
    THREE,
    Case(
        "ten queues",
        120,
        [Stay(f"early-{n}", 1 + n % 2, leaves=inf if n < 3 else 60 + 8 * n) for n in range(6)]
        + [Stay(f"late-{n}", 1 + n % 2, comes=20 + 15 * n) for n in range(4)],
    ),
)
FEW = (3,)
EQUAL, SMALL = {4: 1}, {1: 1}


def _lasting(name: str, factors: Sequence[float], *more: Any) -> Case:
    """Return a case of queues whose work never ends."""
    stays = [Stay(f"{n}-of-{factor:g}", factor) for n, factor in enumerate(factors)]
    return Case(f"lasting {name}", 70, stays, *more)


FIVE = _lasting("five", [1, 8, 8, 8, 8], FEW, EQUAL)
LASTING = (
    _lasting("equal", [1, 4], FEW, EQUAL),
    FIVE,
    _lasting("small", [1, 4, 8], FEW, SMALL, 600),
    _lasting("mixed", [1, 4, 8], UNEQUAL, SIZES, 800),
    _lasting("twelve", [1, 4, 8] * 4),
)


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter cases")
    quick = parser.parse_args().quick
    scale, half_times = (0.4, HALF_TIMES[:1]) if quick else (1.0, HALF_TIMES)
    with benchmark_database("reprise_bench_fair_share"), quiet():
        cases = [_shares(case) for case in ((THREE,) if quick else CASES)]
        lasting = [_shares(case) for case in ((FIVE,) if quick else LASTING)]
        swing = max(_swing(scale, half_time) for half_time in half_times)
        ratio = _large(scale)
    figures = {
        "worst_share_error": max(each.error for each in (*cases, *lasting)),
        "worst_lasting_error": max(each.beside_factors for each in lasting),
        "large_start_ratio": ratio,
        "swing": swing,
        "pool_used": min(each.used for each in (*cases, *lasting)),
    }
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


class Shares(NamedTuple):
    """What a case of shares has shown."""

    error: float
    """The largest difference between a queue's share in a window and that of the model."""
    beside_factors: float
    """The largest difference to the part that the queue's factor says, if all always have work."""
    used: float
    """How much of the pool runs, by the model."""


def _shares(case: Case) -> Shares:
    """Play a case, and look at the shares of its queues in all windows."""
    turns = _played(case)
    found = [(each.ended, each.held) for each in turns]
    model = _modelled(case, turns)
    begins = range(round(WINDOW), round(case.seconds - WINDOW) + 1)
    whole = sum(1 / stay.factor for stay in case.stays)
    worst = beside = 0.0
    for stay in case.stays:
        errors: dict[float, int] = {}
        for at in begins:
            window = at, at + WINDOW
            held = share(found, stay.queue, *window)
            errors[abs(held - share(model, stay.queue, *window))] = at
            beside = max(beside, abs(held - 1 / stay.factor / whole))
        error = max(errors)
        print(
            f"{case.name}, {stay.queue} (factor {stay.factor:g}): error of {error:.3f}"
            f" in the window from {errors[error]} s on"
        )
        worst = max(worst, error)
    used = (filled(each, WINDOW, case.seconds) for each in (found, model))
    return Shares(worst, beside, next(used) / next(used))


class Turn(NamedTuple):
    """A turn of the agents: when it began, looked for ends, and ended, and what ran then."""

    began: float
    looked: float
    ended: float
    held: Counter[str]


def _played(case: Case) -> list[Turn]:
    """Return what the agents of the real scheduler did."""
    name = case.name.replace(" ", "-")
    world = World(name, LONG_RUN, REFRESH, case.nodes, case.sizes, case.backlog)
    for stay in case.stays:
        world.queue(stay.queue, stay.factor)
    turns: list[Turn] = []
    busy = case.busy(0)
    world.begin(busy)
    with with_settings(starved_after=STARVED_AFTER):
        while (now := world.now) < case.seconds:
            before, busy = busy, case.busy(now)
            for queue in before:
                if queue not in busy:
                    world.cancel(queue)
            held = world.step(busy)
            turns.append(Turn(now, world.looked, world.now, held))
    return turns


def _modelled(case: Case, turns: Sequence[Turn]) -> Series:
    """Return what queues hold in the model, which looks for room when the agents did."""
    factors = {stay.queue: stay.factor for stay in case.stays}
    model = Model([CPUS] * sum(case.nodes), factors, STARVED_AFTER)
    coming = {queue: jobs(queue, case.sizes, LONG_RUN) for queue in factors}
    series = []
    busy: list[str] = []
    for turn in turns:
        before, busy = busy, case.busy(turn.began)
        for queue in before:
            if queue not in busy:
                model.leave(queue)
        for queue in busy:
            if model.waiting(queue) < case.backlog:
                for job in islice(coming[queue], case.backlog):
                    model.submit(queue, job, turn.began)
        model.step(turn.looked, turn.ended - turn.looked)
        series.append((turn.ended, Counter(model.held)))
    return series


def _looks(
    world: World,
    busy: Sequence[str],
    *,
    until: float,
    stop: Callable[[], bool] = lambda: False,
) -> Series:
    """Step until this second of the case, at least once. Return what runs."""
    looks = []
    while True:
        held = world.step(busy)
        looks.append((world.now, held))
        if world.now >= until or stop():
            return looks


def _swing(scale: float, half_time: float) -> float:
    run, queues = RUN * scale, ["early", "late"]
    world = World(f"swing-{half_time:g}", run, REFRESH * scale)
    for queue in queues:
        world.queue(queue)
    with with_settings(priority_half_time=half_time * scale):
        _looks(world, ["early"], until=ALONE * scale)
        world.had_the_pool("early")
        came = world.now
        series = _looks(world, queues, until=came + LOOKED_AT * scale)
    first, last = came + SETTLED * scale, series[-1][0] - run
    begins = [at for at, _ in series if first <= at <= last]
    worst = max(begins, key=lambda at: abs(share(series, "late", at, at + run) - 0.5))
    away = abs(share(series, "late", worst, worst + run) - 0.5)
    print(
        f"half time {half_time:g} s: {away:.3f} from one half in the window from"
        f" {(worst - came) / scale:.1f} s on"
    )
    return away


def _large(scale: float) -> float:
    run, starved_after = LONGEST_RUN * scale, STARVED_AFTER * scale
    world = World("large", run, REFRESH * scale)
    for queue in ("small", "large"):
        world.queue(queue)
    with with_settings(starved_after=starved_after):
        _looks(world, ["small"], until=run)
        came = world.now
        world.submit("large", 1, CPUS)
        limit = came + 4 * (starved_after + run)
        _looks(world, ["small"], until=limit, stop=lambda: "large" in world.started)
    waited = world.started.get("large", limit) - came
    wanted = _large_in_model(run, starved_after, TICK * scale)
    print(f"large: {waited:.1f} s, {wanted:.1f} s in the model; starved after {starved_after:g} s,")
    print(f"       runs of {run:g} s")
    return waited / wanted


def _large_in_model(run: float, starved_after: float, tick: float) -> float:
    """Return how long the large session waits in the model."""
    model = Model([CPUS] * NODES, {"small": 1.0, "large": 1.0}, starved_after)
    small = jobs("small", {1: 1}, run)
    now = came = 0.0
    while "large" not in model.started:
        if model.waiting("small") < BACKLOG:
            for job in islice(small, BACKLOG):
                model.submit("small", job, now)
        if not came and now >= run:
            came = now
            model.submit("large", Job(CPUS, run), now)
        model.step(now)
        now += tick
    return model.started["large"] - came


if __name__ == "__main__":
    main()
