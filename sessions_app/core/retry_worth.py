"""What the retries of an ended chain were worth: the figures of one chain, in each dimension. Pure.

Times are seconds. Times to recover are counted in buckets, each a quarter longer than the one
before, so that a median or a percentile read from them is wrong by at most 12 %.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from sessions_app.core.node_addresses import is_node, node_address
from sessions_app.core.states import RetryState, Status

SHORTEST = 0.01
"""Seconds below which times are not told apart: they are in the first bucket."""
GROWTH = 1.25
MOST_BUCKETS = 120


class Dimension(StrEnum):
    """By what chains are told apart; `ALL` is every chain."""

    ALL = ""
    CAUSE = "cause"
    RULE = "rule"
    POLICY = "policy"
    QUEUE = "queue"
    OWNER = "owner"
    IMAGE = "image"
    NODE = "node"
    SIGNATURE = "signature"


class Attempt(NamedTuple):
    """An ended attempt of a chain. `cause`, `rule` and `signature` are "" unless it failed.

    `step` is the last step that it told, and `saved` the step of its last checkpoint; None if it
    told none.
    """

    number: int
    status: str
    started_at: datetime | None
    finished_at: datetime
    cause: str
    rule: str
    signature: str
    queue: str
    owner: str
    image: str
    node: str
    step: float | None = None
    saved: float | None = None
    executor: str = ""

    @property
    def failed(self) -> bool:
        """Return whether it failed: a cancelled one did not."""
        return self.status == Status.ERROR

    @property
    def ran(self) -> float:
        """Return the seconds that it ran."""
        if self.started_at is None:
            return 0.0
        return max((self.finished_at - self.started_at).total_seconds(), 0.0)

    @property
    def values(self) -> "tuple[Value, ...]":
        """Return each dimension in which it has a value, with that."""
        told = (self.cause, self.rule, self.signature) if self.failed else None
        return _values(self.queue, self.owner, self.image, self.executor, self.node, told)

    def has(self, wanted: Mapping[Dimension, str]) -> bool:
        """Return whether it has these values; its node may be given by its name alone."""
        own = dict(self.values)
        return all(
            is_node(own.get(key, ""), value) if key is Dimension.NODE else own.get(key) == value
            for key, value in wanted.items()
        )


Value = tuple[Dimension, str]


# Many attempts have all of it in common.
@lru_cache(maxsize=4096)
def _values(
    queue: str, owner: str, image: str, executor: str, node: str, failure: tuple[str, ...] | None
) -> tuple[Value, ...]:
    found = {
        Dimension.QUEUE: queue,
        Dimension.OWNER: owner,
        Dimension.IMAGE: image,
        Dimension.NODE: node_address(executor, node),
    }
    if failure is not None:
        cause, rule, signature = failure
        found |= {
            Dimension.CAUSE: cause,
            Dimension.RULE: rule,
            Dimension.POLICY: rule.rpartition("/")[0],
            Dimension.SIGNATURE: signature,
        }
    return (Dimension.ALL, ""), *((key, value) for key, value in found.items() if value)


@dataclass(slots=True)
class Worth:
    """Figures of ended chains. Times are seconds."""

    chains: int = 0
    retried: int = 0
    recovered: int = 0
    given_up: int = 0
    cancelled: int = 0
    attempts: int = 0
    run: float = 0.0
    rescued: float = 0.0
    wasted: float = 0.0
    waiting: float = 0.0
    recoveries: dict[int, int] = field(default_factory=dict)
    """Number of recovered chains in each bucket of the time that it took."""

    def add(self, other: "Worth") -> None:
        """Add other figures."""
        self.chains += other.chains
        self.retried += other.retried
        self.recovered += other.recovered
        self.given_up += other.given_up
        self.cancelled += other.cancelled
        self.attempts += other.attempts
        self.run += other.run
        self.rescued += other.rescued
        self.wasted += other.wasted
        self.waiting += other.waiting
        for bucket, chains in other.recoveries.items():
            self.recoveries[bucket] = self.recoveries.get(bucket, 0) + chains


def worth_of(
    state: str, attempts: Sequence[Attempt], having: Mapping[Dimension, str] | None = None
) -> dict[Value, Worth]:
    """Return what an ended chain adds, by dimension and value: see `chain_add`."""
    found: dict[Value, Worth] = {}
    chain_add(found, state, attempts, having)
    return found


def chain_add(
    found: dict[Value, Worth],
    state: str,
    attempts: Sequence[Attempt],
    having: Mapping[Dimension, str] | None = None,
) -> None:
    """Add an ended chain to figures by dimension and value.

    `state` is the retry state in which it ended, and `attempts` are all it had until then, in
    order. The chain counts under each value that one of its attempts has; what an attempt took
    counts under its own values. Attempts that do not have all values of `having` are left out.
    """
    own: dict[Value, Worth] = {}
    kept = kept_parts(attempts)
    for at, attempt in enumerate(attempts):
        if having and not attempt.has(having):
            continue
        ran = attempt.ran
        wasted = ran * (1 - kept[at]) if attempt.failed else 0.0
        waiting = _waited(attempt, attempts[at + 1]) if at + 1 < len(attempts) else 0.0
        for value in attempt.values:
            each = own.get(value) or found.get(value)
            if each is None:
                each = found[value] = Worth()
            own[value] = each
            each.attempts += 1
            each.run += ran
            each.wasted += wasted
            each.waiting += waiting
    chain = _chain(state, attempts)
    for each in own.values():
        each.add(chain)


def kept_parts(attempts: Sequence[Attempt]) -> list[float]:
    """Return what the next attempt kept of the steps of each attempt, from 0 to 1.

    An attempt begins at the step of the newest checkpoint before it, its last step is where it
    ends, and the next attempt begins at the step of the newest checkpoint then. An attempt that did
    not come beyond its begin, or saved an earlier step, began anew at 0. The last attempt, one
    without steps and one that saved nothing kept nothing.
    """
    found = []
    begin = 0.0
    for attempt, following in zip_longest(attempts, attempts[1:]):
        step, saved = attempt.step, attempt.saved
        part = 0.0
        if following is not None and step is not None and saved is not None:
            start = begin if begin <= saved and begin < step else 0.0
            part = min((saved - start) / (step - start), 1.0) if step > start else 0.0
        found.append(part)
        begin = begin if saved is None else saved
    return found


def _waited(attempt: Attempt, following: Attempt) -> float:
    """Return the seconds until the next attempt ran, or ended without having run."""
    until = following.started_at or following.finished_at
    return max((until - attempt.finished_at).total_seconds(), 0.0)


def _chain(state: str, attempts: Sequence[Attempt]) -> Worth:
    """Return the figures that count once a chain."""
    found = Worth(chains=1, retried=int(len(attempts) > 1))
    cancelled = state == RetryState.CANCELLED or attempts[-1].status == Status.CANCELLED
    if state == RetryState.SUCCEEDED and found.retried:
        found.recovered = 1
        found.rescued = sum(attempt.ran for attempt in attempts)
        took = attempts[-1].finished_at - attempts[0].finished_at
        found.recoveries = {bucket_of(took.total_seconds()): 1}
    elif cancelled:
        found.cancelled = 1
    elif state != RetryState.SUCCEEDED:
        found.given_up = 1
    return found


def bucket_of(seconds: float) -> int:
    """Return the bucket of a time, from 0."""
    if seconds < SHORTEST:
        return 0
    return min(1 + math.floor(math.log(seconds / SHORTEST, GROWTH)), MOST_BUCKETS - 1)


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """Return the time that at least `share` of the recoveries took at most; None for none."""
    left = math.ceil(share * sum(buckets.values()))
    if left <= 0:
        return None
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left <= 0:
            break
    # The middle of the bucket, by ratio: as far from its beginning as from its end.
    return 0.0 if bucket == 0 else SHORTEST * GROWTH ** (bucket - 0.5)
