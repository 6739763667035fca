"""Preemption: whether sessions make room in vain, how soon a queue gets its share, what is lost.

The real lease rounds and the real sweep serve one executor over REST in this process; its runs are
played by the simulated driver, at the speed of the clock. Beside them stands a model that is
written from the rules alone. It sees what runs where, and since when. Four cases:

* arrival: a queue has the pool for itself, with runs that do not end; then an equal one comes, with
  sessions as large as its share. `time_to_fair_share` is the time in seconds until that one holds
  what `reclaim_below` asks for. It should be at most 30 s more than `reclaim_after`.
* many: the same on more nodes, with many small sessions in both queues, and a `preempt_rate` that
  lets all of them make room at once. `time_of_small` should be at most 30 s more, too.
* rate: the same with the shipped `preempt_rate`. `rate_used` is how many sessions made room within
  each minute at most, by what the rate allows: at most 1, and near 1 if sweeps use what they may.
* losses: the pool is full of runs of many sizes and ages, of one class; sessions of a higher class
  come one after the other. `loss_ratio` is the run time that was lost, by the least that would have
  been enough. It should be at most 1.3.

`preempted_needlessly` counts the sessions, of all cases, that stopped without need: the one for
which they did never started, or had room without them, or their queue had no more than its share.

With `--quick` a queue waits for 10 s instead of the shipped 120 s, and fewer sessions come.

    python -m benchmarks.preemption [--quick]
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from reprise_client.wire import Termination

from benchmarks.database import benchmark_database
from benchmarks.played_cluster import (
    CPUS,
    REFRESH,
    PlayedExecutor,
    World,
    quiet,
    with_settings,
)

FOREVER = 1e6
SEED = 5
SIZES, LARGE = (1, 2, 4, 8), (4, 8, 16)
"""CPUs of the runs that make room, and of the sessions that need some."""
WAVES, OF_A_WAVE, BETWEEN = 12, 4, 0.4
"""How often so many sessions are submitted, and the seconds between, so that ages differ."""
PREEMPT_AFTER = 0.5
PATIENCE = 120.0
"""Seconds for which room is kept, and after which a session that has not started never will."""
LEAST, MOST = 0.8, 1.1
"""What a queue holds by its share: below the one it may take, above the other it may have to give
back."""
SWEEPS_AFTER = 3
"""Sweeps after the queue has got its share, in which nobody may have to stop."""


@dataclass(frozen=True)
class Size:
    """The size of a run: seconds below the share and between two sweeps, sessions that come."""

    reclaim_after: float
    sweep: float
    takers: int
    minute: float
    """The minute that `preempt_rate` counts."""


WHOLE, SMALL = Size(120.0, 10.0, 60, 60.0), Size(10.0, 5.0, 10, 6.0)
SMALL_NODES = 4
"""Nodes of the cases with small sessions."""
MINUTES, SWEEPS_A_MINUTE = 2, 6
"""How long the case of the rate lasts, and how often it sweeps."""


@dataclass(frozen=True)
class Run:
    """A run in the model: its queue, its CPUs, its node, and when it started."""

    queue: str
    cpus: int
    node: str
    since: float


Running = Mapping[UUID, Run]


@dataclass
class Plan:
    """A preemption: its victims, its taker, and all that ran at that moment."""

    taker: UUID
    victims: list[UUID]
    running: Running
    at: float


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="waits less, and fewer sessions come")
    size = SMALL if parser.parse_args().quick else WHOLE
    with benchmark_database("reprise_bench_preemption"), quiet():
        vain, seconds = _arrival(size, Arrival("arrival"))
        of_many, seconds_of_small = _arrival(size, Arrival("many", SMALL_NODES, 1, rate=1.0))
        at_rate, used = _at_rate(size)
        more, ratio = _losses(size)
    figures = {
        "preempted_needlessly": vain + of_many + at_rate + more,
        "time_to_fair_share": round(seconds, 1),
        "time_of_small": round(seconds_of_small, 1),
        "rate_used": round(used, 3),
        "reclaim_after": size.reclaim_after,
        "loss_ratio": round(ratio, 3),
    }
    print(json.dumps(figures))


class Cluster(World):
    """A world whose runs may have to make room; it knows what runs, and what has run."""

    def __init__(self, name: str, nodes: int):
        super().__init__(name, FOREVER, REFRESH, (nodes,))
        from scheduler.models import Executor

        Executor.objects.filter(name=self._executor.name).update(preemption="on")
        self.nodes = [node["name"] for node in self.executors[0].driver.nodes([])]
        self.running: dict[UUID, Run] = {}
        self.ended: dict[UUID, tuple[Run, float]] = {}
        """The runs that are over, and when they were."""
        self._planned = 0

    def add_class(self, name: str, value: int) -> None:
        """Create a priority class whose sessions may preempt."""
        from sessions_app.services.resources.priority_classes import priority_class_create

        fields = {"may_preempt": True, "projects": [self._project.address]}
        priority_class_create(name, value, fields, by="benchmark")

    def play(self, until: Callable[[], bool], limit: float = PATIENCE) -> bool:
        """Step until it holds, at most for so many seconds. Return whether it does."""
        from sessions_app.services.chains.dispatch import next_due, retries_dispatch

        begun = self.now
        while not until() and self.now < begun + limit:
            self.step([])
            left = next_due()
            if left is not None and left <= 0:
                retries_dispatch()
        return until()

    def rest(self, seconds: float) -> None:
        """Step for so many seconds."""
        end = self.now + seconds
        self.play(lambda: self.now >= end, seconds + 1)

    def sweep(self) -> list[Plan]:
        """Do what beat does every some seconds. Return the new plans."""
        from scheduler.models import Preemption
        from scheduler.services.preemptions import room_make

        running, at = dict(self.running), self.now
        room_make()
        own = Preemption.objects.filter(executor=self._executor, pk__gt=self._planned)
        rows = own.order_by("pk")
        plans: dict[UUID, Plan] = {}
        for key, taker, victim in rows.values_list("pk", "taker_id", "victim_id"):
            self._planned = key
            plans.setdefault(taker, Plan(taker, [], running, at)).victims.append(victim)
        return list(plans.values())

    @property
    def _executor(self) -> Any:
        return self.executors[0].agent.executor

    def _start(self, by: PlayedExecutor, leases: Sequence[Mapping[str, Any]]) -> None:
        for each in leases:
            cpus, (node,) = int(each["spec"]["resources"]["cpu"]), each["nodes"]
            run = Run(each["queue"], cpus, node, self.now)
            self.running[UUID(each["session_id"])] = run
        super()._start(by, leases)

    def _ended(self, session: UUID, termination: Termination) -> dict[str, Any]:
        self.ended[session] = self.running.pop(session), self.now
        return super()._ended(session, termination)

    def held(self, queue: str) -> int:
        """Return the CPUs that a queue holds."""
        return held(self.running)[queue]

    def in_vain(self, plans: Sequence[Plan], cpus: int) -> int:
        """Return the number of sessions that stopped without need, for some of so many CPUs each,
        all in one sweep."""
        started = self.running.keys() | self.ended.keys()
        vain = sum(len(plan.victims) for plan in plans if plan.taker not in started)
        return vain or len(needless(plans, cpus, self.nodes))


@dataclass(frozen=True)
class Arrival:
    """A queue that has the pool for itself until an equal one comes."""

    name: str
    nodes: int = 2
    cpus: int = CPUS
    """CPUs of the sessions that come; the others have one."""
    rate: float | None = None
    """`preempt_rate`; None for the shipped one."""


def _arrival(size: Size, case: Arrival) -> tuple[int, float]:
    """Return the number of sessions that stopped needlessly, and the seconds to the fair share."""
    with with_settings(reclaim_after=size.reclaim_after, **_rate(case)):
        cluster = _full(case)
        fair = CPUS * case.nodes / 2

        def has_its_share() -> bool:
            return cluster.held("late") >= LEAST * fair

        plans: list[Plan] = []
        came = cluster.now
        while not has_its_share() and cluster.now < came + size.reclaim_after + PATIENCE:
            plans += cluster.sweep()
            cluster.play(has_its_share, size.sweep)
        seconds = cluster.now - came
        for _ in range(SWEEPS_AFTER):
            plans += cluster.sweep()
            cluster.rest(size.sweep / SWEEPS_AFTER)
    print(f"{case.name}: {seconds:.1f} s to the share, {size.reclaim_after:g} s of waiting")
    return _in_vain(cluster, plans, fair, case.cpus), seconds


def _at_rate(size: Size) -> tuple[int, float]:
    """Return the number of sessions that stopped needlessly, and the most that made room within a
    minute, by what the rate allows."""
    from django.conf import settings

    from scheduler.services import preemptions

    case = Arrival("rate", SMALL_NODES, 1)
    plans: list[Plan] = []
    minute = timedelta(seconds=size.minute)
    with with_settings(reclaim_after=0.0), patch.object(preemptions, "_MINUTE", minute):
        cluster = _full(case)
        allowed = int(settings.REPRISE["preempt_rate"] * CPUS * case.nodes)
        end = cluster.now + MINUTES * size.minute
        while cluster.now < end:
            plans += cluster.sweep()
            cluster.rest(size.minute / SWEEPS_A_MINUTE)
    times = [plan.at for plan in plans for _ in plan.victims]
    worst = max(sum(at - size.minute < each <= at for each in times) for at in times)
    print(f"rate: {worst} of {allowed} sessions within a minute, {len(times)} in all")
    return _in_vain(cluster, plans, CPUS * case.nodes / 2, case.cpus), worst / allowed


def _rate(case: Arrival) -> dict[str, float]:
    return {} if case.rate is None else {"preempt_rate": case.rate}


def _full(case: Arrival) -> Cluster:
    """Return a cluster that is full of one queue, as another one comes."""
    from scheduler.allocation.queue_usage import queue_usage_refresh

    cluster = Cluster(case.name, nodes=case.nodes)
    whole = CPUS * len(cluster.nodes)
    for queue in ("early", "late"):
        cluster.queue(queue)
    cluster.submit("early", 2 * whole, seconds=FOREVER)
    if not cluster.play(lambda: cluster.held("early") == whole):
        raise SystemExit("the pool did not fill: the machine is too slow")
    queue_usage_refresh()  # shares are of the nodes that it has by now
    cluster.rest(BETWEEN)  # until all of them say that they run
    cluster.submit("late", 2 * whole // case.cpus, case.cpus, seconds=FOREVER)
    return cluster


def _in_vain(cluster: Cluster, plans: Iterable[Plan], fair: float, cpus: int) -> int:
    """Return the number of sessions that stopped without need, by the shares of queues or for their
    takers, which have so many CPUs each. Plans of one sweep are judged together."""
    sweeps = [list(each) for _, each in groupby(plans, key=lambda plan: plan.at)]
    return sum(unfair(each, cpus, fair) or cluster.in_vain(each, cpus) for each in sweeps)


def _losses(size: Size) -> tuple[int, float]:
    """Return the number of sessions that stopped needlessly, and the loss by the least loss."""
    cluster, random = Cluster("losses", nodes=4), Random(SEED)  # repeatable on purpose
    for queue in ("busy", "urgent"):
        cluster.queue(queue)
    cluster.add_class("urgent", 100)
    vain, lost, least = 0, 0.0, 0.0
    settings = {"preempt_after": PREEMPT_AFTER, "preempt_rate": 1.0, "reclaim_after": FOREVER}
    with with_settings(**settings):
        for _ in range(WAVES):
            for cpus in random.choices(SIZES, k=OF_A_WAVE):
                cluster.submit("busy", 1, cpus, seconds=FOREVER)
            cluster.rest(BETWEEN)
        for taker in range(size.takers):
            cpus = random.choice(LARGE)
            plan = _make_room(cluster, cpus, taker + 1)
            if plan is None:
                continue
            vain += cluster.in_vain([plan], cpus)
            lost += sum(plan.at - plan.running[each].since for each in plan.victims)
            least += least_loss(cpus, plan.running.values(), cluster.nodes, plan.at)
            cluster.rest(random.random())
    if not least:
        raise SystemExit("nobody had to make room: the machine is too slow")
    print(f"losses: {lost:.1f} s, at least {least:.1f} s")
    return vain, lost / least


def _make_room(cluster: Cluster, cpus: int, number: int) -> Plan | None:
    """Let the `number`-th session of the higher class come and run. Return the plan, if any."""
    cluster.submit("urgent", 1, cpus, seconds=0.2, priority_class="urgent")
    cluster.rest(PREEMPT_AFTER + 0.1)
    plans = cluster.sweep()
    cluster.play(lambda: sum(run.queue == "urgent" for run, _ in cluster.ended.values()) >= number)
    return plans[0] if plans else None


# The model: what the rules say, of one resource and of sessions with one pod.


def held(running: Running, without: Collection[UUID] = ()) -> Counter[str]:
    """Return the CPUs that each queue holds."""
    found: Counter[str] = Counter()
    for key, run in running.items():
        if key not in without:
            found[run.queue] += run.cpus
    return found


def places(cpus: int, running: Running, nodes: Iterable[str], without: Collection[UUID]) -> int:
    """Return how many sessions of so many CPUs fit on the nodes, if these are gone."""
    left = dict.fromkeys(nodes, CPUS)
    for key, run in running.items():
        if key not in without:
            left[run.node] -= run.cpus
    return sum(free // cpus for free in left.values())


def needless(plans: Sequence[Plan], cpus: int, nodes: Collection[str]) -> list[UUID]:
    """Return the victims of one sweep without which it would have been enough for all its takers;
    all victims, if it was not enough."""
    victims, running = [each for plan in plans for each in plan.victims], plans[0].running
    gone = set(victims)
    if places(cpus, running, nodes, gone) < len(plans):
        return victims
    return [each for each in victims if places(cpus, running, nodes, gone - {each}) >= len(plans)]


def unfair(plans: Sequence[Plan], cpus: int, fair: float) -> int:
    """Return the number of sessions that stopped in one sweep though the shares of queues, with the
    plans before, did not ask for it."""
    vain, late = 0, held(plans[0].running)["late"]
    gone: set[UUID] = set()
    for plan in plans:
        before, after = held(plan.running, gone), held(plan.running, gone | {*plan.victims})
        rightly = late < LEAST * fair and before["early"] > MOST * fair
        if not rightly or after["early"] < fair:
            vain += len(plan.victims)
        gone.update(plan.victims)
        late += cpus
    return vain


def least_loss(cpus: int, running: Iterable[Run], nodes: Iterable[str], now: float) -> float:
    """Return the least run time, in seconds, that has to be lost to make room on one node."""
    there: dict[str, list[Run]] = {node: [] for node in nodes}
    for run in running:
        there[run.node].append(run)
    return min(_least_on(cpus, runs, now) for runs in there.values())


def _least_on(cpus: int, runs: Sequence[Run], now: float) -> float:
    """Return the least loss on one node: of all sets of runs, by what they free."""
    missing = cpus - (CPUS - sum(run.cpus for run in runs))
    best = [0.0] + [float("inf")] * max(missing, 0)
    for run in runs:
        lost = now - run.since
        for freed in range(len(best) - 1, 0, -1):
            best[freed] = min(best[freed], best[max(freed - run.cpus, 0)] + lost)
    return best[-1]


if __name__ == "__main__":
    main()
