"""One sweep makes room for many sessions: as far as shares and the rate allow, and no further."""

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.models import Preemption, QueueBelow, Reservation
from scheduler.services.preemptions import MadeRoom, room_make
from sessions_app.models import PriorityClass, Project, Session
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Agent, admin, agent
from tests.factories import reread, submit

STOPPED: dict[str, Any] = {"exit_code": 143, "reason": "Preempted"}
NOTHING = MadeRoom(0, 0)
pytestmark = pytest.mark.usefixtures("all_invariants_hold")


@pytest.fixture(autouse=True)
def at_any_rate(preempting: None, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "preempt_rate": 1.0}


def wide(cpus: int = 8, **fields: Any) -> Agent:
    """An executor with two nodes."""
    nodes = [{"name": name, "allocatable": {"cpu": str(cpus)}} for name in "ab"]
    return agent("one", nodes=nodes, **fields)


def fill(at: Project, played: Agent, count: int, cpu: str = "1") -> list[UUID]:
    """Sessions of the default queue that run."""
    owner = factories.user(superuser=True)
    made = [submit(at, owner=owner, resources={"cpu": cpu}).pk for _ in range(count)]
    assert set(played.lease()) == set(made)
    played.start(*made)
    return made


def come(at: Project, count: int, cpu: str = "1") -> list[UUID]:
    """Sessions of a queue that has been below its share for long enough."""
    poor = factories.queue(at, "poor")
    owner = factories.user(superuser=True)
    made = [submit(at, owner=owner, queue="poor", resources={"cpu": cpu}).pk for _ in range(count)]
    queue_usage_refresh()
    QueueBelow.objects.create(queue=poor, since=timezone.now() - timedelta(seconds=121))
    return made


def stopping() -> list[UUID]:
    rows = Session.objects.filter(status="TERMINATING", gave_way_to__isnull=False)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def takers() -> set[UUID]:
    return set(Reservation.objects.values_list("session_id", flat=True))


def test_a_queue_of_small_sessions_gets_its_share_by_one_sweep(at: Project) -> None:
    played = wide()
    fill(at, played, 16)
    waiting = come(at, 16)
    # 8 of 16 are its share, and below 0.8 of that it may take: 6 are not enough, 7 are.
    assert room_make() == MadeRoom(7, 7)
    assert takers() == set(waiting[:7])
    assert room_make() == NOTHING, "what is underway counts as held"
    thieves = [submit(at, resources={"cpu": "1"}).pk for _ in range(4)]
    started: set[UUID] = set()
    for victim in stopping():
        assert played.lease() == [], "the room of others is kept"
        played.fail(victim, **STOPPED)
        (next_one,) = played.lease()
        started.add(next_one)
    assert started == set(waiting[:7])
    assert takers() == set()
    assert room_make() == NOTHING
    assert {reread(Session.objects.get(pk=each)).status for each in thieves} == {"PENDING"}


def test_what_is_free_beside_kept_room_is_given_to_others(at: Project) -> None:
    played = wide()
    made = fill(at, played, 16)
    come(at, 16)
    room_make()
    other = submit(at, queue="default", resources={"cpu": "1"}).pk
    victims = set(stopping())
    (free, *_) = [each for each in made if each not in victims]
    played.succeed(free)
    (first,) = played.lease()
    assert first != other, "a taker has it, before its own victim has stopped"
    for each in stopping():
        played.fail(each, **STOPPED)
    assert len(played.lease()) == 7, "six takers, and the room that the first one did not need"


def test_the_rate_bounds_all_plans_of_a_minute(at: Project, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "preempt_rate": 0.25}
    played = wide()
    fill(at, played, 16)
    come(at, 16)
    assert room_make() == MadeRoom(4, 4)
    assert room_make() == NOTHING
    past = timezone.now() - timedelta(seconds=61)
    Preemption.objects.update(planned_at=past)
    assert room_make() == MadeRoom(3, 3), "the first four are still underway"


def test_no_session_stops_for_whom_an_earlier_plan_has_left_room(at: Project) -> None:
    played = wide()
    fill(at, played, 4, cpu="4")
    come(at, 8)
    assert room_make() == MadeRoom(2, 2), "each victim makes room for four of seven"
    for each in stopping():
        played.fail(each, **STOPPED)
    assert len(played.lease()) == 8


def test_no_queue_is_brought_below_its_share_by_all_plans_together(
    at: Project, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "reclaim_below": 1.1}
    played = wide()
    fill(at, played, 4, cpu="4")
    come(at, 16)
    made = room_make()
    assert made.victims == 2, "a third would leave its queue with 4 of 8"


def test_a_dry_run_plans_no_session_twice(at: Project, settings: Any) -> None:
    settings.REPRISE_PREEMPTION = "dry_run"
    played = wide()
    fill(at, played, 16)
    come(at, 16)
    assert room_make() == MadeRoom(7, 7)
    assert room_make() == NOTHING
    victims = Counter(Preemption.objects.values_list("victim_id", flat=True))
    assert set(victims.values()) == {1}


