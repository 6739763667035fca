"""Two agents of one executor that know nothing of each other: each has its own state directory."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.models import Executor
from scheduler.services.expire import leases_expire
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, running
from tests.factories import policy, reread, submit
from tests.invariants import check_all

BODY: dict[str, Any] = {"limits": {"max_sessions": 9}, "nodes": [], "runs": []}


@pytest.fixture
def run(at: Project, played: Agent) -> Session:
    """Of the agent that was there first, whose directory is "first"."""
    session = submit(at, retry_policy=policy())
    assert played.lease(state_id="first") == [session.pk]
    played.start(session.pk)
    return session


@pytest.fixture
def second(played: Agent) -> Agent:
    """Not started yet."""
    return Agent(played.executor, incarnation=2)


def fence(seconds: float) -> None:
    """Move the fence back: the replaced agent should have ended its runs this long ago."""
    Executor.objects.update(fenced_at=timezone.now() - timedelta(seconds=seconds))


def test_runs_of_the_first_agent_do_not_end_by_the_word_of_the_second(
    run: Session, played: Agent, second: Agent
) -> None:
    seen = Executor.objects.get().last_seen_at
    second.lease(state_id="second")
    assert reread(run).status == "RUNNING"
    fenced_at = Executor.objects.get().fenced_at
    assert seen is not None
    assert fenced_at == seen + timedelta(seconds=360)
    fence(-1)
    second.lease(state_id="second")
    leases_expire()
    assert reread(run).status == "RUNNING"
    fence(1)
    second.lease(state_id="second")
    assert (reread(run).status, reread(run).retry_cause) == ("ERROR", "agent_transient")
    retries_dispatch()
    assert second.lease(state_id="second") == [Session.objects.get(parent=run).pk]
    assert check_all() == []


def test_the_first_agent_hears_that_it_was_replaced(
    run: Session, played: Agent, second: Agent
) -> None:
    second.lease(state_id="second")
    for verb, body in (
        ("lease", BODY | {"state_id": "first"}),
        ("reports", {"reports": [played.reporting(run.pk, "TERMINATED")]}),
    ):
        refused = played.call(verb, body)
        assert refused.status_code == 409
        assert refused.json()["current_incarnation"] == 2


def test_agents_of_the_same_incarnation_are_told_apart(
    run: Session, played: Agent, second: Agent
) -> None:
    """Both directories are new, so that both agents count from one."""
    second.incarnation = 1
    refused = second.call("lease", BODY | {"state_id": "second", "round": 5})
    assert refused.status_code == 409
    assert refused.json()["current_incarnation"] == 1
    assert played.lease(state_id="first") == []
    assert reread(run).status == "RUNNING"


def test_a_lease_that_was_not_accepted_goes_back_at_once(
    at: Project, played: Agent, second: Agent
) -> None:
    session = submit(at)
    played.lease(state_id="first")
    accepting = played.reporting(session.pk, "PREPARING")
    assert second.lease(state_id="second") == [session.pk]
    assert played.call("reports", {"reports": [accepting]}).status_code == 409
    assert second.send(accepting) == ["stale"]
    assert reread(session).status == "SCHEDULED"


def test_the_next_agent_on_the_same_directory_is_believed(run: Session, played: Agent) -> None:
    played.forget()
    played.lease(state_id="first")
    assert reread(run).status == "ERROR"


def test_agents_that_say_nothing_of_their_directory_are_believed(
    at: Project, played: Agent, second: Agent
) -> None:
    session = running(played, submit(at))
    second.lease()
    assert reread(session).status == "ERROR"


def test_a_cancelled_run_of_a_replaced_agent_ends_once_that_has_fenced_it(
    run: Session, second: Agent
) -> None:
    second.lease(state_id="second")
    chain_cancel(run.pk, by="ann")
    second.lease(state_id="second")
    assert reread(run).phase == "live"
    fence(1)
    second.lease(state_id="second")
    assert reread(run).status == "CANCELLED"
    assert check_all() == []
