"""Several executors whose sessions make room, and the limits of those for whom they do."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.models import Executor, Preemption, QueueBelow
from scheduler.services.preemptions import MadeRoom, room_make
from sessions_app.models import PriorityClass, Project, Session, SessionEvent
from tests import factories
from tests.agent import Agent, agent
from tests.factories import submit
from tests.racing import race

pytestmark = pytest.mark.usefixtures("all_invariants_hold")


@pytest.fixture(autouse=True)
def at_any_rate(at: Project, preempting: None, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "preempt_rate": 1.0}
    PriorityClass.objects.create(name="high", value=10, may_preempt=True, projects=[at.address])


def full(at: Project, owner: User, name: str, cpu: str = "4", count: int = 1) -> Agent:
    """An executor whose only node is full."""
    played = agent(name, nodes=[{"name": "n", "allocatable": {"cpu": cpu}}])
    size = {"cpu": str(int(cpu) // count)}
    made = [submit(at, owner=owner, resources=size).pk for _ in range(count)]
    assert set(played.lease()) == set(made)
    played.start(*made)
    return played


def high(at: Project, owner: User, cpu: str = "4", **fields: Any) -> UUID:
    made = submit(at, owner=owner, priority_class="high", resources={"cpu": cpu}, **fields)
    key: UUID = made.pk
    return key


def plans() -> list[tuple[str, UUID]]:
    rows = Preemption.objects.order_by("pk")
    return list(rows.values_list("executor__name", "taker_id"))


def test_a_session_gets_room_on_one_executor_only(at: Project, owner: User) -> None:
    for name in ("one", "two"):
        full(at, owner, name)
    first = high(at, owner)
    assert room_make() == MadeRoom(1, 1)
    assert plans() == [("one", first)]
    second = high(at, owner)
    assert room_make() == MadeRoom(1, 1)
    assert plans() == [("one", first), ("two", second)]


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_once_make_room_for_a_session_once(at: Project, owner: User) -> None:
    for name in ("one", "two", "three"):
        full(at, owner, name)
    takers = {high(at, owner) for _ in range(2)}
    race(room_make, room_make, room_make)
    room_make()
    assert {taker for _, taker in plans()} == takers
    assert len(plans()) == 2


def test_a_dry_run_elsewhere_holds_no_plan_back(at: Project, owner: User) -> None:
    for name in ("one", "two"):
        full(at, owner, name)
    Executor.objects.filter(name="one").update(preemption="dry_run")
    taker = high(at, owner)
    assert room_make() == MadeRoom(2, 2)
    assert plans() == [("one", taker), ("two", taker)]
    assert room_make() == MadeRoom(0, 0), "to a dry run real plans count"


def test_shares_are_kept_over_all_executors(at: Project, owner: User) -> None:
    poor = factories.queue(at, "poor")
    for name in ("one", "two"):
        full(at, owner, name, cpu="8", count=8)
    for _ in range(16):
        submit(at, owner=owner, queue="poor", resources={"cpu": "1"})
    queue_usage_refresh()
    QueueBelow.objects.create(queue=poor, since=timezone.now() - timedelta(seconds=121))
    # 7 of 16 are 0.8 of a half.
    assert room_make() == MadeRoom(7, 7)


def test_no_more_room_is_made_than_the_limit_of_a_queue_allows(at: Project, owner: User) -> None:
    for name in ("one", "two"):
        full(at, owner, name, cpu="8", count=8)
    factories.queue(at, "few", resource_limits={"sessions": 3})
    for _ in range(6):
        high(at, owner, "1", queue="few")
    assert room_make() == MadeRoom(3, 3)
    assert room_make() == MadeRoom(0, 0), "those for whom room is being made count"


def test_queues_of_a_project_share_its_quota(at: Project, owner: User) -> None:
    other = factories.project("other")
    full(other, owner, "one", cpu="8", count=8)
    factories.quotas(at, sessions=2)
    for name in ("p", "q"):
        factories.queue(at, name)
        for _ in range(3):
            high(at, owner, "1", queue=name)
    assert room_make() == MadeRoom(2, 2)
    assert room_make() == MadeRoom(0, 0)


def test_the_wait_for_dependencies_is_not_a_wait_for_room(at: Project, owner: User) -> None:
    full(at, owner, "one")
    taker = high(at, owner)
    released = SessionEvent.objects.create(
        session_id=taker,
        root_id=taker,
        project=at,
        attempt=0,
        seq=2,
        type="session.released",
        time=timezone.now() + timedelta(minutes=1),
    )
    assert room_make() == MadeRoom(0, 0)
    SessionEvent.objects.filter(pk=released.pk).update(time=timezone.now())
    assert room_make() == MadeRoom(1, 1)
    Session.objects.filter(pk=taker).update(event_seq=2)


def test_an_executor_that_makes_no_room_costs_little(at: Project, owner: User) -> None:
    def spent() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert room_make() == MadeRoom(0, 0)
        return len(asked)

    full(at, owner, "one")
    spent()  # A process remembers what sessions of this kind ask for.
    few = spent()
    full(at, owner, "two")
    one_more = spent() - few
    full(at, owner, "three")
    assert spent() == few + 2 * one_more
    assert not Session.objects.filter(status="TERMINATING").exists()