def test_many_plans_are_as_many_statements_as_few(at: Project, settings: Any) -> None:
    played = wide(16)
    fill(at, played, 32)
    come(at, 32)
    counts = []
    for part in (2.01 / 32, 8 / 32):
        settings.REPRISE = {**settings.REPRISE, "preempt_rate": part}
        Preemption.objects.update(planned_at=timezone.now() - timedelta(seconds=61))
        with CaptureQueriesContext(connection) as captured:
            made = room_make()
        assert made.plans >= 2
        counts.append(len(captured))
    # Reservations of the sweep before are looked at once.
    assert counts[1] <= counts[0] + 2


def test_urgent_sessions_of_one_line_have_room_made_together(at: Project) -> None:
    PriorityClass.objects.create(name="high", value=10, may_preempt=True, projects=[at.address])
    played = wide()
    fill(at, played, 16)
    high = [submit(at, priority_class="high", resources={"cpu": "1"}).pk for _ in range(3)]
    assert room_make() == MadeRoom(3, 3)
    for each in stopping():
        played.fail(each, **STOPPED)
    assert set(played.lease()) == set(high)


class TestSessionSlots:
    @pytest.fixture
    def high(self, at: Project) -> None:
        PriorityClass.objects.create(name="high", value=10, may_preempt=True, projects=[at.address])

    def test_a_session_makes_way_for_one_that_only_lacks_a_slot(
        self, at: Project, high: None
    ) -> None:
        played = wide(max_sessions=2)
        fill(at, played, 2)
        thief = submit(factories.project("other"), resources={"cpu": "1"}).pk
        taker = submit(at, priority_class="high", resources={"cpu": "2"})
        Session.objects.update(created_at=timezone.now() - timedelta(seconds=10))
        assert room_make() == MadeRoom(1, 1)
        why = admin().read(f"sessions/{taker.pk}/")["pending_reason"]
        assert why.endswith("Kept free for it: one: a. 1 session makes room for it"), why
        assert "sessions, of which it needs 1 and 0 is free" in why
        assert room_make() == NOTHING
        played.fail(*stopping(), **STOPPED)
        assert played.lease() == [taker.pk]
        assert reread(Session.objects.get(pk=thief)).status == "PENDING"

    def test_the_slot_of_another_session_that_ends_goes_to_the_taker(
        self, at: Project, high: None
    ) -> None:
        played = wide(max_sessions=2)
        made = fill(at, played, 2)
        submit(factories.project("other"), resources={"cpu": "1"})
        taker = submit(at, priority_class="high", resources={"cpu": "2"})
        room_make()
        (free,) = set(made) - set(stopping())
        played.succeed(free)
        assert played.lease() == [taker.pk]

    def test_room_and_a_slot_may_come_from_two_sessions(self, at: Project, high: None) -> None:
        played = wide(cpus=4, max_sessions=3)
        fill(at, played, 3, cpu="2")
        played.max_sessions = 2
        played.lease()
        submit(at, priority_class="high", resources={"cpu": "4"})
        assert room_make() == MadeRoom(1, 2), "one slot is free once two have ended"

    def test_an_executor_without_nodes_has_slots_only(self, at: Project, high: None) -> None:
        played = agent("bare", max_sessions=2)
        for _ in range(2):
            submit(at, resources={})
        made = played.lease()
        assert len(made) == 2
        played.start(*made)
        taker = submit(at, priority_class="high", resources={})
        submit(at, resources={})
        assert played.lease() == []
        assert room_make() == MadeRoom(1, 1)
        assert played.lease() == []
        assert takers() == {taker.pk}
        played.fail(*stopping(), **STOPPED)
        assert played.lease() == [taker.pk]
        assert takers() == set()

    def test_a_queue_that_lacks_slots_gets_them_back(self, at: Project) -> None:
        played = wide(cpus=64, max_sessions=16)
        fill(at, played, 16)
        come(at, 16)
        # 1 CPU is little of 128, but one of 16 slots is a sixteenth.
        assert room_make() == MadeRoom(7, 7)


def test_a_plan_with_a_cancelled_victim_does_not_stop_the_others(at: Project) -> None:
    played = wide()
    made = fill(at, played, 16)
    come(at, 16)
    for each in made[:3]:
        chain_cancel(each, by="eve")
    assert room_make().plans == 7
    assert not set(stopping()) & set(made[:3])


def test_a_reservation_of_a_starved_session_outlives_an_old_plan(at: Project) -> None:
    played = wide()
    fill(at, played, 16)
    (taker,) = come(at, 1)
    assert room_make() == MadeRoom(1, 1)
    now = timezone.now()
    Preemption.objects.update(until=now, planned_at=now - timedelta(minutes=2))
    Reservation.objects.update(since=now - timedelta(minutes=2))
    QueueBelow.objects.all().delete()
    room_make()
    assert takers() == set()
    Reservation.objects.create(executor=played.executor, session_id=taker, nodes=["a"])
    room_make()
    assert takers() == {taker}


def test_what_waits_where_nobody_could_run_it_has_no_share(at: Project) -> None:
    played = wide()
    played.executor.projects.add(at)
    fill(at, played, 16)
    come(at, 16)
    for number in range(3):
        submit(factories.project(f"other-{number}"), resources={"cpu": "1"})
    assert room_make() == MadeRoom(7, 7), "of two queues, not of five"
