"""Fair share: what queues really hold over time, beside an independent model of the rules.

The real lease rounds serve one executor over REST in this process; its runs are played by the
simulated driver, at the speed of the clock. All queues always have work. Three cases:

* shares: queues with the factors 1, 2 and 4. The model is written from the rules alone: each free
  place goes to the queue with the lowest factor times what it holds. `worst_share_error` is the
  largest difference between the mean share of a queue and that of the model.
* swing: a queue has the pool for itself; then an equal one comes. `swing` is the largest distance
  of either from one half in any window of a run's length, from three such windows on.
* large: two nodes are full of small sessions, and more wait; then comes one as large as a node.
  `large_start_ratio` is its wait by `starved_after` plus the longest run.

Shares are of what runs, so that a slow machine, which leaves places free between two rounds, does
not look unfair. Runs last up to 5 s, and with `--quick` all times are a quarter.

    python -m benchmarks.fair_share [--quick]
"""

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from statistics import mean
from typing import Any
from unittest.mock import create_autospec, patch
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from reprise_client.wire import LeaseKey, Termination

from benchmarks.database import benchmark_database
from executor.drivers.protocol import UNSTARTED, Observation, Order
from executor.drivers.simulated.driver import SimulatedDriver
from executor.drivers.simulated.script import Script
from executor.runs import NOWHERE, RunFiles

RUN = 5.0
"""Most seconds that a session runs."""
SPREAD = 0.3
"""How much shorter some sessions run, so that their ends spread out."""
SEED = 7
CPUS, NODES = 32, 2
FACTORS = {"one": 1.0, "two": 2.0, "four": 4.0}
HALF_TIMES = (20.0, 300.0)
STARVED_AFTER = 10.0
REFRESH = 15.0
"""Seconds between two times at which the usage of queues is added up, as beat does it."""
BACKLOG = 200
"""Sessions that wait at least in each queue."""
LOOKED_AT = 7
"""Run lengths after which shares are known."""
WINDOWS = 9
"""Windows of a run's length that are looked at after the second queue has come."""
STEP = 0.02

Shares = dict[str, float]


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="all times are a quarter")
    scale = 0.25 if parser.parse_args().quick else 1.0
    half_times = HALF_TIMES[:1] if scale < 1 else HALF_TIMES
    with benchmark_database("reprise_bench_fair_share"), quiet():
        error = _shares(scale)
        swing = max(_swing(scale, half_time) for half_time in half_times)
        ratio = _large(scale)
    figures = {"worst_share_error": error, "large_start_ratio": ratio, "swing": swing}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


@contextmanager
def quiet() -> Iterator[None]:
    """Send no wake-ups: nobody holds a call here."""
    from django.conf import settings
    from django.test.utils import override_settings

    from sessions_app import wakeups

    nobody = create_autospec(wakeups.Publisher, instance=True)
    hosts = [*settings.ALLOWED_HOSTS, "testserver"]
    with override_settings(ALLOWED_HOSTS=hosts), patch.object(wakeups, "publisher", nobody):
        yield


