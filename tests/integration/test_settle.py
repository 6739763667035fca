"""Settle: an end, its cause, its decision and what a reader sees of it, in one stroke."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from retry.policies.backoff import Backoff, delay_of
from retry.policies.inline import InlinePolicy, JitterMode
from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests.agent import agent, failed, running
from tests.factories import decision, policy, settle, submit, tip, user
from tests.invariants import check_all

ENDS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str, str]] = {
    "retried": ({}, {}, "kernel_nonzero_exit", "inline_retry", "scheduled"),
    "without a policy": ({"max_retries": 0}, {}, "kernel_nonzero_exit", "no_policy", "not_retried"),
    "allowed exit code": (
        {"retry_on_exit_codes": [3]}, {"exit_code": 3}, "kernel_nonzero_exit", "inline_retry",
        "scheduled",
    ),
    "exit code not allowed": (
        {"retry_on_exit_codes": [3]}, {"exit_code": 4}, "kernel_nonzero_exit",
        "exit_code_excluded", "not_retried",
    ),
    "excluded exit code": (
        {"no_retry_on_exit_codes": [3], "retry_on_exit_codes": [3]}, {"exit_code": 3},
        "kernel_nonzero_exit", "exit_code_excluded", "not_retried",
    ),
    "out of memory": (
        {"eligible_causes": ["oom_killed"]}, {"reason": "OOMKilled", "exit_code": 137},
        "oom_killed", "inline_retry", "scheduled",
    ),
    "cause not eligible": (
        {"eligible_causes": ["oom_killed"]}, {}, "kernel_nonzero_exit", "cause_not_eligible",
        "not_retried",
    ),
    "rejected": ({}, {"reason": "InvalidImageName"}, "validation_error", "never_retried",
                 "not_retried"),
    "past the chain's deadline": (
        {"max_chain_duration": 0.000001}, {}, "kernel_nonzero_exit", "chain_deadline", "exhausted",
    ),
    "preempted": (
        {"max_retries": 0, "max_preemption_retries": 1}, {"conditions": ("Preempted",)},
        "preempted", "inline_retry", "scheduled",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_an_end_gets_its_cause_and_its_decision(at: Project, name: str) -> None:
    asked, facts, cause, reason, state = ENDS[name]
    session = settle(submit(at, retry_policy=policy(**asked)), **facts)
    assert (session.status, session.retry_cause, session.retry_state) == ("ERROR", cause, state)
    made = decision(session)
    assert (made.cause, made.reason) == (cause, reason)
    assert made.trace[-1]["step"] == "decision"
    assert check_all() == []


@pytest.mark.parametrize("kind", ["interactive", "inference"])
def test_only_batch_sessions_are_retried(at: Project, kind: str) -> None:
    session = settle(submit(at, session_type=kind, retry_policy=policy()))
    assert (session.retry_state, decision(session).reason) == ("not_retried", "not_batch")


def test_a_chain_ends_when_its_budget_is_spent(at: Project) -> None:
    root = submit(at, retry_policy=policy(max_retries=2))
    for _ in range(2):
        settle(tip(root))
        assert retries_dispatch().dispatched == 1
    last = settle(tip(root))
    assert (last.retry_count, last.retry_state) == (2, "exhausted")
    assert last.retry_counters == {"inline/failure": 2}
    assert decision(last).reason == "max_retries"
    events = SessionEvent.objects.filter(session_id=last.pk)
    assert events.filter(type="session.retry_exhausted").count() == 1
    assert retries_dispatch().claimed == 0
    assert check_all() == []


def test_a_success_after_failures_is_told(at: Project) -> None:
    root, played = submit(at, retry_policy=policy()), agent()
    failed(played, root)
    retries_dispatch()
    child = running(played, tip(root))
    played.succeed(child.pk)
    assert tip(root).retry_state == "succeeded"
    event = SessionEvent.objects.get(session_id=child.pk, type="session.retry_succeeded")
    assert event.data["attempts"] == 2
    assert not RetryDecision.objects.filter(session=child).exists()


def test_the_due_time_is_the_end_and_the_delay(at: Project) -> None:
    asked: dict[str, Any] = {"max_retries": 1, "retry_delay": 30, "backoff": "exponential"}
    session = settle(submit(at, retry_policy=asked))
    made = decision(session)
    backoff = Backoff.from_policy(InlinePolicy.model_validate(asked))
    assert backoff.jitter is JitterMode.DETERMINISTIC
    expected = delay_of(backoff, 0, session_id=str(session.pk), retry_count=0, random=0.0).value
    assert made.delay == expected
    assert session.finished_at is not None
    assert made.due_at is not None
    assert abs(made.due_at - session.finished_at - timedelta(seconds=expected)) < timedelta(
        microseconds=2
    )


def test_settling_twice_changes_nothing(at: Project) -> None:
    session = settle(submit(at, retry_policy=policy()))
    before = (session.event_seq, decision(session).decided_at)
    assert sessions_settle({session.pk: End(Termination(exit_code=9))}) == []
    session.refresh_from_db()
    assert (session.event_seq, decision(session).decided_at) == before
    assert session.exit_code == 1


def test_a_batch_settles_each_by_its_own_facts(at: Project) -> None:
    owner = user(superuser=True)
    sessions = [submit(at, owner=owner, retry_policy=policy()) for _ in range(20)]
    ends = {s.pk: End(Termination(exit_code=n + 1)) for n, s in enumerate(sessions)}
    assert sorted(sessions_settle(ends)) == sorted(ends)
    codes = dict(Session.objects.values_list("pk", "exit_code"))
    assert [codes[session.pk] for session in sessions] == list(range(1, 21))
    assert check_all() == []


def test_the_number_of_statements_does_not_grow_with_the_batch(at: Project) -> None:
    owner = user(superuser=True)

    def statements(count: int) -> tuple[int, int]:
        ids = [submit(at, owner=owner, retry_policy=policy()).pk for _ in range(count)]
        failure = End(Termination(exit_code=1))
        with CaptureQueriesContext(connection) as settling:
            assert len(sessions_settle(dict.fromkeys(ids, failure))) == count
        with CaptureQueriesContext(connection) as dispatching:
            assert retries_dispatch().dispatched == count
        return len(settling), len(dispatching)

    # Two of them are the savepoint that a test's transaction makes of the service's own. One reads
    # images and commands, because these failures say nothing else about themselves.
    assert statements(1) == (5, 4)
    # Many events are copied, beside all other rows.
    assert statements(100) == (6, 5)


def test_messages_are_cut_to_what_the_row_holds(at: Project) -> None:
    session = settle(submit(at), message="\u20ac" * 5000, node="n" * 400)
    assert len(session.status_message) == 1024
    assert session.node == "n" * 253
    # Of a message the last 4,096 bytes are kept.
    assert decision(session).termination["message"] == "\u20ac" * 1365


def test_the_message_is_the_workloads_or_else_the_clusters(at: Project) -> None:
    refused = settle(submit(at), exit_code=None, reason="OutOfcpu", pod_message="was rejected")
    assert refused.status_message == "OutOfcpu: was rejected"
    failed = settle(submit(at), message="bad input row 7", pod_message="it failed")
    assert failed.status_message == "bad input row 7"
