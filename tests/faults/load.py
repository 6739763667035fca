"""The load: people who submit, cancel, retry and preempt, and never get everything across."""

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from reprise_client import ApiError, BulkChanges, Client, RepriseError

from tests.faults.plant import EXECUTORS, NODE_CPU, NODES, URGENT, Plant

JOB_SET = "faults"
EVERY = 0.5
"""Seconds between two submissions in bulk."""
CANCELLED, RETRIED, PREEMPTED = 0.2, 0.1, 0.15
BULK = 4
"""So many newest sessions are cancelled, or retried, in one call."""
BULK_EVERY = 4
"""Submissions in bulk between two such calls."""
CANCELLED_IN_BULK: list[dict[str, str]] = [{"status": "PENDING"}, {"retry_state": "scheduled"}]
RETRIED_IN_BULK: list[dict[str, str]] = [{"status": "ERROR"}, {"status": "CANCELLED"}]
IN_VAIN = "calls in vain"
DEPENDANTS = 0.15
LONG, URGENTLY = 0.06, 0.04
"""Part of the sessions that need most of a node for long, and of those for which they make room."""
CROWD_EVERY, CROWD_LASTS, CROWD_STANDS = 15.0, 8.0, 2.0
"""Seconds from one crowd to the next, that each of its sessions runs, and from a crowd to the
urgent session that finds no room."""
LATE_LASTS, LATE_EVERY, LATE_STANDS = 25.0, 30.0, 4.0
"""The same, and seconds between two urgent sessions, while a run lasts only until one of them got
room: a slow machine may need longer than a crowd for that."""
OUTCOMES = ("succeeded", "succeeded", "ended", "failed")
"""What dependants wait for."""
RECENT = 100
"""Of so many last submissions one is cancelled, retried or preempted: older ones have mostly
ended."""
POLICY = {
    "max_retries": 6,
    "max_preemption_retries": 60,
    "retry_delay": 0.3,
    "backoff": "exponential",
    "max_retry_delay": 3.0,
}


def body(random: Random, number: int) -> dict[str, Any]:
    """A session as somebody might submit it: the n-th of this load."""
    fields = _plain(random, number)
    own = _course(random)
    if own is not None:
        fields["environ"] = {"REPRISE_SIMULATE": json.dumps(own)}
    if random.random() < 0.3:
        fields["resources"] = {"cpu": random.choice(["500m", "2", "6"]), "memory": "1Gi"}
    if random.random() < 0.2:
        fields["batch_timeout"] = random.uniform(1, 6)
    if random.random() < 0.1:
        fields["queue_timeout"] = random.uniform(1, 15)
    if random.random() < 0.03:
        fields["cluster_size"] = random.choice([2, 5])
    fields |= _by_class(random)
    return fields


def _plain(random: Random, number: int) -> dict[str, Any]:
    return {
        "creation_id": f"faults-{number}",
        "job_set": JOB_SET,
        "name": f"n-{number}",
        "command": ["true"],
        "termination_grace_period": random.choice([0, 1, 5]),
        "retry_policy": {**POLICY, "max_retries": random.choice([0, 2, 6])},
    }


def _by_class(random: Random) -> dict[str, Any]:
    """Return what makes it one that others make room for, or one that has to; mostly nothing."""
    drawn = random.random()
    if drawn < URGENTLY:
        return _urgent(random.choice([1, 1, NODES - 2]))
    if drawn < URGENTLY + LONG:
        return _long(7)
    return {}


def _urgent(pods: int) -> dict[str, Any]:
    resources = {"cpu": str(NODE_CPU - 1), "memory": "1Gi"}
    return {"priority_class": URGENT, "resources": resources, "cluster_size": pods}


