"""The sentence that says what binds a session now."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from sessions_app.core.binding import Link, Moment, Parts, binding
from sessions_app.core.states import RetryState, Status

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NEXT, NEWEST = UUID(int=2), UUID(int=9)


def session(**facts: Any) -> dict[str, Any]:
    state = {"state": "none", "attempt": 0, "due_at": None, "next_session_id": None, "reason": None}
    state |= {"held_for": None}
    state |= {name: facts.pop(name) for name in list(facts) if name in state}
    return {"status": "PENDING", "started_at": None, "retry_state": state, **facts}


CAUSE = ". The cause is kernel nonzero exit, exit code 137"
FAILED = {
    "status": "ERROR",
    "finished_at": AT,
    "retry_cause": "kernel_nonzero_exit",
    "exit_code": 137,
}


def said(parts: Parts) -> str:
    """The parts as text: times as their kind, links as their words."""
    return "".join(
        part
        if isinstance(part, str)
        else f"<{part.kind}>"
        if isinstance(part, Moment)
        else part.text
        for part in parts
    )


@pytest.mark.parametrize(
    ("facts", "head", "clause", "more", "tone"),
    [
        ({}, "Waiting for an executor", "", "", ""),
        (
            {"pending_reason": "it waits for room"},
            "Waiting for an executor",
            "",
            ": it waits for room",
            "",
        ),
        (
            {
                "pending_reason": "waits for 2 of 5: prepare (RUNNING), ...",
                "why_pending": {"reason": "dependencies", "ahead": 0},
            },
            "Waits for 2 of 5: prepare (RUNNING), ...",
            "",
            "",
            "",
        ),
        (
            {"status": "PULLING", "executor": "gpu", "node": None},
            "Getting ready",
            "",
            " (pulling) on executor gpu",
            "",
        ),
        (
            {"status": "RUNNING", "started_at": AT, "executor": "gpu", "node": "n1"},
            "Running for <since>",
            "",
            " on executor gpu, node n1",
            "",
        ),
        (
            {"status": "RUNNING", "started_at": AT, "node": "n1"},
            "Running for <since>",
            "",
            " on node n1",
            "",
        ),
        (
            {"status": "RUNNING", "started_at": AT, "cancel_requested_at": AT},
            "Stopping: the chain was cancelled <ago>",
            "",
            "",
            "",
        ),
        (
            {"status": "TERMINATING", "preempt_requested_at": AT},
            "Stopping: preempted <ago>",
            "",
            "",
            "",
        ),
        ({"status": "TERMINATING", "executor": "gpu"}, "Stopping", "", " on executor gpu", ""),
        (
            {**FAILED, "state": "scheduled", "due_at": AT, "reason": "inline_retry"},
            "Retry <until>",
            "",
            f" because its own retry policy asks for it{CAUSE}",
            "waiting",
        ),
        (
            {**FAILED, "state": "scheduled"},
            "Retry soon",
            "",
            CAUSE,
            "waiting",
        ),
        (
            {"status": "ERROR", "state": "held", "reason": "rule_retry"},
            "Retry held",
            " until retries are switched on again",
            " because a rule asks for it",
            "waiting",
        ),
        (
            {"status": "ERROR", "state": "held", "held_for": "breaker", "reason": "rule_retry"},
            "Retry held",
            " until the breaker of its failure closes",
            " because a rule asks for it",
            "waiting",
        ),
        (
            {**FAILED, "state": "held", "held_for": "shared_budget"},
            "Retry held",
            " until the retry budget that it shares has room",
            CAUSE,
            "waiting",
        ),
        (
            {**FAILED, "state": "exhausted", "reason": "max_retries"},
            "Gave up",
            ": its retries are used up",
            CAUSE,
            "bad",
        ),
        (
            {"status": "ERROR", "state": "not_retried", "reason": "no_policy"},
            "Not retried",
            ": nobody asked for retries",
            "",
            "bad",
        ),
        ({"status": "ERROR", "state": "not_retried"}, "Not retried", "", "", "bad"),
        ({"status": "TERMINATED", "state": "succeeded"}, "Succeeded", "", "", "good"),
        (
            {"status": "TERMINATED", "state": "succeeded", "attempt": 1},
            "Succeeded",
            "",
            " after 1 retry",
            "good",
        ),
        (
            {
                "status": "CANCELLED",
                "state": "cancelled",
                "cancel_requested_at": AT,
                "finished_at": AT,
            },
            "Cancelled",
            "",
            "",
            "",
        ),
    ],
)
def test_the_sentence_says_what_binds_it(
    facts: dict[str, Any], head: str, clause: str, more: str, tone: str
) -> None:
    bound = binding(session(**facts))

    assert (said(bound.head), said(bound.clause), said(bound.more)) == (head, clause, more)
    assert bound.tone == tone


def test_a_retried_attempt_leads_to_the_next_and_to_the_newest() -> None:
    retried = session(**FAILED, state="retried", next_session_id=NEXT)
    following = {"id": NEXT, "attempt": 1, "status": "RUNNING"}
    newest = {"id": NEWEST, "attempt": 8, "status": "ERROR"}

    assert binding(retried).head == ("Retried as ", Link(NEXT, "attempt 2"))
    assert said(binding(retried, following).more) == ", which is RUNNING"
    assert binding(retried, newest).more[1] == Link(NEWEST, "attempt 9")
    assert said(binding(retried, newest).more) == "; the newest is attempt 9, which is ERROR"


@pytest.mark.parametrize("state", list(RetryState))
@pytest.mark.parametrize("status", list(Status))
def test_every_state_has_a_sentence(state: RetryState, status: Status) -> None:
    bound = binding(session(status=status.value, state=state.value))

    assert said(bound.head)


def test_a_silent_executor_is_said_first_unless_the_session_has_ended() -> None:
    silence = "gpu", AT
    running = session(status="RUNNING", started_at=AT)

    assert said(binding(running, silence=silence).head) == "No word from executor gpu for <since>"
    assert said(binding(session(**FAILED, state="succeeded"), silence=silence).head) == "Succeeded"
