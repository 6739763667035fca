"""The plan of the demo at scale, from its seed: queues, sessions, clusters, storms. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

DOMAIN = "scale"
ENDLESS = "endless"
"""The tenant, a project and its queue, whose sessions all fail and ask for retries without end."""
PROJECTS = ("astro", "bio", "chem", "geo", "vision", ENDLESS)
FACTORS = (1.0, 2.0, 4.0)
NODE_CPUS = 16
SESSIONS_A_SLOT = 20
"""Sessions that one slot runs, one after the other; this sets the size of the clusters."""
ATTEMPTS_A_SESSION = 1.3
"""Expected attempts per session; the times of storms are fractions of the total running time."""
BROKEN = 0.03
"""The share of sessions whose every attempt fails."""
BROKEN_IMAGE, LACKING = 0.02, "ModuleNotFoundError: No module named 'model'"
"""The share of sessions whose image lacks a module, and what they say when they fail."""
TRAINERS = 0.05
"""The share of sessions that save a checkpoint, fail, and go on from it."""
BAD_NODE_FAILS = 0.8
LEAST_NODES = 5
"""Nodes that an executor must have for one of them to be bad."""
STOPPED_AFTER, MOST_RETRIES = 3, 6
"""Equal failures after which a rule stops a broken image, and the retries that it would allow."""
MOST_ENDLESS = 100
"""Retries that the tenant without end asks for, in each chain."""
ENDLESS_BUDGET = {"ratio": 0.1, "burst": 10}
"""The shared budget of its project."""
POLICIES: dict[str, dict[str, Any]] = {
    "storm": {
        "backoff": {"initialDelay": "1s", "maxDelay": "10s"},
        "rules": [
            {
                "name": "preempted",
                "action": "Retry",
                "onConditions": ["Preempted", "Evicted"],
                "retryLimit": 50,
            },
            {
                "name": "more-memory",
                "action": "Retry",
                "onConditions": ["OOMKilled"],
                "retryLimit": 3,
                "resources": {"memory": {"factor": 2.0, "max": "4Gi"}},
            },
            {
                "name": "registry",
                "action": "Retry",
                "onCauses": ["image_pull_failure"],
                "retryLimit": 10,
                "backoff": {"initialDelay": "2s", "maxDelay": "20s"},
            },
            {
                "name": "broken-image",
                "action": "Retry",
                "onExitCodes": {"operator": "In", "values": [78]},
                "retryLimit": MOST_RETRIES,
                "stopAfterSame": STOPPED_AFTER,
            },
            {
                "name": "wrong-usage",
                "action": "Fail",
                "onExitCodes": {"operator": "In", "values": [2, 64]},
            },
        ],
    },
    ENDLESS: {
        "backoff": {"initialDelay": "1s", "multiplier": 1},
        "rules": [
            {
                "name": "always",
                "action": "Retry",
                "onExitCodes": {"operator": "In", "values": [1]},
                "retryLimit": MOST_ENDLESS,
            },
        ],
    },
    "stubborn": {"retryLimit": 4, "backoff": {"initialDelay": "1s"}, "defaultAction": "Retry"},
}


@dataclass(frozen=True)
class Plan:
    """The size of the demo; `run_seconds` is the average duration of a run."""

    queues: int
    sessions: int
    executors: int
    run_seconds: float
    seed: int

    @property
    def nodes(self) -> int:
        """Return the number of nodes of each executor."""
        slots = self.sessions / SESSIONS_A_SLOT
        return max(1, round(slots / NODE_CPUS / self.executors))

    @property
    def slots(self) -> int:
        """Return the number of sessions that run at once on one executor."""
        return self.nodes * NODE_CPUS

    @property
    def executor_names(self) -> list[str]:
        return [f"cluster-{number}" for number in range(1, self.executors + 1)]

    @property
    def seconds(self) -> float:
        """Return how long all sessions would run if the server took no time."""
        attempts = self.sessions * ATTEMPTS_A_SESSION
        return attempts * self.run_seconds / (self.slots * self.executors)

    def queue(self, number: int) -> tuple[str, str]:
        """Return the project and the name of a queue."""
        if self._is_endless(number):
            return f"{DOMAIN}/{ENDLESS}", ENDLESS
        project = PROJECTS[number % (len(PROJECTS) - 1)]
        return f"{DOMAIN}/{project}", f"queue-{number + 1:02}"

    def _is_endless(self, number: int) -> bool:
        """Return whether a queue is that of the tenant without end: the last of several."""
        return 0 < number == self.queues - 1

    def documents(self) -> list[dict[str, Any]]:
        """Return the documents for `reprise apply`: policies, defaults, queues."""
        defaults = {"max_retries": 2, "retry_delay": 1, "backoff": "exponential"}
        return [
            *(_document("RetryPolicy", {"name": name}, spec) for name, spec in POLICIES.items()),
            _document("RetryDefaults", {"domain": DOMAIN}, {"policy": defaults}),
            _document(
                "RetryDefaults",
                {"domain": DOMAIN, "project": ENDLESS},
                {"settings": {"retry_budget": ENDLESS_BUDGET}},
            ),
            *(self._queue_document(number) for number in range(self.queues)),
        ]

    def executor_documents(self) -> list[dict[str, Any]]:
        """Return the documents that let all sessions avoid suspect nodes."""
        spec = {"projects": [f"{DOMAIN}/{name}" for name in PROJECTS], "avoid_suspects": "all"}
        return [_document("Executor", {"name": name}, spec) for name in self.executor_names]

    def _queue_document(self, number: int) -> dict[str, Any]:
        project, name = self.queue(number)
        metadata = {"name": name, "domain": DOMAIN, "project": project.split("/")[1]}
        policies = ["storm", "stubborn"] if number % 2 else ["storm"]
        if self._is_endless(number):
            policies = [ENDLESS]
        factor = FACTORS[number % len(FACTORS)]
        return _document("Queue", metadata, {"priority_factor": factor, "retry_policies": policies})

    def bodies(self, run: str) -> Iterator[dict[str, Any]]:
        """Yield the sessions, from each queue in turn; `run` makes them unique."""
        random = Random(self.seed)  # noqa: S311  # repeatable on purpose
        for number in range(self.sessions):
            project, queue = self.queue(number % self.queues)
            body: dict[str, Any] = {
                "project": project,
                "queue": queue,
                "name": f"job-{number}",
                "job_set": f"storm-{run}",
                "creation_id": f"storm-{run}-{number}",
                "image": "any-image",
                "command": ["work"],
                "resources": {"cpu": "1", "memory": "1Gi"},
                "batch_timeout": 5 * self.run_seconds,
                "termination_grace_period": 0,
            }
            image, own = self._own(random.random())
            if self._is_endless(number % self.queues):
                image, own = f"{ENDLESS}:1", {"exit_codes": 1, "seconds": self.run_seconds}
            if own:
                body |= {"image": image, "environ": {"REPRISE_SIMULATE": json.dumps(own)}}
            yield body

    def _own(self, drawn: float) -> tuple[str, dict[str, Any]]:
        """Return the image of a session and its own course; empty for the course of its executor.

        `drawn` is a random number from 0 to 1.
        """
        brief = self.run_seconds / 3
        if drawn < BROKEN:
            return "any-image", {"exit_codes": 1, "seconds": brief}
        if drawn < BROKEN + BROKEN_IMAGE:
            return "broken:2", {"exit_codes": 78, "seconds": brief, "message": LACKING}
        if drawn < BROKEN + BROKEN_IMAGE + TRAINERS:
            saved, done = (
                {"step": 80, "of": 100, "checkpoint": "saved/80"},
                {"step": 100, "of": 100},
            )
            seconds = [self.run_seconds, self.run_seconds / 5]
            return "trainer:1", {
                "exit_codes": [75, 0],
                "seconds": seconds,
                "progress": [saved, done],
            }
        return "", {}

    @property
    def bad_node(self) -> str:
        """Return the node of each executor that breaks most of what it runs; "" for none."""
        return f"sim-{self.nodes // 2}" if self.nodes >= LEAST_NODES else ""

    def script(self, number: int) -> dict[str, Any]:
        """Return the script of an executor's runs: single failures all the time, and storms."""
        whole, brief = self.seconds, max(self.seconds / 15, 2.0)
        storms: list[dict[str, Any]] = [
            # The registry serves all clusters. Half of the clusters lose spot nodes, the others
            # nodes.
            {"at": whole / 4, "seconds": brief, "rate": 0.6, "reason": "ImagePullBackOff"},
        ]
        ends = {"run_seconds": [0, self.run_seconds]}
        if number % 2:
            spot = {"rate": 0.8, "reason": "Preempted", "exit_code": 143}
            storms.append({"at": whole / 2, "seconds": brief, **spot, **ends})
        else:
            lost = {"rate": 0.1, "reason": "NodeLost"}
            storms.append({"at": whole * 0.65, "seconds": brief, **lost, **ends})
        return {
            "seconds": [self.run_seconds / 2, self.run_seconds * 1.5],
            "failure_rate": 0.08,
            "exit_codes": [1, 2, 75, 137],
            "oom_rate": 0.03,
            "preemption_rate": 0.03,
            "hang_rate": 0.002,
            "node_loss_rate": 0.0005,
            "node_down_seconds": 2 * self.run_seconds,
            "node": {"cpu": str(NODE_CPUS), "memory": f"{4 * NODE_CPUS}Gi"},
            "storms": storms,
            "bad_nodes": {self.bad_node: BAD_NODE_FAILS} if self.bad_node else {},
        }


def _document(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "reprise/v1", "kind": kind, "metadata": metadata, "spec": spec}
