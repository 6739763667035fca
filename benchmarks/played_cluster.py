"""The real scheduler over REST in this process, with executors whose runs are simulated.

Lease rounds, reports and submissions are those of a server. The runs pass at the speed of the
clock.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from unittest.mock import create_autospec, patch
from uuid import UUID

from reprise_client.wire import LeaseKey, Termination

from benchmarks.share_model import Job, jobs
from executor.drivers.protocol import UNSTARTED, Observation, Order
from executor.drivers.simulated.driver import SimulatedDriver
from executor.drivers.simulated.script import Script
from executor.runs import NOWHERE, RunFiles

CPUS, NODES = 32, 2
"""CPUs of each node, and the nodes of an executor."""
REFRESH = 15.0
"""Seconds between two times at which the usage of queues is added up, as beat does it."""
BACKLOG = 200
"""Sessions that wait at least in each queue with work."""
STEP = 0.02
SMALL = {1: 1}
"""The sizes of sessions, with their weights."""


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


def with_settings(**values: float) -> Any:
    """Return a context in which these settings of the scheduler hold."""
    from django.conf import settings
    from django.test.utils import override_settings

    return override_settings(REPRISE={**settings.REPRISE, **values})


class PlayedExecutor:
    """An executor: its agent, and the driver that plays its runs."""

    def __init__(self, executor: Any, driver: SimulatedDriver, **agent: Any):
        from tests.agent import Agent

        self.agent = Agent(executor, **agent)
        self.driver = driver

    def lease(self) -> Sequence[Mapping[str, Any]]:
        """Return the new leases, whose acceptance was reported. Stop what has to stop."""
        self.agent.nodes = [self.node(dict(node)) for node in self.driver.nodes([])]
        self.agent.lease()
        for stop in self.agent.answer["stops"]:
            key = LeaseKey(stop["session_id"], stop["fencing_token"])
            self.driver.stop(key, stop["grace_period"])
        leases: Sequence[Mapping[str, Any]] = self.agent.answer["leases"]
        ids = [UUID(lease["session_id"]) for lease in leases]
        self.send([self.agent.reporting(each, "PREPARING") for each in ids])
        return leases

    def node(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return a node of the driver as the agent reports it."""
        return node

    def start(self, lease: Mapping[str, Any]) -> None:
        """Start the run of a lease."""
        key = LeaseKey(lease["session_id"], lease["fencing_token"])
        files, nodes = RunFiles(key, NOWHERE), tuple(lease["nodes"])
        spec: Any = lease["spec"]
        self.driver.start(Order(key, spec, lease["environ"], files, nodes=nodes))

    def send(self, drafts: Sequence[Any]) -> None:
        """Send reports, which have to be applied."""
        if drafts and set(self.agent.send(*drafts)) != {"applied"}:
            raise SystemExit("a report was not applied")


