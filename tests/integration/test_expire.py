"""Expiry: deadlines are on the database's clock, so tests set the recorded times back."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import Executor, Lease
from scheduler.services.expire import ExpireResult, leases_expire
from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, running
from tests.factories import policy, reread, submit
from tests.invariants import check_all

NOTHING = ExpireResult(0, 0, 0)


def ago(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


@pytest.fixture
def lost(at: Project, played: Agent) -> Session:
    """An accepted run whose executor has been silent for too long."""
    session = running(played, submit(at, retry_policy=policy(), batch_timeout=50))
    Executor.objects.update(last_seen_at=ago(361))
    assert leases_expire() == ExpireResult(0, 1, 0)
    return session


def test_nothing_is_overdue_at_once(at: Project, played: Agent) -> None:
    submit(at)
    played.lease()
    running(played, submit(at))
    assert leases_expire() == NOTHING


def test_a_lease_that_nobody_accepts_goes_back_counted(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    Lease.objects.update(granted_at=ago(59))
    assert leases_expire() == NOTHING
    Lease.objects.update(granted_at=ago(61))
    assert leases_expire() == ExpireResult(1, 0, 0)
    assert (reread(session).status, reread(session).lease_returns) == ("PENDING", 1)
    assert played.report(session.pk, "PREPARING") == "stale"
    assert check_all() == []


def test_leases_that_nobody_accepts_end_as_scheduler_timeout(at: Project, played: Agent) -> None:
    session = submit(at)
    for _ in range(5):
        played.tokens.clear()
        played.lease()
        Lease.objects.update(granted_at=ago(61))
        leases_expire()
    assert reread(session).retry_cause == "scheduler_timeout"
    assert "not accepted within 60 s" in reread(session).status_message


def test_a_silent_executor_loses_its_runs_after_ttl_and_grace(at: Project, played: Agent) -> None:
    session = running(played, submit(at))
    Executor.objects.update(last_seen_at=ago(359))
    assert leases_expire() == NOTHING
    Executor.objects.update(last_seen_at=ago(361))
    assert leases_expire() == ExpireResult(0, 1, 0)
    assert leases_expire() == NOTHING
    now = reread(session)
    assert (now.status, "silent" in now.status_message) == ("TERMINATING", True)
    assert check_all() == []


def test_a_lost_run_that_nobody_confirms_settles_unfenced(lost: Session) -> None:
    Lease.objects.update(lost_at=ago(599))
    assert leases_expire() == NOTHING
    Lease.objects.update(lost_at=ago(601))
    assert leases_expire() == ExpireResult(0, 0, 1)
    ended = reread(lost)
    assert (ended.status, ended.retry_cause) == ("ERROR", "agent_transient")
    event = SessionEvent.objects.get(session_id=lost.pk, type="session.error")
    assert event.data["unfenced"] is True
    assert ended.retry_state == "scheduled"
    assert not Lease.objects.exists()
    assert check_all() == []


def test_a_lost_run_is_over_when_its_own_deadline_has_passed(lost: Session) -> None:
    lease = Lease.objects.get()
    # Acceptance + batch timeout + the session's grace + slack.
    assert lease.run_deadline is not None
    accepted = reread(lost).accepted_at
    assert accepted is not None
    assert lease.run_deadline - accepted == timedelta(seconds=50 + 30 + 60)
    Lease.objects.update(run_deadline=ago(1))
    assert leases_expire() == ExpireResult(0, 0, 1)
    event = SessionEvent.objects.get(session_id=lost.pk, type="session.error")
    assert "unfenced" not in event.data


@pytest.mark.parametrize("started", [None, 100])
def test_the_deadline_of_a_pod_that_waited_for_a_node_counts_from_its_start(
    lost: Session, started: int | None
) -> None:
    Executor.objects.update(unconfirmed_after=0)
    Lease.objects.update(run_deadline=ago(50))
    accepted = reread(lost).accepted_at
    assert accepted is not None
    late = None if started is None else accepted + timedelta(seconds=started)
    Session.objects.filter(pk=lost.pk).update(started_at=late)
    assert leases_expire().settled == 0
    Lease.objects.update(run_deadline=ago(101))
    assert leases_expire().settled == (started is not None)


def test_a_run_without_a_timeout_has_no_deadline(at: Project, played: Agent) -> None:
    running(played, submit(at))
    assert Lease.objects.get().run_deadline is None


@pytest.mark.parametrize(("patience", "settled"), [(5.0, 1), (0.0, 0), (-1.0, 0)])
def test_an_executor_has_its_own_patience(lost: Session, patience: float, settled: int) -> None:
    Executor.objects.update(unconfirmed_after=patience)
    Lease.objects.update(lost_at=ago(100_000 if patience <= 0 else 6), run_deadline=None)
    assert leases_expire().settled == settled


def test_an_end_before_that_settles_by_its_own_facts(lost: Session, played: Agent) -> None:
    assert played.report(lost.pk, "TERMINATED") == "applied"
    assert reread(lost).status == "TERMINATED"
    assert check_all() == []


def test_a_run_that_the_agent_fenced_is_agent_transient(lost: Session, played: Agent) -> None:
    fenced = {"lease_expired": True, "exit_code": 137}
    assert played.report(lost.pk, "ERROR", termination=fenced) == "applied"
    assert reread(lost).retry_cause == "agent_transient"
    assert RetryDecision.objects.get(session=lost).avoid_executor == lost.executor


def test_an_end_after_that_is_stale(lost: Session, played: Agent) -> None:
    Lease.objects.update(lost_at=ago(601))
    leases_expire()
    assert played.report(lost.pk, "TERMINATED") == "stale"
    assert reread(lost).status == "ERROR"
    assert check_all() == []


def test_an_executor_that_comes_back_is_told_to_stop_a_lost_run(
    lost: Session, played: Agent
) -> None:
    played.lease()
    assert [stop["reason"] for stop in played.answer["stops"]] == ["unknown"]
    assert reread(lost).status == "TERMINATING"
    played.tokens.clear()
    played.lease()
    assert reread(lost).retry_cause == "agent_transient"


def test_a_cancelled_run_that_is_lost_is_cancelled(at: Project, played: Agent) -> None:
    session = running(played, submit(at, retry_policy=policy()))
    chain_cancel(session.pk, by="ann")
    Executor.objects.update(last_seen_at=ago(361))
    leases_expire()
    Lease.objects.update(lost_at=ago(601))
    leases_expire()
    ended = reread(session)
    assert (ended.status, ended.retry_cause) == ("CANCELLED", "user_cancelled")
    assert check_all() == []
