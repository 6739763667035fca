"""The inline retry policy of a session, as a typed value."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class RetryPolicy(BaseModel):
    """An inline retry policy. All times are in seconds.

    A field that is not given is inherited. A null is a value: with a null `max_preemption_retries`
    a platform cause spends `max_retries`, and other nulls mean no limit. The server checks the
    values and says which field is wrong.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_retries: int = 0
    max_preemption_retries: int | None = None
    retry_delay: float = 60.0
    backoff: Literal["fixed", "exponential"] = "fixed"
    backoff_multiplier: float = 2.0
    max_retry_delay: float | None = 3600.0
    jitter: Literal["none", "deterministic", "random"] = "deterministic"
    jitter_ratio: float = 0.25
    eligible_causes: tuple[str, ...] = ()
    """The causes that may be retried; empty means all that can be."""
    retry_on_exit_codes: tuple[int, ...] = ()
    no_retry_on_exit_codes: tuple[int, ...] = ()
    max_chain_duration: float | None = None
    emit_retry_events: bool = True

    def body(self) -> dict[str, Any]:
        """Return the given fields as the API takes them."""
        return self.model_dump(mode="json", exclude_unset=True)


def written_out(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session's body with a typed policy replaced by JSON values."""
    policy = body.get("retry_policy")
    return {**body, "retry_policy": policy.body()} if isinstance(policy, RetryPolicy) else {**body}
