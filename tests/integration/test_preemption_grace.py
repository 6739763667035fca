"""The retry after a preemption waits out the grace period, unless the run's end is confirmed."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from retry.evidence.termination import Termination
from sessions_app import wakeups
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests.agent import Agent, agent, running
from tests.factories import decision, policy, submit, tip
from tests.invariants import check_all

GRACE = 300.0
PREEMPTED = Termination(conditions=("Preempted",))


def preempted(
    played: Agent, at: Project, *, delay: float, termination: Termination = PREEMPTED
) -> Session:
    """A run that was told to stop, and of which nobody saw the end."""
    asked = policy(max_retries=3, retry_delay=delay)
    session = running(played, submit(at, retry_policy=asked, termination_grace_period=GRACE))
    played.report(session.pk, "TERMINATING")
    sessions_settle({session.pk: End(termination, confirmed=False)})
    session.refresh_from_db()
    return session


def waits(session: Session) -> timedelta:
    """Return how long after the first sight of the preemption the retry comes due."""
    made = decision(session)
    assert made.preempted_at is not None
    assert made.due_at is not None
    return made.due_at - made.preempted_at


def test_the_end_is_confirmed_before_the_delay_is_over(at: Project, played: Agent) -> None:
    session = preempted(played, at, delay=100)
    assert waits(session) == timedelta(seconds=GRACE)
    assert played.report(session.pk, "ERROR", exit_code=143) == "stale"
    assert waits(session) == timedelta(seconds=100)
    written = SessionEvent.objects.filter(session_id=session.pk)
    scheduled, ignored = written.order_by("-seq")[:2]
    assert ignored.type == "session.report_ignored"
    assert scheduled.type == "session.retry_scheduled"
    assert scheduled.data["due_at"] == scheduled.data["decision"]["due_at"]
    assert datetime.fromisoformat(scheduled.data["due_at"]) == decision(session).due_at
    assert check_all() == []


def test_the_end_is_confirmed_after_the_delay_is_over(at: Project, played: Agent) -> None:
    session = preempted(played, at, delay=0.001)
    assert retries_dispatch().claimed == 0
    played.report(session.pk, "TERMINATED")
    assert waits(session) > timedelta(seconds=0.001)
    assert retries_dispatch().dispatched == 1
    assert tip(session).retry_count == 1
    assert check_all() == []


def test_an_unseen_end_before_an_observed_stop_has_its_grace(at: Project, played: Agent) -> None:
    asked = policy(max_retries=3, retry_delay=100)
    session = running(played, submit(at, retry_policy=asked, termination_grace_period=GRACE))
    token, facts = played.tokens[session.pk], {"conditions": ["Preempted"], "unfenced": True}
    assert played.report(session.pk, "ERROR", termination=facts) == "applied"
    assert waits(session) == timedelta(seconds=GRACE)
    assert played.report(session.pk, "ERROR", fencing_token=token) == "stale"
    assert waits(session) == timedelta(seconds=100)


def test_it_is_confirmed_once(at: Project, played: Agent) -> None:
    session = preempted(played, at, delay=100)
    for _ in range(3):
        played.report(session.pk, "ERROR")
    events = SessionEvent.objects.filter(session_id=session.pk, type="session.retry_scheduled")
    assert events.filter(data__reason="the end of the run is confirmed").count() == 1
    assert check_all() == []


def test_only_the_end_of_that_very_run_counts(at: Project, played: Agent) -> None:
    session = preempted(played, at, delay=100)
    token = played.tokens[session.pk]
    other = agent()
    assert played.report(session.pk, "RUNNING") == "stale"
    assert played.report(session.pk, "ERROR", fencing_token=token + 1) == "stale"
    assert other.report(session.pk, "ERROR", fencing_token=token, seq=9) == "invalid"
    assert waits(session) == timedelta(seconds=GRACE)
    assert check_all() == []


def test_another_cause_has_no_grace(at: Project, played: Agent) -> None:
    session = preempted(played, at, delay=100, termination=Termination(exit_code=1))
    before = decision(session)
    assert before.preempted_at is None
    played.report(session.pk, "ERROR")
    assert decision(session).due_at == before.due_at


def test_a_hint_goes_out_for_the_earlier_time(
    at: Project,
    played: Agent,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    hinted: list[float] = []
    monkeypatch.setattr(wakeups.publisher, "hints", hinted.extend)
    session = preempted(played, at, delay=100)
    with django_capture_on_commit_callbacks(execute=True):
        played.report(session.pk, "ERROR")
    due_at = decision(session).due_at
    assert due_at is not None
    assert hinted == [pytest.approx(due_at.timestamp(), abs=1)]
