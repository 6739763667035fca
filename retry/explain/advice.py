"""Every reason that a decision can have, with advice."""

from collections.abc import Mapping

from retry.evidence.causes import RetryCause

_BY_HAND = "`reprise session retry` makes one more attempt"

REASONS: Mapping[str, str] = {
    "rule_retry": "",
    "inline_retry": "",
    "default_retry": "",
    "not_batch": "To have it retried, submit the work as a batch session.",
    "never_retried": "",
    "retries_disabled": f"Once retries are on again, {_BY_HAND}.",
    "workload_said_no": f"If the workload is mistaken, {_BY_HAND}.",
    "global_limit": f"Only a cluster admin can raise that limit; until then {_BY_HAND}.",
    "rule_fail": "To have such failures retried, a Retry rule has to stand before this one.",
    "rule_limit": f"A higher retryLimit of the rule allows more; {_BY_HAND} without it.",
    "cause_not_eligible": "To have it retried, add the cause to eligible_causes.",
    "exit_code_excluded": (
        "To have it retried, change retry_on_exit_codes or no_retry_on_exit_codes."
    ),
    "preemption_budget": f"A higher max_preemption_retries allows more; {_BY_HAND} without it.",
    "max_retries": f"A higher max_retries allows more; {_BY_HAND} without it.",
    "default_fail": "To have such failures retried, add a Retry rule that matches them.",
    "default_limit": f"A higher retryLimit of the policy allows more; {_BY_HAND} without it.",
    "no_policy": (
        "To have such failures retried, set max_retries in the session's retry_policy, or give its "
        "queue a policy with a rule for them."
    ),
    "chain_deadline": f"A longer max_chain_duration allows more; {_BY_HAND} at once.",
}
"""Advice for people, by reason; "" where there is nothing to do."""

_NEVER: Mapping[str, str] = {
    RetryCause.VALIDATION_ERROR: "Correct the specification and submit it again.",
    RetryCause.QUOTA_EXCEEDED: "Submit it again once there is room, or ask for a larger quota.",
    RetryCause.USER_CANCELLED: f"If that was a mistake, {_BY_HAND}.",
}


def advice(reason: str, cause: str) -> str:
    """Return advice about a refusal; "" if there is none, or for a reason of another version."""
    return _NEVER.get(cause, "") if reason == "never_retried" else REASONS.get(reason, "")
