"""Operators preempt sessions: the run is stopped, and the chain goes on as its policies say."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import Executor, Lease
from scheduler.services.expire import leases_expire
from sessions_app import wakeups
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.preempt import session_preempt, sessions_preempt
from tests.agent import Agent, Api, admin, agent, running
from tests.audit import audited_acts
from tests.factories import decision, policy, reread, submit, tip, token, user
from tests.unit.retry.recorded import recorded

WHY = "preempted by eve: make room"
STOPPED: dict[str, Any] = {"exit_code": 143, "reason": "Preempted"}
pytestmark = pytest.mark.usefixtures("all_invariants_hold")


def preempted(at: Project, played: Agent, **fields: Any) -> Session:
    """A run that is asked to stop."""
    session = running(played, submit(at, **{"retry_policy": policy(), **fields}))
    session_preempt(session.pk, by="eve", reason="make room")
    return reread(session)


def events(session: Session) -> int:
    return SessionEvent.objects.filter(session_id=session.pk).count()


def refusal(session: Session) -> str:
    refused = sessions_preempt([session.pk], by="eve")[session.pk]
    assert isinstance(refused, DomainError)
    return refused.detail


def test_a_run_is_stopped_and_its_retry_counts_from_the_request(at: Project, played: Agent) -> None:
    asked = policy(max_retries=0, max_preemption_retries=2, retry_delay=100)
    session = preempted(at, played, retry_policy=asked, termination_grace_period=7)
    assert (session.status, session.status_message) == ("TERMINATING", WHY)
    event = SessionEvent.objects.filter(session_id=session.pk).latest("seq")
    assert (event.type, event.data["by"], event.data["reason"]) == (
        "session.terminating",
        "eve",
        WHY,
    )
    for _ in range(2):  # repeated until it is gone
        played.lease()
        (stop,) = played.answer["stops"]
        assert (stop["reason"], stop["grace_period"]) == ("preempted", 7)
    played.report(session.pk, "TERMINATING", message="the session was preempted")
    played.fail(session.pk, **STOPPED)
    ended, made = reread(session), decision(session)
    assert (ended.status, ended.retry_cause, ended.exit_code) == ("ERROR", "preempted", 143)
    assert ended.status_message == WHY
    assert made.paid_by == "inline/preemption"
    assert made.preempted_at is not None
    assert made.preempted_at == session.preempt_requested_at
    assert made.due_at == made.preempted_at + timedelta(seconds=100)


def test_the_next_attempt_knows_nothing_of_it(at: Project, played: Agent) -> None:
    session = preempted(at, played)
    played.fail(session.pk, **STOPPED)
    assert retries_dispatch().dispatched == 1
    child = tip(session)
    assert child.preempt_requested_at is None
    running(played, child)
    assert played.answer["stops"] == []


def test_repeating_it_changes_nothing(at: Project, played: Agent) -> None:
    session = preempted(at, played)
    before = events(session)
    session_preempt(session.pk, by="bob", reason="again")
    assert (events(session), reread(session).status_message) == (before, WHY)
    played.fail(session.pk, **STOPPED)
    before = events(session)
    session_preempt(session.pk, by="bob", reason="again, as the answer was lost")
    assert events(session) == before
    assert audited_acts().filter(action="session.preempt").count() == 1


def test_a_lease_that_nobody_accepted_is_taken_back_uncounted(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    session_preempt(session.pk, by="eve", reason="make room")
    back = reread(session)
    assert (back.status, back.lease_returns, back.preempt_requested_at) == ("PENDING", 0, None)
    assert played.report(session.pk, "PREPARING") == "stale"
    event = SessionEvent.objects.get(session_id=session.pk, type="session.lease_returned")
    assert event.data["reason"] == WHY
    assert "no run to preempt" in refusal(session)
    assert session.pk in agent().lease()


def test_preempting_a_session_that_does_not_run_is_refused(at: Project, played: Agent) -> None:
    waiting = submit(at)
    assert "waits in its queue" in refusal(waiting)
    running(played, waiting)
    played.report(waiting.pk, "TERMINATING")
    assert "being stopped already" in refusal(waiting)
    played.succeed(waiting.pk)
    assert "has ended: it is TERMINATED" in refusal(waiting)
    cancelled = running(played, submit(at))
    chain_cancel(cancelled.pk, by="ann")
    assert "cancelled" in refusal(cancelled)
    ghost = uuid4()
    assert isinstance(sessions_preempt([ghost], by="eve")[ghost], NotFound)


def test_a_success_stays_one(at: Project, played: Agent) -> None:
    session = preempted(at, played)
    played.succeed(session.pk)
    assert (reread(session).status, reread(session).status_message) == ("TERMINATED", "")
    assert reread(session).preemption == ""


def test_a_failure_of_its_own_stays_one(at: Project, played: Agent) -> None:
    session = preempted(at, played)
    played.fail(session.pk, exit_code=3)
    ended = reread(session)
    assert (ended.retry_cause, ended.status_message) == ("kernel_nonzero_exit", "exit code 3")
    assert decision(session).preempted_at is None


@pytest.mark.parametrize("how", ["fenced", "forgotten"])
def test_a_run_whose_agent_went_away_on_the_way_counts_as_preempted(
    at: Project, played: Agent, how: str
) -> None:
    session = preempted(at, played)
    if how == "fenced":
        played.fail(session.pk, lease_expired=True)
    else:
        played.forget()
        played.lease()
    ended = reread(session)
    assert (ended.retry_cause, ended.status_message) == ("preempted", WHY)
    assert decision(session).preempted_at == session.preempt_requested_at


@pytest.mark.parametrize("deleted_by_us", [True, False])
def test_the_pods_own_reason_does_not_hide_who_asked(
    at: Project, played: Agent, deleted_by_us: bool
) -> None:
    """An agent that was started anew does not know that its predecessor has deleted the pod."""
    session = preempted(at, played)
    pod = recorded("deleted-graceful" if not deleted_by_us else "deadline-exceeded")
    stated = STOPPED if deleted_by_us else {}
    termination = {**stated, "pod": pod, "deleted_by_us": deleted_by_us}
    played.report(session.pk, "ERROR", termination=termination)
    ended = reread(session)
    assert (ended.retry_cause, ended.status_message) == ("preempted", WHY)


def lose(session: Session) -> None:
    """Its executor falls silent, and nobody confirms the end of the run."""
    long_ago = timezone.now() - timedelta(days=1)
    Executor.objects.update(last_seen_at=long_ago)
    leases_expire()
    Lease.objects.update(lost_at=long_ago)
    assert leases_expire().settled == 1


def test_a_lost_run_waits_out_its_grace_unless_its_end_is_confirmed(
    at: Project, played: Agent
) -> None:
    asked = policy(retry_delay=100)
    session = preempted(at, played, retry_policy=asked, termination_grace_period=3000)
    asked_at = session.preempt_requested_at
    assert asked_at is not None
    lose(session)
    assert reread(session).retry_cause == "preempted"
    assert decision(session).due_at == asked_at + timedelta(seconds=3000)
    assert played.report(session.pk, "ERROR", termination=STOPPED) == "stale"
    assert decision(session).due_at == asked_at + timedelta(seconds=100)


def test_the_retry_is_never_due_in_the_past(at: Project, played: Agent) -> None:
    session = preempted(at, played, termination_grace_period=0)
    lose(session)
    made = decision(session)
    assert made.due_at is not None
    assert made.due_at >= made.decided_at


def test_a_lost_run_that_is_heard_of_again_is_still_told_to_stop(
    at: Project, played: Agent
) -> None:
    session = preempted(at, played)
    Executor.objects.update(last_seen_at=timezone.now() - timedelta(days=1))
    assert leases_expire().lost == 1
    played.lease()
    assert [stop["reason"] for stop in played.answer["stops"]] == ["preempted"]
    played.fail(session.pk, **STOPPED)
    assert reread(session).retry_cause == "preempted"


def test_a_user_may_cancel_what_is_being_preempted(at: Project, played: Agent) -> None:
    session = preempted(at, played)
    chain_cancel(session.pk, by="ann")
    played.lease()
    assert [stop["reason"] for stop in played.answer["stops"]] == ["cancelled"]
    played.fail(session.pk, **STOPPED)
    ended = reread(session)
    assert (ended.status, ended.retry_cause) == ("CANCELLED", "user_cancelled")
    assert ended.retry_state == "cancelled"


def test_sessions_other_than_batch_end_for_good(at: Project, played: Agent) -> None:
    session = preempted(at, played, session_type="interactive")
    played.fail(session.pk, **STOPPED)
    assert (reread(session).retry_cause, decision(session).reason) == ("preempted", "not_batch")


def test_the_executor_is_woken(
    at: Project,
    played: Agent,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    session = running(played, submit(at))
    woken: list[bool] = []
    monkeypatch.setattr(wakeups.publisher, "work", lambda: woken.append(True))
    with django_capture_on_commit_callbacks(execute=True):
        session_preempt(session.pk, by="eve")
    assert woken


def test_many_cost_as_many_statements_as_one(at: Project, played: Agent) -> None:
    owner = user(project=at)

    def statements(count: int) -> int:
        sessions = [submit(at, owner=owner) for _ in range(2 * count)]
        played.lease()
        played.start(*[each.pk for each in sessions[:count]])
        with CaptureQueriesContext(connection) as captured:
            refusals = sessions_preempt([each.pk for each in sessions], by="eve")
        assert set(refusals.values()) == {None}
        return len(captured)

    assert statements(1) == statements(20)


class TestRest:
    def path(self, session: Session) -> str:
        return f"sessions/{session.pk}/preempt/"

    def test_a_maintainer_preempts(self, at: Project, played: Agent) -> None:
        session = running(played, submit(at))
        somebody = user("eve", project=at, role=Role.MAINTAINER)
        response = Api(token(somebody)).post(self.path(session), {"reason": "make room"})
        assert response.status_code == 200
        body = response.json()
        assert (body["status"], body["status_message"]) == ("TERMINATING", WHY)
        assert body["preempt_requested_at"] == body["terminating_at"] is not None
        entry = audited_acts().get(action="session.preempt")
        assert (entry.actor, entry.data) == ("eve", {"reason": "make room"})

    def test_a_reason_is_not_needed(self, at: Project, played: Agent) -> None:
        session = running(played, submit(at))
        assert admin().post(self.path(session)).status_code == 200
        assert reread(session).status_message.startswith("preempted by user-")

    @pytest.mark.parametrize(
        "body", [{"reason": 7}, {"reason": "x" * 257}, {"reason": "a\0b"}, {"because": "x"}, []]
    )
    def test_bad_input_is_refused(self, at: Project, played: Agent, body: Any) -> None:
        session = running(played, submit(at))
        response = admin().post(self.path(session), body)
        assert response.status_code == 400
        assert not body or set(response.json()["errors"]) == set(body)
        assert reread(session).status == "RUNNING"

    def test_a_state_that_forbids_it_is_a_409(self, at: Project) -> None:
        response = admin().post(self.path(submit(at)))
        assert response.status_code == 409
        assert "no run to preempt" in response.json()["detail"]


def test_the_page_says_who_and_why(at: Project, played: Agent, client: Any) -> None:
    session = preempted(at, played)
    client.force_login(user(superuser=True))
    page = client.get(f"/sessions/{session.pk}/").content.decode()
    assert "Stopping: preempted" in page
    played.fail(session.pk, **STOPPED)
    retries_dispatch()
    page = client.get(f"/sessions/{tip(session).pk}/").content.decode()
    assert f"<small>{WHY}</small>" in page


def test_the_admin_preempts_from_a_sessions_page(at: Project, played: Agent, client: Any) -> None:
    session = running(played, submit(at))
    client.force_login(user("eve", superuser=True))
    address = f"/admin/sessions_app/session/{session.pk}"
    assert 'value="preempt"' in client.get(f"{address}/change/").content.decode()
    done = client.post(f"{address}/act/", {"do": "preempt"}, follow=True).content.decode()
    assert "It is preempted." in done
    assert 'value="preempt"' not in done
    assert reread(session).status_message == "preempted by eve"
