"""The state of one decision: the inputs of its steps, and the trace and verdict that they make."""

from datetime import datetime
from typing import Any, NamedTuple

from retry.engine.budgets import used_of
from retry.engine.decision import Chain, Settings, TraceStep
from retry.evidence.causes import CauseClass, RetryCause
from retry.evidence.workload_message import WorkloadMessage
from retry.policies.backoff import Backoff
from retry.policies.inline import InlinePolicy
from retry.policies.matching import CompiledRule, Facts, NamedPolicy
from retry.policies.merge import MergedBounds


class Case(NamedTuple):
    """The inputs of the steps, which append what they found to `trace`."""

    chain: Chain
    policy: InlinePolicy
    """The inline policy, restricted by the bounds."""
    bounds: MergedBounds
    named: tuple[NamedPolicy, ...]
    settings: Settings
    facts: Facts
    kind: CauseClass
    exit_code: int | None
    workload_message: WorkloadMessage
    bound_steps: list[TraceStep]
    trace: list[TraceStep]
    now: datetime

    @property
    def cause(self) -> RetryCause:
        return self.facts.cause

    def used(self, budget: str, window: float | None, *, resets: bool) -> int:
        """Return how many retries a budget has paid: within its window if it has one, since the
        last progress if that `resets` it."""
        return used_of(self.chain, budget, window, self.now, resets=resets)

    def note(self, step: str, result: str, **facts: Any) -> None:
        self.trace.append({"step": step, **facts, "result": result})


class Verdict(NamedTuple):
    """The result of the steps: a retry if it has a backoff and a payer, else a refusal."""

    reason: str
    paid_by: str | None = None
    used: int | None = None
    limit: int | None = None
    rule: CompiledRule | None = None
    backoff: Backoff | None = None


def check_condition(
    case: Case, step: str, refusal: str, passed: bool, **facts: Any
) -> Verdict | None:
    """Note a condition in the trace. Return its refusal unless it is met."""
    case.note(step, "pass" if passed else refusal, **facts)
    return None if passed else Verdict(refusal)


def check_budget(
    case: Case,
    step: str,
    refusal: str,
    used: int,
    limit: int | None,
    *,
    window: float | None = None,
    resets: bool = False,
    **facts: Any,
) -> Verdict | None:
    """Note a budget in the trace. Return its refusal if nothing of it is left.

    Without a limit it is never spent.
    """
    gone = limit is not None and used >= limit
    if window is not None:
        facts["window"] = window
    if resets:
        facts["since_progress"] = True
    case.note(step, refusal if gone else "pass", **facts, used=used, limit=limit)
    return Verdict(refusal, used=used, limit=limit) if gone else None