class World:
    """The real scheduler with one executor, whose runs the simulated driver plays."""

    def __init__(self, name: str, run: float, refresh: float, nodes: int = NODES):
        from scheduler.models import Executor, Lease, Pool, QueueUsage
        from tests import factories
        from tests.agent import Agent, Api

        # Nothing of the case before counts; its waiting sessions are another project's.
        for model in (Lease, QueueUsage, Pool):
            model.objects.all().delete()
        Executor.objects.update(last_seen_at=None)
        self._project = factories.project(name)
        self._queue = factories.queue
        self._api = Api(factories.token(factories.user(superuser=True)))
        self._agent = Agent(factories.executor(name, projects=(self._project,)))
        script = Script(node={"cpu": str(CPUS)})
        self._driver = SimulatedDriver(script, seed=1, nodes=nodes, speed=1)
        self._run, self._refresh, self._refreshed = run, refresh, 0.0
        self._random = Random(SEED)  # repeatable on purpose
        self._began = time.monotonic()
        self._waiting: Counter[str] = Counter()
        self._queue_of: dict[UUID, str] = {}
        self.started: dict[str, float] = {}
        """Seconds after which the first session of each queue was started."""

    @property
    def now(self) -> float:
        """Return the seconds since the case began."""
        return time.monotonic() - self._began

    def queue(self, name: str, factor: float = 1.0) -> None:
        """Create a queue."""
        self._queue(self._project, name, priority_factor=factor)

    def submit(
        self, queue: str, count: int, cpus: int = 1, *, seconds: float | None = None, **more: str
    ) -> None:
        """Submit sessions of this many CPUs; they run for so long, or for a length of their own.

        `more` are other fields of a submission.
        """
        body = {
            "project": self._project.address,
            "queue": queue,
            "command": ["true"],
            "resources": {"cpu": str(cpus)},
            **more,
        }
        sessions = []
        for _ in range(count):
            length = _length(self._random, self._run) if seconds is None else seconds
            script = json.dumps({"seconds": length})
            name = str(UUID(bytes=os.urandom(16)))
            sessions.append({**body, "creation_id": name, "environ": {"REPRISE_SIMULATE": script}})
        answer = self._api.post("sessions/bulk/", {"sessions": sessions})
        if answer.status_code != 200:
            raise SystemExit(answer.content)
        self._waiting[queue] += count

    def step(self, busy: Sequence[str]) -> Counter[str]:
        """Do one turn of an agent. Return how many sessions run, by queue."""
        from scheduler.allocation.queue_usage import queue_usage_refresh

        for queue in busy:
            if self._waiting[queue] < BACKLOG:
                self.submit(queue, BACKLOG)
        if self.now >= self._refreshed + self._refresh:
            queue_usage_refresh()
            self._refreshed = self.now
        self._report(self._driver.poll(STEP))
        self._agent.nodes = [dict(node) for node in self._driver.nodes([])]
        self._agent.lease()
        for stop in self._agent.answer["stops"]:
            key = LeaseKey(stop["session_id"], stop["fencing_token"])
            self._driver.stop(key, stop["grace_period"])
        self._start(self._agent.answer["leases"])
        return Counter(self._queue_of.values())

    def _report(self, seen: Sequence[Observation]) -> None:
        drafts = []
        for each in seen:
            session = UUID(each.key.session_id)
            if each.status == UNSTARTED:
                raise SystemExit(f"node {each.node} has refused a run: {each.message}")
            if each.termination is not None:
                del self._queue_of[session]
                drafts.append(self._ended(session, each.status, each.termination))
            else:
                more = {"node": each.node}
                drafts.append(self._agent.reporting(session, each.status, **more))
        self._send(drafts)

    def _ended(self, session: UUID, status: str, termination: Termination) -> dict[str, Any]:
        return self._agent.reporting(session, status, termination=dict(termination))

    def _start(self, leases: Sequence[Mapping[str, Any]]) -> None:
        ids = [UUID(lease["session_id"]) for lease in leases]
        self._send([self._agent.reporting(each, "PREPARING") for each in ids])
        for session, lease in zip(ids, leases, strict=True):
            self._queue_of[session] = lease["queue"]
            self._waiting[lease["queue"]] -= 1
            self.started.setdefault(lease["queue"], self.now)
            key = LeaseKey(lease["session_id"], lease["fencing_token"])
            files, nodes = RunFiles(key, NOWHERE), tuple(lease["nodes"])
            spec: Any = lease["spec"]
            self._driver.start(Order(key, spec, lease["environ"], files, nodes=nodes))

    def _send(self, drafts: Sequence[Any]) -> None:
        if drafts and set(self._agent.send(*drafts)) != {"applied"}:
            raise SystemExit("a report was not applied")


def _length(random: Random, run: float) -> float:
    return run * (1 - SPREAD * random.random())


def with_settings(**values: float) -> Any:
    """Return a context in which these settings of the scheduler hold."""
    from django.conf import settings
    from django.test.utils import override_settings

    return override_settings(REPRISE={**settings.REPRISE, **values})


