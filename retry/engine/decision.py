"""The inputs and the result of a decision, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from retry.evidence.causes import RetryCause
from retry.policies.inline import InlinePolicy
from retry.policies.matching import CompiledCategory, NamedPolicy
from retry.policies.merge import NO_BOUNDS, MergedBounds

# One step of a decision: `step`, the facts that it used, and their `result`; JSON values.
TraceStep = dict[str, Any]


class Mode(StrEnum):
    """The kill switch. `paused`: decisions are made, but retries are held. `off`: no retries."""

    ON = "on"
    PAUSED = "paused"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Settings:
    mode: Mode = Mode.ON
    global_max_retries: int = 150


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All that decides about a chain; `named` are the policies that apply, in order."""

    policy: InlinePolicy
    named: tuple[NamedPolicy, ...] = ()
    categories: tuple[CompiledCategory, ...] = ()
    bounds: MergedBounds = NO_BOUNDS
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class Chain:
    """The failed session and what its chain has spent so far; a missing counter is 0.

    `resources` are those of the session, `memory_ceiling` is the most memory that its project
    allows (bytes; None: no quota). `preempted_at` is the first observation of a preemption. A run
    that is not `confirmed` to have ended may still be in its `grace_period` (seconds).
    """

    session_id: str
    session_type: str
    retry_count: int
    root_created_at: datetime
    counters: Mapping[str, int]
    resources: Mapping[str, Any] = field(default_factory=dict)
    memory_ceiling: Decimal | None = None
    preempted_at: datetime | None = None
    confirmed: bool = True
    grace_period: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a decision about one failed session.

    `action` is `retry` or `fail`. `state` is the decision's own (`scheduled`, `held`, `final`), and
    `retry_state` is the one that the failed session shows (`scheduled`, `held`, `exhausted`,
    `not_retried`, `cancelled`). `rule` is `policy/rule`, None if no rule decided. `used` and
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
    retry_state: str
    revisions: dict[str, int | None]
    trace: list[TraceStep]
