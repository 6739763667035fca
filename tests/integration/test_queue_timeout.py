"""Attempts that wait for longer than their `queue_timeout`, and the time limits of queues."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from reprise.beat import deadlines
from scheduler.models import Lease
from scheduler.services import expire, waits
from scheduler.services.verify import starts_verify
from scheduler.services.waits import waits_expire
from sessions_app.locks import database_now, lock_sessions
from sessions_app.models import Project, Queue, RetryDecision, Session, SessionSpec
from sessions_app.services.chains.dependants import dependants_release
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Agent, Api, agent, running
from tests.factories import body, policy, reread, submit, tip
from tests.invariants import check_all

DOCS = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text()
NIGHT = "queues/acme/work/default/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return Api(factories.token(factories.user(superuser=True)))


def late(*sessions: Session, seconds: float = 3_600) -> None:
    """Let time pass for these."""
    found = Session.objects.filter(pk__in=[each.pk for each in sessions])
    found.update(wait_deadline=F("wait_deadline") - timedelta(seconds=seconds))


def limits(at: Project, **of: Any) -> Queue:
    queue = Queue.objects.get(project=at, is_default=True)
    queue.time_limits = of
    queue.save()
    return queue


def test_a_wait_that_is_over_fails_with_its_reason(at: Project, api: Api) -> None:
    session = submit(at, queue_timeout=600)
    assert reread(session).wait_deadline == session.created_at + timedelta(seconds=600)
    late(session, seconds=590)
    assert waits_expire() == (0, False)
    late(session, seconds=11)
    assert waits_expire() == (1, False)
    shown = api.read(f"sessions/{session.pk}/")
    assert (shown["status"], shown["retry_cause"]) == ("ERROR", "scheduler_timeout")
    assert shown["queue_timeout"] == 600
    assert shown["status_message"] == (
        "it waited longer than its queue_timeout of 600 s: "
        "its project has no executor that is alive and not cordoned"
    )
    assert waits_expire() == (0, False)
    assert check_all() == []


def test_the_documented_message_is_the_one_that_is_written(at: Project) -> None:
    played = agent("one")
    played.nodes = [{"name": "a", "allocatable": {"cpu": "4"}, "used": {}}]
    played.lease()
    held = submit(at, resources={"cpu": "3"})
    assert played.lease() == [held.pk]
    session = submit(at, queue_timeout=600, resources={"cpu": "2"})
    late(session)
    waits_expire()
    example = json.loads(re.search(r"```json\n(\{\"status\": \"ERROR\".*?)```", DOCS, re.DOTALL)[1])  # type: ignore[index]
    assert {name: getattr(reread(session), name) for name in example} == example


def test_without_a_limit_nothing_waits_in_vain(at: Project) -> None:
    session = submit(at)
    assert reread(session).wait_deadline is None
    with CaptureQueriesContext(connection) as done:
        assert waits_expire() == (0, False)
    assert len(done) == 1
    assert reread(session).status == "PENDING"


def test_each_retry_has_its_own_time(at: Project) -> None:
    session = submit(at, queue_timeout=60, retry_policy=policy())
    late(session)
    assert waits_expire() == (1, False)
    Session.objects.update()
    assert retries_dispatch().dispatched == 1
    child = tip(session)
    assert child.pk != session.pk
    assert child.wait_deadline == child.created_at + timedelta(seconds=60)
    assert waits_expire() == (0, False)
    assert check_all() == []


def test_a_rule_retries_it_elsewhere(at: Project) -> None:
    """On another try, where there is room: with other labels of nodes."""
    placement = {"after": 0, "nodeSelector": {"capacity-type": "on-demand"}}
    rule = {"action": "Retry", "onCauses": ["scheduler_timeout"], "placement": placement}
    factories.named_policy("move", project=at, rules=[rule])
    session = submit(
        at, queue_timeout=60, retry_policies=["move"], retry_policy=policy(), image="i:1"
    )
    late(session)
    assert waits_expire() == (1, False)
    RetryDecision.objects.update(due_at=database_now())
    assert retries_dispatch().dispatched == 1
    child = tip(session)
    spec = SessionSpec.objects.get(pk=child.spec_id)
    assert spec.pod_spec == {"nodeSelector": {"capacity-type": "on-demand"}}


def test_who_waits_for_others_has_it_from_their_end_on(at: Project) -> None:
    first = submit(at)
    later = submit(at, depends_on=[str(first.pk)], queue_timeout=60)
    plain = submit(at, depends_on=[str(first.pk)])
    assert (later.phase, later.wait_deadline) == ("blocked", None)
    assert waits_expire() == (0, False)
    factories.settle(factories.start(first), status="terminated", exit_code=0)
    dependants_release([first.root_id])
    released = reread(later)
    assert (released.phase, reread(plain).wait_deadline) == ("waiting", None)
    assert released.wait_deadline is not None
    late(later)
    assert waits_expire() == (1, False)
    assert reread(later).retry_cause == "scheduler_timeout"
    assert check_all() == []


def test_what_is_leased_or_ended_is_left_alone(at: Project, played: Agent) -> None:
    leased, cancelled = submit(at, queue_timeout=60), submit(at, queue_timeout=60)
    chain_cancel(cancelled.root_id, by="ann")
    assert played.lease() == [leased.pk]
    late(leased, cancelled)
    assert waits_expire() == (0, False)
    played.give_back(leased.pk)  # its time goes on
    assert waits_expire() == (1, False)
    assert reread(leased).status == "ERROR"
    assert reread(cancelled).status == "CANCELLED"
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_a_chain_that_another_holds_is_left_to_the_next_sweep(at: Project) -> None:
    held, free = submit(at, queue_timeout=60), submit(at, queue_timeout=60)
    late(held, free)
    with holding(held):
        assert waits_expire() == (1, False)
    assert [reread(each).status for each in (held, free)] == ["PENDING", "ERROR"]
    assert waits_expire() == (1, False)
    assert check_all() == []


def holding(session: Session) -> Any:
    """The lock on a chain, in another connection."""
    import threading
    from contextlib import contextmanager

    @contextmanager
    def held() -> Any:
        taken, done = threading.Event(), threading.Event()

        def hold() -> None:
            with transaction.atomic():
                lock_sessions([session.pk])
                taken.set()
                done.wait(20)
            connection.close()

        thread = threading.Thread(target=hold)
        thread.start()
        assert taken.wait(20)
        try:
            yield
        finally:
            done.set()
            thread.join()

    return held()


def test_what_was_leased_after_the_look_goes_on(at: Project, played: Agent) -> None:
    session = submit(at, queue_timeout=60)
    late(session)
    reasons = waits._reasons

    def leased_meanwhile(found: Any) -> Any:
        assert played.lease() == [session.pk]
        return reasons(found)

    with patch.object(waits, "_reasons", leased_meanwhile):
        assert waits_expire() == (0, False)
    assert reread(session).status == "SCHEDULED"
    assert check_all() == []


def test_a_batch_is_a_fixed_number_of_statements(at: Project) -> None:
    def spent(count: int) -> int:
        late(*[submit(at, queue_timeout=60) for _ in range(count)])
        with CaptureQueriesContext(connection) as done:
            assert waits_expire() == (count, False)
        return len(done)

    spent(1)
    assert spent(12) == spent(2)


def test_many_reasons_are_found_batch_by_batch(at: Project) -> None:
    late(*[submit(at, queue_timeout=60, resources={"cpu": str(n + 1)}) for n in range(12)])
    for each in Session.objects.all():
        Session.objects.filter(pk=each.pk).update(scheduling_key=each.pk.int % 2**60)
    assert waits_expire() == (10, True)
    assert waits_expire() == (2, False)
    assert set(Session.objects.values_list("status", flat=True)) == {"ERROR"}


def test_beat_ends_waits_if_no_worker_does(at: Project) -> None:
    session = submit(at, queue_timeout=60)
    late(session)
    assert deadlines.SWEEPS["scheduler.tasks.sweep_leases"].batch() == (1, False)
    assert reread(session).status == "ERROR"
    assert max(expire.leases_expire()) == 0


def test_a_pod_without_a_node_counts_too(at: Project, played: Agent) -> None:
    session = submit(at, queue_timeout=60)
    assert played.lease() == [session.pk]
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod = {"status": {"phase": "Pending", "conditions": [{**waiting, "message": "0/3 nodes"}]}}
    played.report(session.pk, "PREPARING", pod=pod)
    starts_verify()
    assert reread(session).status == "PREPARING"
    late(session)
    hour = timedelta(hours=1)
    Lease.objects.update(verify_at=F("verify_at") - hour, pod_created_at=F("pod_created_at") - hour)
    SessionSpec.objects.update(scheduling_timeout=7_200)
    assert starts_verify().failed == 1
    assert "(0/3 nodes); its queue_timeout is over." in reread(session).status_message


class TestLimitsOfQueues:
    def test_the_example_sets_them(self, at: Project, api: Api) -> None:
        found = re.search(r"night/ -d '(\{.*?\})'\n", DOCS.split("How long it waits")[1], re.DOTALL)
        assert found
        sent = json.loads(found[1])
        answer = api.call("PATCH", NIGHT, sent)
        assert answer.status_code == 200, answer.content
        assert answer.json()["time_limits"] == sent["time_limits"]
        made = api.post("sessions/", body()).json()
        assert (made["queue_timeout"], made["batch_timeout"]) == (3600, 7200)
        assert made["scheduling_timeout"] is None
        assert api.call("PUT", NIGHT, {}).json()["time_limits"] == {}

    @pytest.mark.parametrize("name", ["queue_timeout", "scheduling_timeout", "batch_timeout"])
    def test_more_than_the_maximum_is_refused(self, at: Project, api: Api, name: str) -> None:
        limits(at, **{name: {"max": 100}})
        answer = api.post("sessions/", body(**{name: 101}))
        assert answer.status_code == 400
        said = "must be at most 100 seconds, the limit of queue default"
        assert answer.json()["errors"] == {name: [said]}
        made = api.post("sessions/", body(**{name: 100}))
        assert made.status_code == 201
        assert made.json()[name] == 100
        assert api.post("sessions/", body()).json()[name] == 100

    def test_the_servers_own_limit_stays_if_it_is_shorter(self, at: Project, api: Api) -> None:
        limits(at, scheduling_timeout={"max": 600})
        assert api.post("sessions/", body()).json()["scheduling_timeout"] is None

    def test_the_same_request_is_found_again_after_a_change(self, at: Project, api: Api) -> None:
        asked = body(creation_id="one", queue_timeout=500)
        first = api.post("sessions/", asked).json()
        limits(at, queue_timeout={"default": 5, "max": 100})
        again = api.post("sessions/", asked)
        assert (again.status_code, again.json()["id"]) == (200, first["id"])

    def test_a_retry_by_hand_keeps_within_them(self, at: Project, api: Api) -> None:
        session = submit(at)
        factories.settle(factories.start(session))
        limits(at, batch_timeout={"max": 100})
        for value in (101, None):
            answer = api.post(
                f"sessions/{session.pk}/retry/", {"changes": {"batch_timeout": value}}
            )
            assert answer.status_code == 400
            assert "at most 100 seconds" in answer.json()["errors"]["changes.batch_timeout"][0]
        assert session_retry(
            session.pk, session.root_id, by="ann", changes={"batch_timeout": 90.0}
        ).child_id

    @pytest.mark.parametrize(
        "sent",
        [
            {"queue_timeout": {"default": 10, "max": 5}},
            {"queue_timeout": {"max": 0}},
            {"queue_timeout": {"most": 5}},
            {"queue_timeout": 5},
            {"run_timeout": {"max": 5}},
            [],
        ],
    )
    def test_bad_limits_are_refused(self, at: Project, api: Api, sent: Any) -> None:
        answer = api.call("PATCH", NIGHT, {"time_limits": sent})
        assert answer.status_code == 400, answer.content
        assert all(name.startswith("time_limits") for name in answer.json()["errors"])

    def test_a_run_is_not_touched_by_a_change(self, at: Project, played: Agent) -> None:
        session = running(played, submit(at, queue_timeout=60))
        limits(at, queue_timeout={"max": 1})
        late(session)
        assert waits_expire() == (0, False)
        assert reread(session).status == "RUNNING"
