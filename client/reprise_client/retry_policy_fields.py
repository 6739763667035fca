"""The fields of the inline retry policy, and the command's option for each.

Written by `make schema` after retry/policies/inline.py.
"""

from typing import Literal

from pydantic import BaseModel, Field


class RetryPolicyFields(BaseModel):
    """What a retry policy may say; the server checks the values."""

    max_retries: int = Field(0, description="How often a chain is retried after failures.")
    max_preemption_retries: int | None = Field(
        None, description="How often a chain is retried after causes of the platform."
    )
    retry_delay: float = Field(60.0, description="Delay before a retry, in seconds.")
    backoff: Literal["fixed", "exponential"] = Field(
        "fixed", description="Whether the delay grows from retry to retry."
    )
    backoff_multiplier: float = Field(
        2.0, description="What an exponential delay is multiplied by from retry to retry."
    )
    max_retry_delay: float | None = Field(3600.0, description="Longest delay, in seconds.")
    jitter: Literal["none", "deterministic", "random"] = Field(
        "deterministic", description="How delays are spread, so that not all retries come at once."
    )
    jitter_ratio: float = Field(
        0.25, description="The part of the delay, from 0 to 1, that jitter adds at most."
    )
    eligible_causes: tuple[str, ...] = Field(
        (
            "agent_transient",
            "deadline_exceeded",
            "evicted",
            "image_pull_failure",
            "kernel_nonzero_exit",
            "limit_exceeded",
            "oom_killed",
            "preempted",
            "scheduler_timeout",
            "start_failure",
            "unknown",
        ),
        description="Causes after which a chain is retried; others are final.",
    )
    retry_on_exit_codes: tuple[int, ...] = Field(
        (), description="Exit codes after which a chain is retried."
    )
    no_retry_on_exit_codes: tuple[int, ...] = Field(
        (),
        description="Exit codes after which a chain is never retried, whatever retry_on_exit_codes says.",
    )
    max_chain_duration: float | None = Field(
        None,
        description="No retry comes due later than this after the first submission, in seconds.",
    )
    emit_retry_events: bool = Field(
        True, description="Whether streams, lists and webhooks tell of session.retry_* events."
    )


OPTIONS: dict[str, tuple[str, str | None]] = {
    "max_retries": ("retries", None),
    "max_preemption_retries": ("preemption-retries", None),
    "retry_delay": ("retry-delay", "SECONDS"),
    "backoff": ("backoff", "fixed|exponential"),
    "backoff_multiplier": ("backoff-multiplier", None),
    "max_retry_delay": ("max-retry-delay", "SECONDS"),
    "jitter": ("jitter", "none|deterministic|random"),
    "jitter_ratio": ("jitter-ratio", None),
    "eligible_causes": ("eligible-cause", "CAUSE"),
    "retry_on_exit_codes": ("retry-on-exit-code", "CODE"),
    "no_retry_on_exit_codes": ("no-retry-on-exit-code", "CODE"),
    "max_chain_duration": ("max-chain-duration", "SECONDS"),
    "emit_retry_events": ("emit-retry-events", None),
}
"""By field: the option without its dashes, and what stands for its value in a help text."""
