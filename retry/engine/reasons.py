"""Every reason that a decision can have, with what the session shows and what people are told."""

from collections.abc import Mapping
from typing import NamedTuple

RETRIED = "scheduled"
EXHAUSTED = "exhausted"
NOT_RETRIED = "not_retried"

_BY_HAND = "`reprise session retry` makes one more attempt"


class Reason(NamedTuple):
    """A reason why a failed session is retried, or why not."""

    name: str
    state: str
    """What the session shows; a chain that never had retries does not show `exhausted`."""
    clause: str
    """Goes after "because"."""
    advice: str = ""
    """A sentence for people, empty where there is nothing to do."""


REASONS: Mapping[str, Reason] = {
    reason.name: reason
    for reason in (
        Reason("rule_retry", RETRIED, "a rule asks for it"),
        Reason("inline_retry", RETRIED, "its own retry policy asks for it"),
        Reason("default_retry", RETRIED, "the policy's default asks for it"),
        Reason("gave_way", RETRIED, "it made room for another session"),
        Reason(
            "not_batch",
            NOT_RETRIED,
            "only batch sessions are retried",
            "To allow retries, submit the work as a batch session.",
        ),
        Reason("never_retried", NOT_RETRIED, "failures of this kind are never retried"),
        Reason(
            "retries_disabled",
            NOT_RETRIED,
            "retries are switched off",
            f"Once retries are on again, {_BY_HAND}.",
        ),
        Reason(
            "workload_said_no",
            NOT_RETRIED,
            "the workload asked for no retry",
            f"If the workload is mistaken, {_BY_HAND}.",
        ),
        Reason(
            "repeating_failure",
            EXHAUSTED,
            "it fails in the same way again and again",
            f"Find out why it fails; {_BY_HAND}.",
        ),
        Reason(
            "global_limit",
            EXHAUSTED,
            "the limit of retries for all chains is reached",
            f"Only a cluster admin can raise that limit; until then {_BY_HAND}.",
        ),
        Reason(
            "rule_fail",
            NOT_RETRIED,
            "a rule says so",
            "To retry such failures, put a Retry rule before this one.",
        ),
        Reason(
            "rule_limit",
            EXHAUSTED,
            "the rule's retries are used up",
            f"A higher retryLimit of the rule allows more; {_BY_HAND} without it.",
        ),
        Reason(
            "cause_not_eligible",
            NOT_RETRIED,
            "its policy does not retry after this cause",
            "To retry after this cause, add it to eligible_causes.",
        ),
        Reason(
            "exit_code_excluded",
            NOT_RETRIED,
            "its policy does not retry after this exit code",
            "To retry after this exit code, change retry_on_exit_codes or no_retry_on_exit_codes.",
        ),
        Reason(
            "preemption_budget",
            EXHAUSTED,
            "its retries after preemptions are used up",
            f"A higher max_preemption_retries allows more; {_BY_HAND} without it.",
        ),
        Reason(
            "max_retries",
            EXHAUSTED,
            "its retries are used up",
            f"A higher max_retries allows more; {_BY_HAND} without it.",
        ),
        Reason(
            "default_fail",
            NOT_RETRIED,
            "the policy's default says so",
            "To retry such failures, add a Retry rule that matches them.",
        ),
        Reason(
            "default_limit",
            EXHAUSTED,
            "the policy's default retries are used up",
            f"A higher retryLimit of the policy allows more; {_BY_HAND} without it.",
        ),
        Reason(
            "no_policy",
            NOT_RETRIED,
            "nobody asked for retries",
            "To retry such failures, set max_retries in the session's retry_policy, or give "
            "its queue a policy with a rule for them.",
        ),
        Reason(
            "chain_deadline",
            EXHAUSTED,
            "the next attempt would come after the chain's longest duration",
            f"A longer max_chain_duration allows more; {_BY_HAND} at once.",
        ),
        Reason(
            "shared_budget_spent",
            EXHAUSTED,
            "the retry budget that it shares with other chains is spent",
            f"Once the budget has room, {_BY_HAND}, which does not count in it.",
        ),
    )
}
"""In the order of docs/retries.md: those of a retry, then refusals as the engine comes to them."""
