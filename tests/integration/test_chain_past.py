"""Decisions that look at the past of their chain: equal failures, and retries within a window."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from retry.evidence.termination import Termination
from sessions_app.models import Project, RetryDecision, Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.chain_past import MOST_READ
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories
from tests.agent import Api
from tests.integration.admin import operator, text_of, url
from tests.invariants import check_all


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user(project=at, role=Role.MEMBER)))


def fails(session: Session, message: str = "", **facts: Any) -> RetryDecision:
    """End the newest attempt of a chain in this way, and bring the next one."""
    tip = factories.start(factories.tip(session))
    sessions_settle({tip.pk: End(Termination(exit_code=1, message=message, **facts))})
    decided = factories.decision(tip)
    retries_dispatch()
    return decided


def test_the_same_failure_ends_a_chain(at: Project, api: Api) -> None:
    policy = factories.policy(max_retries=9, stop_after_same=2)
    session = factories.submit(at, retry_policy=policy)
    assert fails(session, "error: no such table").reason == "inline_retry"
    assert fails(session, "error: disk is broken").reason == "inline_retry"
    assert fails(session, conditions=("Preempted",)).reason == "inline_retry"
    last = fails(session, "error: disk is broken")
    assert (last.reason, last.state) == ("repeating_failure", "final")
    tip = api.read(f"sessions/{last.pk}/")
    assert tip["retry_state"]["state"] == "exhausted"
    said = api.read(f"sessions/{last.pk}/retry-decision/")["explanation"]
    key = tip["failure_signature"]
    assert any(f"The last 2 failures are the same one, {key}" in each for each in said)
    assert check_all() == []


@pytest.mark.parametrize(
    "end",
    [
        {"exit_code": 137},
        {"exit_code": 137, "reason": "OOMKilled"},
        {"exit_code": 143, "reason": "DeadlineExceeded"},
    ],
    ids=["killed", "oom", "late"],
)
def test_runs_that_are_killed_fail_alike_whatever_they_printed_last(
    at: Project, end: dict[str, Any]
) -> None:
    session = factories.submit(at, retry_policy=factories.policy(max_retries=9, stop_after_same=3))
    for reason, said in (
        ("inline_retry", "step 120, loss=0.3"),
        ("inline_retry", "wrote checkpoint 7"),
        ("repeating_failure", "reading part-00003.parquet"),
    ):
        tip = factories.start(factories.tip(session))
        sessions_settle({tip.pk: End(Termination(**end), log_tail=f"{said}\n")})
        assert factories.decision(tip).reason == reason
        retries_dispatch()


def test_a_rule_stops_after_equal_failures(at: Project) -> None:
    rule = {"name": "any", "action": "Retry", "stopAfterSame": 3}
    factories.named_policy("p", rules=[{**rule, "onCauses": ["kernel_nonzero_exit"]}])
    session = factories.submit(at, retry_policies=["p"], retry_policy=factories.policy())
    reasons = [fails(session, f"error: row {row} is bad").reason for row in range(3)]
    assert reasons == ["rule_retry", "rule_retry", "repeating_failure"]


def test_retries_count_within_the_window(at: Project, api: Api) -> None:
    policy = factories.policy(max_retries=2, retry_window=3600)
    session = factories.submit(at, retry_policy=policy)
    assert [fails(session).used for _ in range(2)] == [0, 1]
    RetryDecision.objects.update(decided_at=timezone.now() - timedelta(hours=1))
    assert [fails(session).used for _ in range(2)] == [0, 1]
    last = fails(session)
    assert (last.reason, last.used, last.limit) == ("max_retries", 2, 2)
    state = api.read(f"sessions/{last.pk}/")["retry_state"]
    assert state["max_attempts"] is None
    assert state["budgets"] == [{"name": "inline/failure", "used": 4, "limit": 2, "window": 3600.0}]
    assert check_all() == []


def test_no_page_shows_a_budget_with_a_window_as_spent(at: Project) -> None:
    policy = factories.policy(max_retries=2, retry_window=3600)
    session = factories.submit(at, retry_policy=policy)
    for _ in range(4):
        assert fails(session).reason == "inline_retry"
        RetryDecision.objects.update(decided_at=timezone.now() - timedelta(hours=1))
    browser, attempt = operator(), factories.tip(session)
    _shows_the_window(browser, attempt)
    assert fails(session).session_id == attempt.pk
    _shows_the_window(browser, attempt)


def _shows_the_window(browser: Client, attempt: Session) -> None:
    page = browser.get(f"/sessions/{attempt.pk}/")
    admin_page = text_of(browser.get(url("sessions_app_session", "change", attempt.pk)))
    summary = "attempt 5; 4 retries for failures used, at most 2 in 1 h"
    assert summary in text_of(page)
    assert summary in admin_page
    assert "inline/failure 4, at most 2 in 1 h" in text_of(page)
    assert "inline/failure: 4, at most 2 in 1 h" in admin_page
    assert "<progress" not in page.content.decode()


def told(session: Session, step: float | None) -> Session:
    """The next failure of a chain, whose attempt told that it came so far; retried at once."""
    tip = factories.start(factories.tip(session))
    progress = None
    if step is not None:
        progress = {"step": step, "of": None, "note": "", "best": step, "rate": None}
    end = End(Termination(exit_code=1, message="error: disk is broken"), progress=progress)
    sessions_settle({tip.pk: end})
    retries_dispatch()
    return factories.reread(tip)


def test_progress_resets_the_budget(at: Project, api: Api) -> None:
    policy = factories.policy(max_retries=2, reset_on_progress=True)
    session = factories.submit(at, retry_policy=policy)
    attempts = [told(session, step) for step in (1, None, 5, None, 4)]
    decisions = [factories.decision(each) for each in attempts]
    assert [each.used for each in decisions] == [0, 1, 0, 1, 2]
    assert [each.reason for each in decisions] == ["inline_retry"] * 4 + ["max_retries"]
    marks = {"inline/failure": 2}
    assert [each.retry_marks for each in attempts] == [None, None, None, marks, marks]
    shown = api.read(f"sessions/{attempts[3].pk}/")["retry_state"]
    assert shown["max_attempts"] is None
    assert shown["budgets"] == [{"name": "inline/failure", "used": 1, "limit": 2}]
    said = api.read(f"sessions/{attempts[4].pk}/retry-decision/")["explanation"]
    assert any("2 of 2 retries for failures were used since the last progress" in s for s in said)
    window = {"project": at.address, "since": (timezone.now() - timedelta(hours=1)).isoformat()}
    for more, reasons in (
        ({}, {"inline_retry": 4, "max_retries": 1}),
        ({"reset_on_progress": False}, {"inline_retry": 2, "max_retries": 1}),
    ):
        body = {"retry_policy": {"max_retries": 2, **more}, "history": window}
        response = api.post("retry-policies/simulate/", body)
        raw = b"".join(response) if response.streaming else response.content
        assert json.loads(raw)["summary"]["by_reason"] == reasons
    assert check_all() == []


def test_an_attempt_with_progress_is_no_equal_failure(at: Project) -> None:
    session = factories.submit(at, retry_policy=factories.policy(max_retries=9, stop_after_same=2))
    reasons = [factories.decision(told(session, step)).reason for step in (3, 5, 7, None)]
    assert reasons == ["inline_retry"] * 4
    assert factories.decision(told(session, 7)).reason == "repeating_failure"


def settling(sessions: list[Session]) -> int:
    """The number of statements that settle the next failures of these chains."""
    tips = [factories.start(factories.tip(each)) for each in sessions]
    with CaptureQueriesContext(connection) as queries:
        sessions_settle({each.pk: End(Termination(exit_code=1)) for each in tips})
    return len(queries)


def test_the_statement_that_locks_reads_the_past_of_all_chains(at: Project) -> None:
    def costs(**policy: Any) -> int:
        sessions = [factories.submit(at, retry_policy=factories.policy(**policy)) for _ in range(3)]
        for each in sessions:
            fails(each)
        return settling(sessions)

    without = costs()
    assert [costs(stop_after_same=2), costs(retry_window=60)] == [without, without]


def test_a_long_past_takes_a_statement_more(at: Project) -> None:
    long = factories.policy(max_retries=MOST_READ + 3, retry_window=3600)
    session = factories.submit(at, retry_policy=long)
    assert [fails(session).used for _ in range(MOST_READ)] == list(range(MOST_READ))
    before = settling([session])
    retries_dispatch()
    assert settling([session]) == before + 1
    assert factories.decision(factories.tip(session)).used == MOST_READ + 1


def test_of_a_long_past_nothing_before_the_window_is_read(at: Project) -> None:
    policy = factories.policy(max_retries=MOST_READ + 9, retry_window=3600)
    session = factories.submit(at, retry_policy=policy)
    for _ in range(MOST_READ + 2):
        fails(session)
    newest = factories.tip(session).retry_count - 2
    # The first one cannot be newer than those after it: were it read, it would count.
    old = RetryDecision.objects.filter(session__retry_count__range=(1, newest - 1))
    old.update(decided_at=timezone.now() - timedelta(hours=2))
    assert fails(session).used == 2


def test_simulations_know_the_past(at: Project, api: Api) -> None:
    session = factories.submit(at, retry_policy=factories.policy(max_retries=3))
    for _ in range(4):
        fails(session, "error: disk is broken")
    window = {"project": at.address, "since": (timezone.now() - timedelta(hours=1)).isoformat()}
    for draft, reasons in (
        ({"stop_after_same": 3}, {"inline_retry": 2, "repeating_failure": 1}),
        ({"max_retries": 1, "retry_window": 0.0001}, {"inline_retry": 4}),
    ):
        for given in (
            {"history": window},
            {"chains": [{"terminations": [{"exit_code": 1, "message": "error: x"}] * 4}]},
        ):
            body = {"retry_policy": {"max_retries": 3, **draft}, **given}
            response = api.post("retry-policies/simulate/", body)
            assert response.status_code == 200, response.content
            raw = b"".join(response) if response.streaming else response.content
            assert json.loads(raw)["summary"]["by_reason"] == reasons
