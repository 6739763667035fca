"""The plan of the demo at scale, from its seed: queues, sessions, clusters, storms. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

DOMAIN = "scale"
ENDLESS = "endless"
"""The tenant, a project and its queue, whose sessions all fail and ask for retries without end."""
GUARDED = "astro"
"""The project with a breaker. More of its sessions have the broken image; no rule stops them."""
PROJECTS = (GUARDED, "bio", "chem", "geo", "vision", ENDLESS)
FACTORS = (1.0, 2.0, 4.0)
NODE_CPUS = 16
SESSIONS_A_SLOT = 20
"""Sessions that one slot runs, one after the other; this sets the size of the clusters."""
ATTEMPTS_A_SESSION = 1.3
"""Expected attempts per session; the times of storms are fractions of the total running time."""
BROKEN = 0.03
"""The share of sessions whose every attempt fails."""
BROKEN_IMAGE, BROKEN_IMAGE_GUARDED = 0.02, 0.1
"""The share of sessions whose image lacks a module, and that in the project with a breaker."""
LACKING = "ModuleNotFoundError: No module named 'model'"
"""What they say when they fail."""
PARKED_IMAGES, UNREADABLE = 0.01, "ValueError: the format of this file is not known"
"""The share of sessions with each of two images that cannot read their data, and what they say."""
TRAINERS = 0.05
"""The share of sessions that save a checkpoint, fail, and go on from it."""
BAD_NODE_FAILS = 0.8
LEAST_NODES = 5
"""Nodes that an executor must have for one of them to be bad."""
LACKS, READS_NOT, READS_NEVER = "broken:2", "reader:1", "legacy:1"
MENDED = {LACKS: "broken:3", READS_NOT: "reader:2"}
"""Images that cannot work, and those that somebody has mended."""
STOPPED_AFTER, MOST_RETRIES = 3, 6
"""Equal failures after which a rule stops a broken image, and the retries that it would allow."""
BREAKER = {"chains": 3, "window": 600, "probe_after": 10}
"""The breaker of the project that has one."""
MOST_ENDLESS = 100
"""Retries that the tenant without end asks for, in each chain."""
ENDLESS_BUDGET = {"ratio": 0.1, "burst": 10}
"""The shared budget of its project."""
PARKING, PARKING_RULE = "parking", "unreadable"
"""The policy that parks chains, and its rule."""
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
    # Slow enough that the breaker opens, some seconds late, before the retries are used up.
    GUARDED: {
        "backoff": {"initialDelay": "4s", "multiplier": 1},
        "rules": [
            {
                "name": "broken-image",
                "action": "Retry",
                "onExitCodes": {"operator": "In", "values": [78]},
                "retryLimit": MOST_RETRIES,
            },
        ],
    },
    PARKING: {
        "backoff": {"initialDelay": "1s"},
        "onExhausted": "Park",
        "parkFor": "1h",
        "rules": [
            {
                "name": PARKING_RULE,
                "action": "Retry",
                "onExitCodes": {"operator": "In", "values": [65]},
                "retryLimit": 1,
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
            _document(
                "RetryDefaults",
                {"domain": DOMAIN, "project": GUARDED},
                {"settings": {"breaker": BREAKER}},
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
        if project == f"{DOMAIN}/{GUARDED}":
            policies = [GUARDED, *policies]
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
            course = self._course(random.random(), guarded=project == f"{DOMAIN}/{GUARDED}")
            if self._is_endless(number % self.queues):
                course = _Course(f"{ENDLESS}:1", {"exit_codes": 1, "seconds": self.run_seconds})
            yield body | course.fields() if course else body

    def _course(self, drawn: float, *, guarded: bool) -> "_Course | None":
        """Return the course of a session of its own; None for that of its executor.

        `drawn` is a random number from 0 to 1, and `guarded` whether its project has a breaker.
        """
        brief, left = self._brief, drawn
        unreadable = {"exit_codes": 65, "seconds": brief, "message": UNREADABLE}
        # A breaker would hold what should be parked.
        parked = 0.0 if guarded else PARKED_IMAGES
        for share, course in (
            (BROKEN, _Course("any-image", {"exit_codes": 1, "seconds": brief})),
            (
                BROKEN_IMAGE_GUARDED if guarded else BROKEN_IMAGE,
                _Course(LACKS, {"exit_codes": 78, "seconds": brief, "message": LACKING}),
            ),
            (TRAINERS, self._trainer()),
            (parked, _Course(READS_NOT, unreadable, PARKING)),
            (parked, _Course(READS_NEVER, unreadable, PARKING)),
        ):
            if left < share:
                return course
            left -= share
        return None

    def _trainer(self) -> "_Course":
        saved = {"step": 80, "of": 100, "checkpoint": "saved/80"}
        own = {
            "exit_codes": [75, 0],
            "seconds": [self.run_seconds, self.run_seconds / 5],
            "progress": [saved, {"step": 100, "of": 100}],
        }
        return _Course("trainer:1", own)

    @property
    def _brief(self) -> float:
        """Return the seconds of a run that fails soon, or has little to do."""
        return self.run_seconds / 3

    def mended(self, image: str) -> dict[str, Any] | None:
        """Return the changes for another try with the mended image; None if nobody mended it."""
        if image not in MENDED:
            return None
        works = _Course(MENDED[image], {"exit_codes": 0, "seconds": self._brief})
        return {**works.fields(), "reason": "the image is mended"}

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


@dataclass(frozen=True)
class _Course:
    """The image of a session, what its runs do, and a policy that it adds ("" for none)."""

    image: str
    own: dict[str, Any]
    policy: str = ""

    def fields(self) -> dict[str, Any]:
        """Return what stands in the body of the session."""
        policies = {"retry_policies": [self.policy]} if self.policy else {}
        environ = {"REPRISE_SIMULATE": json.dumps(self.own)}
        return {"image": self.image, "environ": environ, **policies}


def _document(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "reprise/v1", "kind": kind, "metadata": metadata, "spec": spec}
