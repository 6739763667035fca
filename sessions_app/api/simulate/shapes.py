"""The shape of a simulation's answer, for the OpenAPI document."""

from typing import Any, Literal

from pydantic import BaseModel

from retry.evidence.causes import RetryCause
from sessions_app.api.shapes.words import RetryReason


class SimulatedAttempt(BaseModel):
    """One attempt and what was decided about its end.

    After a success `action` is null and so is all else. `used` is what the paying budget had spent
    before, `resources` all that the next attempt gets; null if there is none.
    """

    attempt: int
    session_id: str
    cause: RetryCause | None
    failure_category: str | None
    action: Literal["retry", "fail"] | None
    reason: RetryReason | None
    rule: str | None
    paid_by: str | None
    used: int | None
    limit: int | None
    delay: float | None
    avoid_node: str | None
    resources: dict[str, Any] | None
    trace: list[dict[str, Any]]


class SimulatedChain(BaseModel):
    """What a chain would have come to; `retrying`: nothing more is known of it."""

    attempts: list[SimulatedAttempt]
    outcome: Literal["succeeded", "exhausted", "not_retried", "cancelled", "retrying"]


class ChangedChain(BaseModel):
    """A chain that would have come to something else."""

    root: str
    was: str
    would_be: str


class SimulationSummary(BaseModel):
    """The sums: retries by cause and by rule, decisions by reason.

    `changed` has the first 1,000. What is added is told of history only.
    """

    chains: int
    retries: int
    by_cause: dict[str, int]
    by_rule: dict[str, int]
    by_reason: dict[str, int]
    changed: list[ChangedChain]
    added_attempts: int | None = None
    added_run_seconds: float | None = None


class Simulation(BaseModel):
    """All decisions, chain by chain, and the sums."""

    chains: list[SimulatedChain]
    summary: SimulationSummary
