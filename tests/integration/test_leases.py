"""Leases: who gets what, what goes back, and what an executor is told to stop."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import ProtectedError
from django.utils import timezone

from base.podspec.quantity import LARGEST
from retry.evidence.termination import Termination
from scheduler.allocation.round import Allocation, allocate
from scheduler.models import Executor, Lease
from scheduler.services import leases
from scheduler.services.executors import leases_sweep_orphans
from scheduler.services.polling import look_again
from scheduler.wire import LeaseCall, Limits
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, Api, agent, failed, running
from tests.factories import executor, policy, project, queue, reread, submit, token, user
from tests.invariants import check_all
from tests.quantities import AMOUNTS


def test_a_lease_says_all_that_is_to_run(at: Project, played: Agent) -> None:
    session = submit(
        at, name="train", image="i", command=["a", "b"], environ={"REPRISE_ATTEMPT": "9", "B": "1"},
        job_set="night", batch_timeout=60, resources={"cpu": 0}, ports=["web"], labels={"x": "y"},
        retry_policy=policy(),
    )  # fmt: skip
    failed(played, session, exit_code=3)
    retries_dispatch()
    played.lease()
    (lease,) = played.answer["leases"]
    child = Session.objects.get(parent=session)
    assert lease["attempt"] == 1
    assert lease["project"] == at.address
    assert lease["queue"] == "default"
    assert lease["environ"] == {
        "REPRISE_SESSION_ID": str(child.pk), "REPRISE_ROOT_SESSION_ID": str(session.pk),
        "REPRISE_PARENT_SESSION_ID": str(session.pk), "REPRISE_ATTEMPT": "1",
        "REPRISE_PREVIOUS_CAUSE": "kernel_nonzero_exit", "REPRISE_PREVIOUS_EXIT_CODE": "3",
        "REPRISE_CHECKPOINT": "", "REPRISE_STEP": "",
        "REPRISE_PROJECT": at.address, "REPRISE_QUEUE": "default", "REPRISE_JOB_SET": "night",
    }  # fmt: skip
    assert lease["spec"] == {
        "name": "train", "image": "i", "command": ["a", "b"],
        "environ": {"REPRISE_ATTEMPT": "9", "B": "1"}, "resources": {"cpu": "0"}, "mounts": [],
        "cluster_size": 1, "batch_timeout": 60.0, "termination_grace_period": 30.0,
        "labels": {"x": "y"}, "ports": ["web"], "pod_spec": None,
    }  # fmt: skip
    assert (played.answer["lease_ttl"], played.answer["lease_grace"]) == (300.0, 60.0)


def test_amounts_reach_the_executor_as_they_are_written(at: Project) -> None:
    api = Api(token(user("ann", project=at)))
    whole = [text for text, amount in AMOUNTS.items() if amount % 1 == 0]
    asked = {f"example.com/r{number}": text for number, text in enumerate(whole)}
    body = {"project": at.address, "command": ["true"], "resources": asked}
    assert api.post("sessions/", body).status_code == 201
    played = agent(nodes=[{"name": "n1", "allocatable": dict.fromkeys(asked, str(LARGEST))}])
    played.lease()
    (lease,) = played.answer["leases"]
    assert lease["spec"]["resources"] == asked
    assert check_all() == []


def test_priority_comes_first_and_then_the_age_of_the_chain(at: Project, played: Agent) -> None:
    retried = submit(at, retry_policy=policy())
    fresh, urgent = submit(at), submit(at, priority=5)
    held = played.lease(limits={"max_sessions": 2})
    assert held == [urgent.pk, retried.pk]
    played.fail(retried.pk)
    newer = submit(at)
    retries_dispatch()
    child = Session.objects.get(parent=retried)
    assert played.lease() == [child.pk, fresh.pk, newer.pk]


def test_no_more_is_leased_than_the_executor_takes(at: Project, played: Agent) -> None:
    for _ in range(5):
        submit(at)
    assert len(played.lease(limits={"max_sessions": 3})) == 3
    assert played.lease(limits={"max_sessions": 3}) == []
    assert len(played.lease(limits={"max_sessions": 4})) == 1


def test_what_comes_during_a_round_is_not_leased_before_it_came(
    at: Project, played: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late_submission(executor: Executor, now: datetime) -> Allocation:
        submit(at)
        return allocate(executor, now)

    submit(at)
    monkeypatch.setattr(leases, "allocate", late_submission)
    assert len(played.lease()) == 2
    for lease in Lease.objects.select_related("session"):
        assert lease.granted_at == lease.session.scheduled_at
        assert lease.granted_at >= lease.session.created_at


def test_sessions_that_do_not_fit_are_passed_over(at: Project, played: Agent) -> None:
    played.nodes = [{"name": "n1", "allocatable": {"cpu": "2", "memory": "1Gi"}}]
    large = submit(at, resources={"cpu": "4"})
    first, second = submit(at, resources={"cpu": "1500m"}), submit(at, resources={"cpu": "500m"})
    third = submit(at, resources={"cpu": "1m"})
    assert played.lease() == [first.pk, second.pk]
    assert reread(large).status == "PENDING"
    played.succeed(first.pk)
    assert played.lease() == [third.pk]


def test_sessions_that_do_not_fit_hide_nothing_behind_them(at: Project, played: Agent) -> None:
    """Even if there is one free slot only, and many large sessions are first in the queue."""
    played.nodes = [{"name": "n1", "allocatable": {"cpu": "2", "memory": "1Gi"}}]
    for _ in range(20):
        submit(at, resources={"cpu": "4"}, priority=1)
    small = submit(at, resources={"cpu": "2"})
    assert played.lease(limits={"max_sessions": 1}) == [small.pk]


def test_sessions_refused_by_one_executor_go_to_another(at: Project) -> None:
    small, big = agent("small"), agent("big")
    small.nodes = [{"name": "n1", "allocatable": {"cpu": "2"}}]
    big.nodes = [{"name": "n1", "allocatable": {"cpu": "64"}}]
    big.lease()
    session = submit(at, resources={"cpu": "4"})
    assert small.lease() == []
    assert big.lease() == [session.pk]


def test_a_large_session_is_leased_once_a_node_is_large_enough(at: Project, played: Agent) -> None:
    """However long it has waited, and however often it was looked at in vain."""
    played.nodes = [{"name": "n1", "allocatable": {"cpu": "2"}}]
    new, old = submit(at, resources={"cpu": "4"}), submit(at, resources={"cpu": "4"})
    long_ago = timezone.now() - timedelta(hours=1)
    Session.objects.filter(pk=old.pk).update(root_submitted_at=long_ago)
    assert played.lease() == []
    assert played.lease() == []
    played.nodes = [{"name": "n2", "allocatable": {"cpu": "8"}}]
    assert played.lease() == [old.pk, new.pk]


def test_a_round_reads_in_few_statements_whatever_does_not_fit(
    at: Project, played: Agent, django_assert_max_num_queries: Any
) -> None:
    played.nodes = [{"name": "n1", "allocatable": {"cpu": "2"}}]
    owner = user(superuser=True)
    for _ in range(100):
        submit(at, owner=owner, resources={"cpu": "4"})
    small = submit(at, owner=owner, resources={"cpu": "2"})
    with django_assert_max_num_queries(45):
        assert played.lease(limits={"max_sessions": 1}) == [small.pk]


def test_an_executor_serves_only_its_projects(at: Project) -> None:
    mine, other = submit(at), submit(project())
    bound = Agent(executor("bound", projects=(at,)))
    assert bound.lease() == [mine.pk]
    assert agent().lease() == [other.pk]


def woken(name: str) -> list[UUID]:
    """Return the sessions that a held call gets when it is woken."""
    call = LeaseCall(incarnation=1, limits=Limits(max_sessions=9))
    answer, _ = look_again(name, call)
    return [lease.session_id for lease in answer.leases]


@pytest.mark.parametrize("bound", [True, False])
def test_a_wake_up_takes_a_round_only_if_own_work_waits(
    at: Project, bound: bool, django_assert_num_queries: Any
) -> None:
    Agent(executor("one", projects=(at,) if bound else ())).lease()
    if bound:
        submit(project())
    with django_assert_num_queries(1):
        assert woken("one") == []
    mine = submit(at)
    assert woken("one") == [mine.pk]


def test_a_cordoned_queue_or_executor_leases_nothing(at: Project, played: Agent) -> None:
    closed = queue(at, "closed", cordoned=True)
    session = submit(at, queue="closed")
    assert played.lease() == []
    closed.cordoned = False
    closed.save()
    Executor.objects.update(cordoned=True)
    assert played.lease() == []
    Executor.objects.update(cordoned=False)
    assert played.lease() == [session.pk]


def test_a_lease_that_is_not_known_goes_back_uncounted(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    first = played.tokens[session.pk]
    played.forget()
    assert played.lease() == [session.pk]
    assert played.tokens[session.pk] > first
    assert reread(session).lease_returns == 0
    assert check_all() == []


def test_an_accepted_run_that_is_not_known_has_ended(at: Project, played: Agent) -> None:
    session = running(played, submit(at, retry_policy=policy(max_preemption_retries=1)))
    played.forget()
    played.lease()
    ended = reread(session)
    assert (ended.status, ended.retry_cause) == ("ERROR", "agent_transient")
    assert ended.retry_state == "scheduled"
    retries_dispatch()
    child = Session.objects.get(parent=session)
    assert child.retry_counters == {"inline/preemption": 1}
    assert child.avoid_executors == ["one"]
    assert check_all() == []


def test_an_executor_with_leases_cannot_be_deleted(at: Project, played: Agent) -> None:
    """Its sessions would live for ever: every deadline of a run is its lease's."""
    session = running(played, submit(at))
    with pytest.raises(ProtectedError):
        played.executor.delete()
    played.succeed(session.pk)
    played.executor.delete()


