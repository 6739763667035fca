"""Reasons why a failed session is not retried, as clauses after "because"."""

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "max_retries": "its retries are used up",
    "preemption_budget": "its retries after preemptions are used up",
    "rule_limit": "the rule's retries are used up",
    "default_limit": "the policy's default retries are used up",
    "global_limit": "the limit of retries for all chains is reached",
    "chain_deadline": "the next attempt would come after the chain's longest duration",
    "not_batch": "only batch sessions are retried",
    "never_retried": "failures of this kind are never retried",
    "retries_disabled": "retries are switched off",
    "workload_said_no": "the workload asked for no retry",
    "rule_fail": "a rule says so",
    "default_fail": "the policy's default says so",
    "cause_not_eligible": "its policy does not retry after this cause",
    "exit_code_excluded": "its policy does not retry after this exit code",
    "no_policy": "nobody asked for retries",
}
"""Clauses by the reason of a decision. The command has the same table; a test compares them."""


def reason_words(reason: str) -> str:
    """Return the clause of a reason; an unknown one as it is, without underscores."""
    return WORDS.get(reason, reason.replace("_", " "))