def _long(seconds: float) -> dict[str, Any]:
    """One pod holds a node. A session of more pods than there are nodes would wait for ever."""
    return {
        "resources": {"cpu": str(NODE_CPU // 2 + 1), "memory": "1Gi"},
        "environ": {"REPRISE_SIMULATE": json.dumps({"seconds": [seconds, 0.5]})},
        "cluster_size": 1,
    }


def crowd(random: Random, number: int, lasts: float) -> list[dict[str, Any]]:
    """Return sessions from the n-th on that hold all nodes of all executors for so many seconds."""
    count = NODES * len(EXECUTORS)
    return [{**_plain(random, number + each), **_long(lasts)} for each in range(count)]


def waiting(random: Random, fields: dict[str, Any], on: Sequence[str]) -> dict[str, Any]:
    """The session as one that waits for one or two of these, if the dice say so."""
    if not on or random.random() >= DEPENDANTS:
        return fields
    chosen = random.sample(on, k=min(len(on), random.choice([1, 1, 2])))
    return {
        **fields,
        "depends_on": [{"session": each, "when": random.choice(OUTCOMES)} for each in chosen],
        "on_dependency_failure": random.choice(["cancel", "cancel", "run"]),
    }


def _course(random: Random) -> dict[str, Any] | None:
    """None leaves it to the executor's dice."""
    return random.choice(
        [
            None,
            None,
            {"exit_codes": [1, 1, 0], "seconds": 0},
            {"exit_codes": [1, 1, 0], "seconds": random.uniform(0, 2)},
            {"exit_codes": 0, "seconds": random.uniform(2, 10)},
            {"reasons": ["OOMKilled", "Preempted", ""], "exit_codes": [137, 143, 0]},
            {"reasons": ["NodeLost", ""], "seconds": [0.5, 0.5]},
            {"exit_codes": 3, "seconds": 0.2},
        ]
    )


class Load(threading.Thread):
    """Calls `begin`, then submits `rate` sessions a second until `finish`, and cancels, retries and
    preempts a few. From time to time it fills all nodes, and asks for one of them.

    `acknowledged` are the ids that the server gave, by creation id; a submission that got no answer
    after some tries is given up and may have happened or not. `promised` are the ids of the next
    attempts that it gave to who retried. `outcomes` counts what calls did, and those in vain.
    """

    def __init__(self, plant: Plant, seed: int, rate: float, begin: Callable[[Client], None]):
        super().__init__(name="load", daemon=True)
        self._plant = plant
        self._random = Random(f"{seed}/load")
        self._rate, self._begin = rate, begin
        self._finished, self._slack = threading.Event(), threading.Event()
        self._crowd_at, self._urgent_at = 0.0, math.inf
        self.acknowledged: dict[str, str] = {}
        self.promised: list[str] = []
        self.submitted = 0
        self.outcomes: Counter[str] = Counter()
        self.refused: list[str] = []

    def slacken(self) -> None:
        """From now on only fill the nodes from time to time: who waits longest gets room, too."""
        self._slack.set()

    def finish(self) -> None:
        self._finished.set()
        self.join()

    def run(self) -> None:
        with self._plant.client() as client:
            self._begin(client)
            rounds, began = 0, time.monotonic()
            while not self._finished.wait(EVERY):
                self._crowd(client, time.monotonic())
                if self._slack.is_set():
                    continue
                rounds += 1
                late = self._rate * (time.monotonic() - began) - self.submitted
                # What an outage held up comes soon after it, but not all of it at once.
                count = round(min(late, 2 * self._rate * EVERY))
                self._submit_one(client)
                self._submit(client, max(1, count - 1))
                for _ in range(3):
                    self._meddle(client)
                if rounds % BULK_EVERY == 0:
                    self._meddle_in_bulk(client)

    def _submit_one(self, client: Client) -> None:
        fields = body(self._random, self.submitted)
        fields = waiting(self._random, fields, list(self.acknowledged)[-RECENT:])
        self.submitted += 1
        try:
            self.acknowledged[fields["creation_id"]] = client.session_create(**fields).id
        except RepriseError as error:
            self.outcomes[IN_VAIN] += 1
            if isinstance(error, ApiError) and error.status < 500:
                self.refused.append(f"{fields['creation_id']}: {error}")

    def _submit(self, client: Client, count: int) -> None:
        bodies = [body(self._random, self.submitted + number) for number in range(count)]
        there = list(self.acknowledged)[-RECENT:]
        # Later ones of the same call, too: its order does not matter, and makes no circle here.
        bodies = [
            waiting(self._random, each, there + [b["creation_id"] for b in bodies[place + 1 :]])
            for place, each in enumerate(bodies)
        ]
        self._send(client, bodies)

    def _crowd(self, client: Client, now: float) -> None:
        """Dice alone leave nodes free where a slow machine submits little."""
        slack = self._slack.is_set()
        if now >= self._crowd_at:
            self._crowd_at = now + (LATE_EVERY if slack else CROWD_EVERY)
            lasts = LATE_LASTS if slack else CROWD_LASTS
            self._send(client, crowd(self._random, self.submitted, lasts))
            self._urgent_at = time.monotonic() + CROWD_STANDS
        elif now >= self._urgent_at:
            self._urgent_at = now + LATE_STANDS if slack else math.inf
            self._send(client, [{**_plain(self._random, self.submitted), **_urgent(1)}])

    def _send(self, client: Client, bodies: list[dict[str, Any]]) -> None:
        self.submitted += len(bodies)
        try:
            outcomes = client.sessions_create(bodies)
        except RepriseError:
            self.outcomes[IN_VAIN] += 1
            return
        for each, outcome in zip(bodies, outcomes, strict=True):
            if outcome.session_id:
                self.acknowledged[each["creation_id"]] = outcome.session_id
            else:
                self.refused.append(f"{each['creation_id']}: {outcome.problem}")

    def _meddle(self, client: Client) -> None:
        if not self.acknowledged:
            return
        drawn = self._random.random()
        number = self.submitted - 1 - self._random.randrange(min(self.submitted, RECENT))
        session = self.acknowledged.get(f"faults-{number}")
        if session is None:
            return
        try:
            if drawn < CANCELLED:
                client.cancel(session)
            elif drawn < CANCELLED + RETRIED:
                self.promised.append(client.retry(client.attempts(session)[-1].id).id)
            elif drawn < CANCELLED + RETRIED + PREEMPTED:
                client.preempt(client.attempts(session)[-1].id, reason="faults")
                self.outcomes["preempted"] += 1
        except RepriseError:
            # Most often a chain that cannot be retried just now, which is no failure.
            self.outcomes[IN_VAIN] += 1

    def _meddle_in_bulk(self, client: Client) -> None:
        cancelled, retried = map(self._random.choice, (CANCELLED_IN_BULK, RETRIED_IN_BULK))
        try:
            done = client.sessions_cancel_bulk({"job_set": JOB_SET, **cancelled}, limit=BULK)
            self._count(done)
            self._count(client.sessions_retry_bulk({"job_set": JOB_SET, **retried}, limit=BULK))
        except RepriseError:
            self.outcomes[IN_VAIN] += 1

    def _count(self, page: BulkChanges) -> None:
        self.outcomes.update(f"{each.outcome} in bulk" for each in page.results)
        self.promised += [each.next_session_id for each in page.results if each.next_session_id]