def _mean_shares(looks: Sequence[Mapping[str, int]], queues: Sequence[str]) -> Shares:
    parts: dict[str, list[float]] = defaultdict(list)
    for look in looks:
        if whole := sum(look.values()):
            for queue in queues:
                parts[queue].append(look.get(queue, 0) / whole)
    if not parts:
        raise SystemExit("nothing ran when the shares were looked at: the machine is too slow")
    return {queue: mean(parts[queue]) for queue in queues}


def _shares(scale: float) -> float:
    queues, run = list(FACTORS), RUN * scale
    world = World("shares", run, REFRESH * scale)
    for queue, factor in FACTORS.items():
        world.queue(queue, factor)
    looks = _looks(world, queues, until=LOOKED_AT * run, since=2 * run)
    found = _mean_shares(looks, queues)
    model = _mean_shares(
        _model(FACTORS, places=CPUS * NODES, run=run, length=LOOKED_AT * run), queues
    )
    for queue in queues:
        print(
            f"factor {FACTORS[queue]:g}: {found[queue]:6.1%} of what runs, model {model[queue]:.1%}"
        )
    return max(abs(found[queue] - model[queue]) for queue in queues)


def _model(
    factors: Mapping[str, float], *, places: int, run: float, length: float
) -> list[Mapping[str, int]]:
    """Return what each queue holds at moments from two run lengths on, by the rules alone."""
    random = Random(SEED)  # repeatable on purpose
    ends: list[tuple[float, str]] = []
    looks: list[Mapping[str, int]] = []
    ticks = round(length / STEP)
    for tick in range(ticks):
        now = tick * STEP
        ends = [(end, queue) for end, queue in ends if end > now]
        while len(ends) < places:
            held = Counter(queue for _, queue in ends)
            lowest = min(factors, key=lambda queue: (factors[queue] * held[queue], queue))
            ends.append((now + _length(random, run), lowest))
        if now >= 2 * run:
            looks.append(Counter(queue for _, queue in ends))
    return looks


def _looks(
    world: World,
    busy: Sequence[str],
    *,
    until: float,
    since: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
) -> list[Counter[str]]:
    """Step until this second of the case, at least once. Return what runs, from `since` on."""
    looks = []
    while True:
        # On a slow machine a step may take longer than a window. Each window has one, still.
        look = world.step(busy)
        if world.now >= since:
            looks.append(look)
        if world.now >= until or stop():
            return looks


def _swing(scale: float, half_time: float) -> float:
    run, queues = RUN * scale, ["early", "late"]
    world = World(f"swing-{half_time:g}", run, REFRESH * scale)
    for queue in queues:
        world.queue(queue)
    worst = 0.0
    with with_settings(priority_half_time=half_time * scale):
        _looks(world, ["early"], until=4 * run)
        # In the first three windows places come free for the late one.
        for window in range(WINDOWS):
            shares = _mean_shares(_looks(world, queues, until=(5 + window) * run), queues)
            away = max(abs(share - 0.5) for share in shares.values())
            worst = max(worst, away) if window >= 3 else 0.0
            print(f"half time {half_time:g} s, window {window}: {shares['late']:6.1%} late")
    return worst


def _large(scale: float) -> float:
    run, starved_after = RUN * scale, STARVED_AFTER * scale
    world = World("large", run, REFRESH * scale)
    for queue in ("small", "large"):
        world.queue(queue)
    with with_settings(starved_after=starved_after):
        _looks(world, ["small"], until=2 * run)
        came = world.now
        world.submit("large", 1, CPUS)
        limit = came + 4 * (starved_after + run)
        _looks(world, ["small"], until=limit, stop=lambda: "large" in world.started)
    waited = world.started.get("large", limit) - came
    print(f"large: {waited:.1f} s, starved after {starved_after:g} s, runs of {run:g} s")
    return waited / (starved_after + run)


if __name__ == "__main__":
    main()