def test_a_lease_call_that_comes_late_ends_nothing(at: Project, played: Agent) -> None:
    """Its agent gave it up, called again, and got and started a session; then it is served."""
    session = submit(at)
    assert played.lease(round=2) == [session.pk]
    played.start(session.pk)
    late = {"limits": {"max_sessions": 9}, "nodes": [], "runs": []}
    refused = played.call("lease", {**late, "round": 1})
    assert refused.status_code == 409
    assert "current_incarnation" not in refused.json()
    assert reread(session).status == "RUNNING"
    # The same call sent twice is no late one, and a next one means what it says.
    assert played.lease(round=2) == []
    played.ask("lease", {**late, "round": 3})
    assert reread(session).status == "ERROR"
    assert check_all() == []


def test_the_rounds_of_a_new_agent_begin_anew(at: Project, played: Agent) -> None:
    played.lease(round=100)
    session = running(played, submit(at))
    played.forget()
    played.send(played.reporting(session.pk, "RUNNING"))
    played.lease(round=1)
    assert reread(session).status == "ERROR"


def test_a_retry_avoids_the_executor_that_lost_it_if_another_one_lives(
    at: Project, played: Agent
) -> None:
    session = running(played, submit(at, retry_policy=policy()))
    other = agent("two")
    other.lease()
    played.forget()
    played.lease()
    retries_dispatch()
    child = Session.objects.get(parent=session)
    assert played.lease() == []
    long_ago = timezone.now() - timedelta(minutes=2)
    Executor.objects.filter(name="two").update(last_seen_at=long_ago)
    assert played.lease() == [child.pk]


