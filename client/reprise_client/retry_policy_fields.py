"""The fields of the inline retry policy, and the command's option for each.

Written by `make schema` after retry/policies/inline.py.
"""

from typing import Literal

from pydantic import BaseModel, Field


# The command reads the fields at each start, and never needs what would check them.
class RetryPolicyFields(BaseModel, defer_build=True):
    """What a retry policy may say; the server checks the values."""

    max_retries: int | Literal["unlimited"] = Field(
        0, description="Maximum number of retries after failures."
    )
    max_preemption_retries: int | Literal["unlimited"] | None = Field(
        None, description="Maximum number of retries after causes of the platform."
    )
    retry_window: float | None = Field(
        None,
        description="Time in which these two limits count; older retries no longer use them up, in seconds.",
    )
    reset_on_progress: bool = Field(
        False,
        description="Whether these two limits count anew after an attempt that made progress.",
    )
    stop_after_same: int | None = Field(
        None, description="Number of equal failures in a row that end the chain."
    )
    retry_delay: float = Field(60.0, description="Delay before a retry, in seconds.")
    backoff: Literal["fixed", "exponential"] = Field(
        "fixed", description="How the delay changes from retry to retry."
    )
    backoff_multiplier: float = Field(
        2.0, description="Factor by which an exponential delay grows with each retry."
    )
    max_retry_delay: float | None = Field(3600.0, description="Longest delay, in seconds.")
    jitter: Literal["none", "deterministic", "random"] = Field(
        "deterministic",
        description="How delays are spread, so that retries do not start at the same time.",
    )
    jitter_ratio: float = Field(
        0.25, description="The most that jitter adds, as a part of the delay from 0 to 1."
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
        description="Causes after which a chain is retried; after others it is not.",
    )
    retry_on_exit_codes: tuple[int, ...] = Field(
        (), description="Exit codes after which a chain is retried."
    )
    no_retry_on_exit_codes: tuple[int, ...] = Field(
        (),
        description="Exit codes after which a chain is never retried, even if retry_on_exit_codes has them.",
    )
    max_chain_duration: float | None = Field(
        None, description="Longest time from the first submission until a retry is due, in seconds."
    )
    on_exhausted: Literal["end", "park"] = Field(
        "end", description="Whether an exhausted chain ends, or is parked until somebody decides."
    )
    park_for: float = Field(
        86400.0,
        description="Longest time that a chain stays parked, at most 365 days; then it ends, in seconds.",
    )
    emit_retry_events: bool = Field(
        True, description="Whether streams, lists and webhooks show session.retry_* events."
    )


OPTIONS: dict[str, tuple[str, str | None]] = {
    "max_retries": ("retries", "N|unlimited"),
    "max_preemption_retries": ("preemption-retries", "N|unlimited"),
    "retry_window": ("retry-window", "SECONDS"),
    "reset_on_progress": ("reset-on-progress", None),
    "stop_after_same": ("stop-after-same", None),
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
    "on_exhausted": ("on-exhausted", "end|park"),
    "park_for": ("park-for", "SECONDS"),
    "emit_retry_events": ("emit-retry-events", None),
}
"""By field: the option without its dashes, and what stands for its value in a help text."""
