"""Preemption against an end, a cancel, an acceptance and itself, on separate connections."""

from collections.abc import Callable
from functools import partial

import pytest
from django.contrib.auth.models import User

from scheduler.services.drain import executor_drain
from sessions_app.core.errors import Conflict
from sessions_app.models import Project, Session
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.preempt import session_preempt
from tests.agent import Agent, running
from tests.factories import policy, reread, submit
from tests.invariants import check_all
from tests.racing import race

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 8


@pytest.fixture
def run(at: Project, owner: User, played: Agent) -> Callable[[], Session]:
    return lambda: running(played, submit(at, owner=owner, retry_policy=policy()))


def test_against_the_end(run: Callable[[], Session], played: Agent) -> None:
    for _ in range(TIMES):
        session = run()
        refused, outcome = race(
            partial(session_preempt, session.pk, by="eve"),
            partial(played.report, session.pk, "TERMINATED"),
        )
        if outcome == "busy":
            assert played.report(session.pk, "TERMINATED") == "applied"
        asked = reread(session).preempt_requested_at is not None
        assert reread(session).status == "TERMINATED"
        assert isinstance(refused, Conflict) is not asked
    assert check_all() == []


def test_against_a_cancel(run: Callable[[], Session], played: Agent) -> None:
    for _ in range(TIMES):
        session = run()
        race(
            partial(session_preempt, session.pk, by="eve"),
            partial(chain_cancel, session.root_id, by="ann"),
        )
        assert reread(session).status == "TERMINATING"
        played.fail(session.pk, exit_code=143, reason="Preempted")
        assert reread(session).status == "CANCELLED"
    assert check_all() == []


def test_against_itself(run: Callable[[], Session]) -> None:
    for _ in range(TIMES):
        session = run()
        assert race(*[partial(session_preempt, session.pk, by="eve")] * 3) == [
            None, None, None,
        ]  # fmt: skip
    assert check_all() == []


def test_a_drain_against_acceptances(at: Project, owner: User, played: Agent) -> None:
    sessions = [submit(at, owner=owner, retry_policy=policy()) for _ in range(20)]
    played.lease()
    accepting = [played.reporting(each.pk, "PREPARING") for each in sessions]
    done, outcomes, again = race(
        lambda: executor_drain("one", by="eve"),
        lambda: played.send(*accepting),
        lambda: executor_drain("one", by="eve"),
    )
    played.send(*accepting)
    executor_drain("one", by="eve")
    statuses = [reread(each).status for each in sessions]
    assert set(statuses) <= {"PENDING", "TERMINATING"}
    assert set(outcomes) <= {"applied", "stale", "busy"}
    assert done.asked + again.asked <= statuses.count("TERMINATING")
    assert check_all() == []
