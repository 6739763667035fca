"""The reason of a decision in words for people, and what may be done about it."""

from collections.abc import Mapping

from retry.engine.reasons import REASONS
from retry.evidence.causes import RetryCause

_NEVER: Mapping[str, str] = {
    RetryCause.VALIDATION_ERROR: "Correct the specification and submit it again.",
    RetryCause.QUOTA_EXCEEDED: "Submit it again once there is room, or ask for a larger quota.",
    RetryCause.DEPENDENCY_FAILED: (
        "Retry the chain that failed with `reprise session retry --downstream`, which also retries "
        "those that waited for it."
    ),
    RetryCause.USER_CANCELLED: (
        "If that was a mistake, `reprise session retry` makes one more attempt."
    ),
}


def reason_words(reason: str) -> str:
    """Return the clause of a reason; one of another version stays as it is."""
    known = REASONS.get(reason)
    return known.clause if known else reason.replace("_", " ")


def advice(reason: str, cause: str) -> str:
    """Return what may be done about a refusal; empty if nothing, or if the reason is unknown."""
    if reason == "never_retried":
        return _NEVER.get(cause, "")
    known = REASONS.get(reason)
    return known.advice if known else ""
