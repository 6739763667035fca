"""Why a session is retried, or is not: each reason of a decision as a clause.

Written by `make schema` after retry/engine/reasons.py.
"""

RETRY_REASONS = {
    "rule_retry": "a rule asks for it",
    "inline_retry": "its own retry policy asks for it",
    "default_retry": "the policy's default asks for it",
    "gave_way": "it made room for another session",
}
REFUSALS = {
    "not_batch": "only batch sessions are retried",
    "never_retried": "failures of this kind are never retried",
    "retries_disabled": "retries are switched off",
    "workload_said_no": "the workload asked for no retry",
    "repeating_failure": "it fails in the same way again and again",
    "global_limit": "the limit of retries for all chains is reached",
    "rule_fail": "a rule says so",
    "rule_limit": "the rule's retries are used up",
    "cause_not_eligible": "its policy does not retry after this cause",
    "exit_code_excluded": "its policy does not retry after this exit code",
    "preemption_budget": "its retries after preemptions are used up",
    "max_retries": "its retries are used up",
    "default_fail": "the policy's default says so",
    "default_limit": "the policy's default retries are used up",
    "no_policy": "nobody asked for retries",
    "chain_deadline": "the next attempt would come after the chain's longest duration",
    "shared_budget_spent": "the retry budget that it shares with other chains is spent",
}
SPENT = frozenset(
    [
        "repeating_failure",
        "global_limit",
        "rule_limit",
        "preemption_budget",
        "max_retries",
        "default_limit",
        "chain_deadline",
        "shared_budget_spent",
    ]
)
"""The refusals that come after retries."""
