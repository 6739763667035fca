from datetime import timedelta
from typing import Any

import pytest
from reprise_client.cli.words import (
    attempt_of,
    attempt_summary,
    avoided,
    granted,
    outcome,
    span,
    what_next,
    when,
)
from reprise_client.models import Decision, RetryState, Session

from tests.unit.client import answers
from tests.unit.client.answers import IDS, START

NOW = START + timedelta(seconds=60)
DECISION = Decision.model_validate(answers.decision())


def session(**state: Any) -> Session:
    return Session.model_validate(answers.failed(1, **state))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (42, "42 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7_500, "2 h 5 min"),
        (86_400 * 3 + 3_600 * 4 + 61, "3 d 4 h"),
    ],
)
def test_a_span(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_moment_is_told_from_now_and_exactly() -> None:
    assert when(START, NOW) == "1 min ago (14:00:00)"
    assert when(NOW + timedelta(seconds=42), NOW) == "in 42 s (14:01:42)"
    assert when(START - timedelta(days=1), NOW) == "1 d 1 min ago (2026-03-01 14:00:00)"
    assert when(None, NOW) == ""


def test_attempts_count_from_one() -> None:
    state = RetryState(attempt=1, max_attempts=70)
    assert (attempt_of(state), attempt_of(state, ahead=1)) == ("attempt 2", "attempt 3")


def test_the_server_says_which_budget_binds() -> None:
    summary = "attempt 3; 2 of 2 retries for failures used"
    assert attempt_summary(RetryState(attempt=2, max_attempts=70, summary=summary)) == summary
    assert attempt_summary(RetryState(attempt=2, max_attempts=70)) == "attempt 3"  # an older server


def test_a_waiting_retry_says_when_why_and_who_pays() -> None:
    due = (NOW + timedelta(seconds=42)).isoformat()
    assert what_next(session(due_at=due), DECISION, NOW) == (
        "attempt 3 in 42 s (14:01:42), because kernel_nonzero_exit; pays inline/failure 2 of 3"
    )


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"due_at": START.isoformat()}, "attempt 3 is due since 14:00:00, because kernel_"),
        ({"state": "held"}, "attempt 3 is held while retries are paused or switched off"),
        ({"state": "retried", "next_session_id": IDS[2]}, f"attempt 3 is {IDS[2]}"),
        (
            {"state": "exhausted", "reason": "max_retries"},
            "no retry, because its retries are used up",
        ),
        ({"state": "not_retried", "reason": "brand_new"}, "no retry, because brand_new"),
    ],
)
def test_the_next_step_is_described(state: dict[str, Any], text: str) -> None:
    assert what_next(session(**state), None, NOW).startswith(text)


def test_a_running_attempt_says_whether_it_may_come_back() -> None:
    def running(attempt: int) -> str:
        return what_next(Session.model_validate(answers.session(attempt=attempt)), None, NOW)

    assert running(2) == "if it fails, it may be retried"
    assert running(3) == ""
    unbounded = answers.session(attempt=3, retry_state={"max_attempts": None})
    sentence = what_next(Session.model_validate(unbounded), None, NOW)
    assert sentence == "if it fails, it may be retried"


def test_an_outcome_names_the_facts() -> None:
    assert outcome(session()) == "failed: kernel_nonzero_exit, exit code 3, on node-a"
    assert outcome(Session.model_validate(answers.succeeded())) == "succeeded"


@pytest.mark.parametrize(
    ("state", "decision", "text"),
    [
        (
            {"due_at": (NOW + timedelta(seconds=200)).isoformat()},
            {"paced": True, "paid_by": "ml/lost", "used": 0, "limit": 5},
            (
                "attempt 3 is postponed by the storm limit to 14:04:20 (in 3 min 20 s), "
                "because kernel_nonzero_exit; pays ml/lost 1 of 5"
            ),
        ),
        (
            {"due_at": START.isoformat()},
            {"paced": True, "requested_by": "ada", "paid_by": "manual", "used": 0, "limit": None},
            "attempt 3 is due since 14:00:00, asked for by ada; pays manual 1",
        ),
    ],
)
def test_a_retry_with_a_slot_of_its_own(
    state: dict[str, Any], decision: dict[str, Any], text: str
) -> None:
    decided = Decision.model_validate(answers.decision(**decision))
    assert what_next(session(**state), decided, NOW) == text


@pytest.mark.parametrize(
    ("switch", "text"),
    [
        ("paused", "retries are paused"),
        ("off", "retries are switched off"),
        (None, "retries are paused or switched off"),
    ],
)
def test_a_held_retry_says_which_switch(switch: str | None, text: str) -> None:
    sentence = what_next(session(state="held"), None, NOW, switch)
    assert sentence == f"attempt 3 is held while {text}, because kernel_nonzero_exit"


@pytest.mark.parametrize(
    ("held_for", "text"),
    [
        ("switch", "retries are paused"),
        ("breaker", "the breaker of its failure is open"),
        ("shared_budget", "the retry budget that it shares is spent"),
    ],
)
def test_a_held_retry_says_what_holds_it(held_for: str, text: str) -> None:
    told = f"attempt 3 is held while {text}, because kernel_nonzero_exit"
    assert what_next(session(state="held", held_for=held_for), None, NOW, "paused") == told
    # A server of the release before says it with the decision only.
    decision = Decision.model_validate(answers.decision(held_for=held_for, paid_by=None))
    assert what_next(session(state="held"), decision, NOW, "paused") == told


def test_a_refusal_names_the_rule() -> None:
    refused = session(state="exhausted", reason="rule_limit", rule="ml/lost")
    text = "no retry, because the rule's retries are used up (ml/lost)"
    assert what_next(refused, None, NOW) == text


def test_resources_and_avoidance_of_the_next_attempt_are_described() -> None:
    decided = Decision.model_validate(
        answers.decision(resources={"cpu": "1", "memory": "1536Mi"}, avoid_executor="gpu")
    )
    assert granted(decided) == "cpu=1, memory=1536Mi"
    assert granted(decided, {"cpu": "1", "memory": "1Gi"}) == "memory 1Gi -> 1536Mi"
    grouped = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1536Mi"}}
    both = Decision.model_validate(answers.decision(resources=grouped))
    assert granted(both) == "requests memory=1Gi, limits memory=1536Mi"
    assert granted(both, {"memory": "1Gi"}) == "limits memory 1Gi -> 1536Mi"
    assert granted(both, {"requests": {"memory": "1Gi"}}) == "limits memory none -> 1536Mi"
    assert avoided(decided) == "node node-a of gpu"
    assert (granted(None), avoided(None), granted(DECISION)) == ("", "", "")
