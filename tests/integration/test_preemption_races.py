"""Preemption against an end, a cancel, an acceptance and itself, on separate connections."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from scheduler.models import Preemption, Reservation
from scheduler.services.drain import executor_drain
from scheduler.services.preemptions import room_make
from sessions_app.core.errors import Conflict
from sessions_app.models import PriorityClass, Project, Session
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.preempt import session_preempt
from tests.agent import Agent, agent, running
from tests.factories import policy, reread, submit
from tests.invariants import check_all
from tests.racing import locked, race

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


def test_two_sweeps_at_once_make_one_plan(at: Project, owner: User, settings: Any) -> None:
    settings.REPRISE_PREEMPTION = "on"
    settings.REPRISE = {**settings.REPRISE, "preempt_after": 0.0, "preempt_rate": 1.0}
    PriorityClass.objects.create(name="high", value=10, may_preempt=True, projects=[at.address])
    nodes = [{"name": name, "allocatable": {"cpu": "4"}} for name in "ab"]
    played = agent("wide", nodes=nodes)
    full = [submit(at, owner=owner, resources={"cpu": "2"}) for _ in range(4)]
    played.lease()
    played.start(*[each.pk for each in full])
    high = submit(at, owner=owner, priority_class="high", resources={"cpu": "4"})
    assert sorted(race(room_make, room_make, room_make)) == [(0, 0), (0, 0), (1, 2)]
    assert list(Preemption.objects.values_list("taker_id", flat=True)) == [high.pk] * 2
    assert Session.objects.filter(status="TERMINATING", gave_way_to=high.pk).count() == 2
    assert list(Reservation.objects.values_list("session_id", flat=True)) == [high.pk]
    assert check_all() == []


def test_plans_whose_sessions_somebody_else_holds_are_dropped_alone(
    at: Project, owner: User, settings: Any
) -> None:
    settings.REPRISE_PREEMPTION = "on"
    settings.REPRISE = {**settings.REPRISE, "preempt_after": 0.0, "preempt_rate": 1.0}
    PriorityClass.objects.create(name="high", value=10, may_preempt=True, projects=[at.address])
    nodes = [{"name": name, "allocatable": {"cpu": "2"}} for name in "abc"]
    played = agent("wide", nodes=nodes)
    full = [submit(at, owner=owner, resources={"cpu": "2"}) for _ in range(3)]
    played.lease()
    played.start(*[each.pk for each in full])
    high = [submit(at, owner=owner, priority_class="high", resources={"cpu": "2"}) for _ in "abc"]
    with locked(full[0].pk, high[1].pk):
        # One plan lacks its victim, the next one its taker.
        assert race(room_make) == [(1, 1)]
    assert reread(full[0]).status == "RUNNING"
    assert Reservation.objects.count() == 1
    assert check_all() == []
    assert race(room_make) == [(2, 2)]
    assert check_all() == []