def test_a_returned_lease_avoids_the_executor(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    assert played.give_back(session.pk, reason="no room") == ["applied"]
    waiting = reread(session)
    assert (waiting.status, waiting.lease_returns) == ("PENDING", 1)
    assert waiting.avoid_executors == ["one"]
    assert waiting.fencing_token is None
    assert check_all() == []


def test_an_accepted_lease_cannot_be_returned(at: Project, played: Agent) -> None:
    session = running(played, submit(at))
    assert played.give_back(session.pk) == ["invalid"]
    assert reread(session).status == "RUNNING"


def test_the_return_of_an_old_lease_is_stale(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    played.tokens[session.pk] += 1
    assert played.give_back(session.pk) == ["stale"]
    assert reread(session).status == "SCHEDULED"


def test_too_many_returns_end_as_scheduler_timeout(
    at: Project, played: Agent, settings: Any
) -> None:
    session = submit(at, retry_policy=policy())
    for _ in range(settings.REPRISE["max_lease_returns"]):
        assert reread(session).status == "PENDING"
        Session.objects.update(avoid_executors=[])
        played.lease()
        played.give_back(session.pk)
    ended = reread(session)
    assert (ended.status, ended.retry_cause) == ("ERROR", "scheduler_timeout")
    assert "no room" in ended.status_message
    assert ended.retry_state == "scheduled"
    assert check_all() == []


def test_the_last_return_of_a_worn_out_session_may_be_repeated(
    at: Project, played: Agent, settings: Any
) -> None:
    """Its answer was lost. What else is in the call counts all the same."""
    session = submit(at, retry_policy=policy())
    Session.objects.update(lease_returns=settings.REPRISE["max_lease_returns"] - 1)
    played.lease()
    token = played.tokens[session.pk]
    assert played.give_back(session.pk) == ["applied"]
    played.tokens[session.pk] = token
    other = submit(at)
    played.lease()
    played.tokens[session.pk] = token
    assert played.give_back(session.pk, other.pk) == ["stale", "applied"]
    assert reread(session).status == "ERROR"
    assert check_all() == []


def test_a_lease_that_was_given_anew_meanwhile_is_not_settled(at: Project, played: Agent) -> None:
    """Its secrets could not be handed over; before that was written, another executor had it."""
    session = running(played, submit(at))
    token = played.tokens[session.pk]
    end = {session.pk: End(Termination(reason="SecretsWithheld"))}
    assert sessions_settle(end, leased={session.pk: token - 1}) == []
    assert reread(session).status == "RUNNING"
    assert sessions_settle(end, leased={session.pk: token}) == [session.pk]
    assert check_all() == []


def test_a_cancelled_run_is_to_be_stopped_until_it_is_gone(at: Project, played: Agent) -> None:
    session = running(played, submit(at, termination_grace_period=7))
    chain_cancel(session.pk, by="ann")
    stop = {
        "session_id": str(session.pk), "fencing_token": played.tokens[session.pk],
        "reason": "cancelled", "grace_period": 7.0,
    }  # fmt: skip
    for _ in range(2):
        played.lease()
        assert played.answer["stops"] == [stop]
    played.fail(session.pk, exit_code=143)
    played.lease()
    assert played.answer["stops"] == []
    assert reread(session).status == "CANCELLED"


def test_a_run_that_is_not_the_executors_is_to_be_stopped(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    token = played.tokens[session.pk]
    chain_cancel(session.pk, by="ann")
    played.lease()
    assert played.answer["stops"] == [
        {"session_id": str(session.pk), "fencing_token": token, "reason": "unknown",
         "grace_period": 0.0}
    ]  # fmt: skip
    assert Lease.objects.count() == 1
    assert leases_sweep_orphans() == 1
    assert check_all() == []


def test_nodes_that_are_not_said_again_are_as_before() -> None:
    submit(project(), resources={"cpu": "2"})
    played = agent(nodes=[{"name": "n1", "allocatable": {"cpu": "4"}, "free": {"cpu": "4"}}])
    played.max_sessions = 0
    assert played.lease() == []
    played.max_sessions = 1
    assert len(played.lease(nodes=None)) == 1
    played.executor.refresh_from_db()
    assert [node["name"] for node in played.executor.nodes] == ["n1"]
    assert played.lease(nodes=[]) == []
    played.executor.refresh_from_db()
    assert played.executor.nodes == []


def test_a_session_that_avoids_all_executors_is_taken_anyway(at: Project, played: Agent) -> None:
    other = agent("two")
    other.lease()
    session = submit(at)
    for each in (played, other):
        assert each.lease() == [session.pk]
        each.give_back(session.pk)
    assert reread(session).avoid_executors == ["one", "two"]
    assert played.lease() == [session.pk]


def test_avoidance_ignores_executors_of_other_projects(at: Project, played: Agent) -> None:
    other = Agent(executor("two", projects=(project(),)))
    other.lease()
    session = submit(at)
    played.lease()
    played.give_back(session.pk)
    assert played.lease() == [session.pk]


def test_avoidance_ignores_executors_that_are_too_small(at: Project, played: Agent) -> None:
    played.nodes = [{"name": "n1", "allocatable": {"cpu": "8"}}]
    small = agent("two", nodes=[{"name": "n1", "allocatable": {"cpu": "2"}}])
    session = submit(at, resources={"cpu": "4"})
    assert played.lease() == [session.pk]
    played.give_back(session.pk)
    assert small.lease() == []
    assert played.lease() == [session.pk]
