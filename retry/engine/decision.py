"""The inputs and the result of a decision, as plain values.

Those that each decision makes anew are tuples, which takes a third of the time of dataclasses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from retry.evidence.causes import RetryCause
from retry.policies.inline import InlinePolicy
from retry.policies.matching import CompiledCategory, NamedPolicy
from retry.policies.merge import NO_BOUNDS, MergedBounds

# One step of a decision: `step`, the facts that it used, and their `result`; JSON values.
TraceStep = dict[str, Any]


SWITCH = "switch"
"""`held_for` of a retry that waits until retries are switched on."""


PARKED = "parked"
"""`held_for` of an exhausted chain that waits for somebody to decide, until `due_at`."""


BREAKER = "breaker"
"""`held_for` of a retry that waits until the breaker of its signature closes."""


SHARED_BUDGET = "shared_budget"
"""`held_for` of a retry that waits until a shared budget has room."""


class Mode(StrEnum):
    """The kill switch. `paused`: decisions are made, but retries are held. `off`: no retries."""

    ON = "on"
    PAUSED = "paused"
    OFF = "off"


GLOBAL_MAX_RETRIES = 150
"""The shipped maximum number of retries of any chain."""


class SpentBudget(NamedTuple):
    """A shared budget that is spent, by its level: `cluster`, `domain`, `project` or `queue`.

    `platform` says whether it counts retries after causes of the platform.
    """

    level: str
    platform: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the scopes of a chain. `global_max_retries` None: chains have no limit.

    `spent` are the shared budgets that end its chain instead of another retry.
    """

    mode: Mode = Mode.ON
    global_max_retries: int | None = GLOBAL_MAX_RETRIES
    spent: tuple[SpentBudget, ...] = ()


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All that decides about a chain; `named` are the policies that apply, in order."""

    policy: InlinePolicy
    named: tuple[NamedPolicy, ...] = ()
    categories: tuple[CompiledCategory, ...] = ()
    bounds: MergedBounds = NO_BOUNDS
    settings: Settings = field(default_factory=Settings)

    @property
    def most_same(self) -> int:
        """Return the largest number of equal failures that it looks for; 0 for none."""
        return max([self.policy.stop_after_same or 0, *(each.most_same for each in self.named)])

    @property
    def longest_window(self) -> float:
        """Return the longest window in which it counts retries, in seconds; 0 for none."""
        return max([self.policy.retry_window or 0.0, *(each.longest_window for each in self.named)])


class Payment(NamedTuple):
    """A retry that the chain has had: the budget that paid it, and when it was decided."""

    budget: str
    at: datetime


class Chain(NamedTuple):
    """The failed session and what its chain has spent so far; a missing counter is 0.

    `resources` are those of the session, `memory_ceiling` is the most memory that its project
    allows (bytes; None: no quota), `node_memory` the most that a node could give it (bytes; None:
    nobody knows). `preempted_at` is the first observation of a preemption. A run that is not
    `confirmed` to have ended may still be in its `grace_period` (seconds).

    `signature` is that of this failure, `title` the title of it ("": unknown). `failures` are the
    signatures of the failures before it, newest first, without platform causes: as many as
    `stop_after_same` needs; that of an attempt that made progress is "". `paid` are the retries
    that a `retry_window` may count.
    `breaker` is the key of the open breaker that holds a retry after this failure, "" for none.
    `advanced` says whether the failed attempt made progress. `marks` are the counters when an
    attempt last did, this one included. `gave_way` says whether Reprise itself stopped the
    attempt to make room for another session.
    """

    session_id: str
    session_type: str
    retry_count: int
    root_created_at: datetime
    counters: Mapping[str, int]
    resources: Mapping[str, Any] = MappingProxyType({})
    memory_ceiling: Decimal | None = None
    node_memory: Decimal | None = None
    preempted_at: datetime | None = None
    confirmed: bool = True
    grace_period: float = 0.0
    signature: str = ""
    failures: Sequence[str] = ()
    paid: Sequence[Payment] = ()
    advanced: bool = False
    marks: Mapping[str, int] = MappingProxyType({})
    breaker: str = ""
    gave_way: bool = False
    title: str = ""


class Decision(NamedTuple):
    """The result of a decision about one failed session.

    `action` is `retry` or `fail`. `state` is the decision's own (`scheduled`, `held`, `final`), and
    `retry_state` is the one that the failed session shows (`scheduled`, `held`, `parked`,
    `exhausted`, `not_retried`, `cancelled`). `held_for` says what holds it, or is "", and
    `held_key` which one of these. `rule` is `policy/rule`, None if no rule decided. `used` and
    `limit` belong to the budget that pays (before this retry) or that is spent. `delay` is the
    backoff in seconds. `resources` are all resources of the next attempt, None if there is none.
    `revisions` are those of the named policies that were checked.
    """

    action: str
    reason: str
    cause: RetryCause
    failure_category: str
    rule: str | None
    paid_by: str | None
    used: int | None
    limit: int | None
    delay: float | None
    due_at: datetime | None
    avoid_node: str
    resources: Mapping[str, Any] | None
    state: str
    held_for: str
    retry_state: str
    revisions: dict[str, int | None]
    trace: list[TraceStep]
    held_key: str = ""
    placement: Mapping[str, Any] | None = None
    """`nodeSelector` and `executors` of the next attempt, merged over its own; None: no change."""
