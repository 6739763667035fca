"""The shape of a simulation's answer, for the OpenAPI document."""

from typing import Any, Literal

from pydantic import BaseModel

from interfaces.shapes.words import RetryReason
from retry.evidence.causes import RetryCause


class SimulatedAttempt(BaseModel):
    """One attempt and the decision about its end.

    After a success `action` and all other fields are null. `used` is what the budget had spent
    before. `resources` are those of the next attempt; null if there is none.
    """

    attempt: int
    session_id: str
    cause: RetryCause | None
    failure_category: str | None
    failure_signature: str | None
    """The signature of the failure, and its title; null after a success or a cancel."""
    failure_title: str | None
    action: Literal["retry", "fail"] | None
    reason: RetryReason | None
    rule: str | None
    paid_by: str | None
    used: int | None
    limit: int | None
    delay: float | None
    avoid_node: str | None
    resources: dict[str, Any] | None
    placement: dict[str, Any] | None
    """`nodeSelector` and `executors` that the rule gives the next attempt; null: as before."""
    trace: list[dict[str, Any]]
    held_for: Literal["breaker", "shared_budget"] | None = None
    """What holds the retry; absent if nothing does."""
    held_seconds: float | None = None
    """About how long it is held after it is due; null if that is not known."""


class SimulatedChain(BaseModel):
    """The outcome that a chain would have had. `retrying`: the outcome of the next attempt is
    unknown."""

    attempts: list[SimulatedAttempt]
    outcome: Literal["succeeded", "exhausted", "parked", "not_retried", "cancelled", "retrying"]


class ChangedChain(BaseModel):
    """A chain whose outcome the draft would have changed."""

    root: str
    was: str
    would_be: str


class SimulationSummary(BaseModel):
    """The totals: retries by cause and by rule, decisions by reason.

    `changed` has the first 1,000 chains. The added attempts and seconds and `assumptions` are for
    history only, and all else that follows for histories with breakers or shared budgets; `held`
    also for given chains in which they hold a retry.
    """

    chains: int
    retries: int
    by_cause: dict[str, int]
    by_rule: dict[str, int]
    by_reason: dict[str, int]
    changed: list[ChangedChain]
    added_attempts: int | None = None
    added_run_seconds: float | None = None
    held: dict[str, int] | None = None
    """How often `breaker` and `shared_budget` held a retry."""
    held_seconds: dict[str, float] | None = None
    """About how long they held retries, in all."""
    spared_retries: int | None = None
    """Recorded retries that would not have been made, because of them."""
    breakers_opened: int | None = None
    """Those of the project and its queues, and those of the cluster that concern the project."""
    assumptions: list[str] | None = None
    """What history does not show, and what was assumed instead."""


class Simulation(BaseModel):
    """The decisions of each chain, and the totals."""

    chains: list[SimulatedChain]
    summary: SimulationSummary