class World:
    """The scheduler with executors of so many `nodes` each. The queues are one project's.

    Sessions run for `run` seconds at most; those of a queue with work have these `sizes`, and at
    least `backlog` of them wait.
    """

    def __init__(
        self,
        name: str,
        run: float,
        refresh: float,
        nodes: Sequence[int] = (NODES,),
        sizes: Mapping[int, int] = SMALL,
        backlog: int = BACKLOG,
    ):
        from scheduler.models import Executor, Lease, Pool, QueueUsage
        from tests import factories
        from tests.agent import Api

        # Nothing of the case before counts; its waiting sessions are another project's.
        for model in (Lease, QueueUsage, Pool):
            model.objects.all().delete()
        Executor.objects.update(last_seen_at=None)
        self._project = factories.project(name)
        self._queue = factories.queue
        self._api = Api(factories.token(factories.user(superuser=True)))
        script = Script(node={"cpu": str(CPUS)})
        self.executors = [
            PlayedExecutor(
                factories.executor(f"{name}-{number}", projects=(self._project,)),
                SimulatedDriver(script, seed=1, nodes=count, speed=1),
            )
            for number, count in enumerate(nodes)
        ]
        self._run, self._sizes, self._backlog = run, sizes, backlog
        self._refresh, self._refreshed = refresh, 0.0
        self._began = time.monotonic()
        self._queues: dict[str, Any] = {}
        self._jobs: dict[str, Iterator[Job]] = {}
        self._waiting: Counter[str] = Counter()
        self._held: dict[UUID, tuple[str, int]] = {}
        self.looked = 0.0
        """Seconds after which the last turn began to look for what has ended."""
        self.started: dict[str, float] = {}
        """Seconds after which the first session of each queue was started."""

    @property
    def now(self) -> float:
        """Return the seconds since the case began."""
        return time.monotonic() - self._began

    def begin(self, busy: Sequence[str]) -> None:
        """Begin the case now, with sessions in these queues."""
        self._fill(busy)
        self._began = time.monotonic()

    def queue(self, name: str, factor: float = 1.0) -> None:
        """Create a queue."""
        self._queues[name] = self._queue(self._project, name, priority_factor=factor)
        self._jobs[name] = jobs(name, self._sizes, self._run)

    def had_the_pool(self, queue: str) -> None:
        """Let a queue have had all of the pool for ages."""
        from django.utils import timezone

        from scheduler.models import QueueUsage

        found = self._queues[queue]
        past = {"cost": 1.0, "current_priority": 1.0, "computed_at": timezone.now()}
        QueueUsage.objects.update_or_create(queue=found, defaults=past)

    def submit(
        self, queue: str, count: int, cpus: int = 1, *, seconds: float | None = None, **more: str
    ) -> None:
        """Submit sessions of this many CPUs; they run for so long, or for a length of their own.

        `more` are other fields of a submission.
        """
        own = islice(self._jobs[queue], count)
        self._submit(
            queue,
            [Job(cpus, job.seconds if seconds is None else seconds) for job in own],
            **more,
        )

    def cancel(self, queue: str) -> None:
        """Cancel what waits in a queue."""
        which = {"project": self._project.address, "queue": queue, "status": "PENDING"}
        answer = self._api.post("sessions/bulk-cancel/", {"filter": which})
        if answer.status_code != 200 or answer.json()["remaining"]:
            raise SystemExit(answer.content)
        self._waiting[queue] = 0

    def step(self, busy: Sequence[str]) -> Counter[str]:
        """Do one turn of the agents. Return the CPUs of what runs, by queue."""
        from scheduler.allocation.queue_usage import queue_usage_refresh

        self._fill(busy)
        if self.now >= self._refreshed + self._refresh:
            queue_usage_refresh()
            self._refreshed = self.now
        self.looked = self.now
        for each in self.executors:
            self._report(each, each.driver.poll(STEP))
            self._start(each, each.lease())
        held: Counter[str] = Counter()
        for queue, cpus in self._held.values():
            held[queue] += cpus
        return held

    def _fill(self, busy: Sequence[str]) -> None:
        for queue in busy:
            if self._waiting[queue] < self._backlog:
                self._submit(queue, list(islice(self._jobs[queue], self._backlog)))

    def _submit(self, queue: str, wanted: Sequence[Job], **more: str) -> None:
        sessions = [
            {
                "project": self._project.address,
                "queue": queue,
                "command": ["true"],
                "resources": {"cpu": str(job.cpus)},
                "creation_id": str(UUID(bytes=os.urandom(16))),
                "environ": {"REPRISE_SIMULATE": json.dumps({"seconds": job.seconds})},
                **more,
            }
            for job in wanted
        ]
        answer = self._api.post("sessions/bulk/", {"sessions": sessions})
        if answer.status_code != 200:
            raise SystemExit(answer.content)
        self._waiting[queue] += len(sessions)

    def _report(self, by: PlayedExecutor, seen: Sequence[Observation]) -> None:
        drafts = []
        for each in seen:
            session = UUID(each.key.session_id)
            if each.status == UNSTARTED:
                raise SystemExit(f"node {each.node} has refused a run: {each.message}")
            if each.termination is not None:
                more = self._ended(session, each.termination)
            else:
                more = {"node": each.node}
            drafts.append(by.agent.reporting(session, each.status, **more))
        by.send(drafts)

    def _ended(self, session: UUID, termination: Termination) -> dict[str, Any]:
        """Return what a report says of the end of a run."""
        del self._held[session]
        return {"termination": dict(termination)}

    def _start(self, by: PlayedExecutor, leases: Sequence[Mapping[str, Any]]) -> None:
        for lease in leases:
            queue, cpus = lease["queue"], int(lease["spec"]["resources"]["cpu"])
            self._held[UUID(lease["session_id"])] = queue, cpus
            self._waiting[queue] -= 1
            self.started.setdefault(queue, self.now)
            by.start(lease)
