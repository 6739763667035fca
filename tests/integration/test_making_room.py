"""Running sessions make room for others: by priority, by fair share, whole plans or none."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.models import Executor, Lease, Preemption, QueueBelow, Reservation
from scheduler.services.expire import leases_expire
from scheduler.services.preemptions import MadeRoom, room_make
from sessions_app.instruments import registry
from sessions_app.models import PriorityClass, Project, Queue, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Agent, Api, admin, agent
from tests.factories import decision, reread, submit
from tests.invariants import check_all

STOPPED: dict[str, Any] = {"exit_code": 143, "reason": "Preempted"}
NOTHING = MadeRoom(0, 0)
pytestmark = pytest.mark.usefixtures("preempting", "all_invariants_hold")


@pytest.fixture
def played() -> Agent:
    return agent("one", nodes=[{"name": n, "allocatable": {"cpu": "4"}} for n in "ab"])


def a_class(name: str, value: int, at: Project, **fields: Any) -> PriorityClass:
    values = {"projects": [at.address], **fields}
    made: PriorityClass = PriorityClass.objects.create(name=name, value=value, **values)
    return made


@pytest.fixture
def full(at: Project, played: Agent) -> list[Session]:
    """Two nodes of four, each with two sessions of two."""
    a_class("high", 10, at, may_preempt=True)
    made = [submit(at, name=f"low-{n}", resources={"cpu": "2"}) for n in range(4)]
    assert len(played.lease()) == 4
    played.start(*[each.pk for each in made])
    return [reread(each) for each in made]


def counted(rule: str, mode: str) -> float:
    """Return the metric of this process."""
    labels = {"rule": rule, "mode": mode}
    return registry.get_sample_value("reprise_preemptions_total", labels) or 0.0


def stopping() -> set[UUID]:
    rows = Session.objects.filter(status="TERMINATING", gave_way_to__isnull=False)
    return set(rows.values_list("pk", flat=True))


def test_lower_classes_make_room_and_come_back(
    at: Project, played: Agent, full: list[Session]
) -> None:
    high = submit(at, priority_class="high", resources={"cpu": "4"})
    assert played.lease() == []
    assert room_make() == MadeRoom(1, 2)
    victims = [reread(each) for each in full if each.pk in stopping()]
    assert len({each.node or (each.lease.nodes or [""])[0] for each in victims}) == 1
    assert {each.status_message for each in victims} == {
        f"preempted by scheduler: made room for session {high.pk}, by priority"
    }
    assert list(Reservation.objects.values_list("session_id", flat=True)) == [high.pk]
    assert room_make() == NOTHING  # room is being made already
    thief = submit(at, resources={"cpu": "2"})
    played.fail(victims[0].pk, **STOPPED)
    assert played.lease() == []  # half of the room is there, and it is kept
    played.fail(victims[1].pk, **STOPPED)
    assert played.lease() == [high.pk]
    assert reread(thief).status == "PENDING"
    for each in victims:
        decided = decision(each)
        assert (decided.reason, decided.paid_by) == ("gave_way", "scheduler/preemption")
    retries_dispatch()
    children = Session.objects.filter(parent__in=victims)
    assert [each.retry_counters for each in children] == [{"scheduler/preemption": 1}] * 2
    assert {each.status for each in children} == {"PENDING"}
    assert not Session.objects.filter(parent__in=victims, gave_way_to__isnull=False).exists()


def test_room_that_nobody_has_reserved_is_a_violation(
    at: Project, played: Agent, full: list[Session]
) -> None:
    high = submit(at, priority_class="high", resources={"cpu": "2"})
    assert room_make() == MadeRoom(1, 1)
    (kept,) = Reservation.objects.all()
    told = f"{stopping().pop()} made room for {high.pk}, which has none reserved"
    for _ in range(2):
        kept.delete()
        (found,) = check_all()
        assert found.endswith(told)
        kept.save(force_insert=True)
        played.lease()


def test_who_made_room_comes_back_while_storm_limits_hold_others(
    at: Project, played: Agent, full: list[Session], settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "retry_rate_limit": 0}
    submit(at, priority_class="high", resources={"cpu": "2"})
    room_make()
    (victim,) = stopping()
    played.fail(victim, **STOPPED)
    assert retries_dispatch().dispatched == 1


def test_a_dry_run_only_records(at: Project, played: Agent, full: list[Session]) -> None:
    Executor.objects.update(preemption="dry_run")
    before = counted("priority", "dry_run")
    high = submit(at, priority_class="high", resources={"cpu": "4"})
    assert room_make() == MadeRoom(1, 2)
    assert (stopping(), Reservation.objects.count()) == (set(), 0)
    assert counted("priority", "dry_run") == before + 2
    rows = Preemption.objects.values_list("taker_id", "dry_run", "rule")
    assert list(rows) == [(high.pk, True, "priority")] * 2
    assert room_make() == NOTHING


@pytest.mark.parametrize(("cluster", "own"), [("off", ""), ("on", "off"), ("dry_run", "off")])
def test_nothing_happens_where_it_is_off(
    at: Project, played: Agent, full: list[Session], settings: Any, cluster: str, own: str
) -> None:
    settings.REPRISE_PREEMPTION = cluster
    Executor.objects.update(preemption=own)
    submit(at, priority_class="high", resources={"cpu": "4"})
    with CaptureQueriesContext(connection) as captured:
        assert room_make() == NOTHING
    assert len(captured) <= 2


def test_who_has_not_waited_may_not_preempt_or_needs_nothing_takes_nothing(
    at: Project, played: Agent, full: list[Session], settings: Any
) -> None:
    a_class("meek", 20, at)
    submit(at, priority_class="meek", resources={"cpu": "2"})
    submit(at, priority_class="high", resources={"cpu": "9"})  # fits no empty node
    assert room_make() == NOTHING
    submit(at, priority_class="high", resources={"cpu": "2"})
    settings.REPRISE = {**settings.REPRISE, "preempt_after": 30.0}
    assert room_make() == NOTHING


def test_protected_sessions_and_others_than_batch_sessions_stay(at: Project, played: Agent) -> None:
    a_class("high", 10, at, may_preempt=True)
    a_class("firm", 5, at, preemptible=False)
    a_class("young", 4, at, protected_for=3600.0)
    made = [
        submit(at, resources={"cpu": "2"}, priority_class="firm"),
        submit(at, resources={"cpu": "2"}, priority_class="young"),
        submit(at, resources={"cpu": "2"}, session_type="interactive"),
    ]
    played.lease()
    played.start(*[each.pk for each in made])
    other = submit(at, resources={"cpu": "2"})
    played.lease()
    played.start(other.pk)
    submit(at, priority_class="high", resources={"cpu": "2"})
    assert room_make() == MadeRoom(1, 1)
    assert stopping() == {other.pk}
    submit(at, priority_class="high", resources={"cpu": "4"})
    assert room_make() == NOTHING


def test_one_plan_a_minute_always_and_no_more_than_the_rate(
    at: Project, played: Agent, full: list[Session], settings: Any
) -> None:
    submit(at, priority_class="high", resources={"cpu": "2"})
    submit(at, priority_class="high", resources={"cpu": "1"})
    assert room_make() == MadeRoom(1, 1)
    assert room_make() == NOTHING
    settings.REPRISE = {**settings.REPRISE, "preempt_rate": 0.5}
    assert room_make() == MadeRoom(1, 1)


def test_room_is_kept_for_two_minutes_only(at: Project, played: Agent, full: list[Session]) -> None:
    submit(at, priority_class="high", resources={"cpu": "4"})
    room_make()
    now = timezone.now()
    Preemption.objects.update(until=now, planned_at=now - timedelta(minutes=2))
    room_make()
    assert not Reservation.objects.exists()


def later(seconds: float) -> None:
    """As if so much time had gone by since the plans."""
    past = timedelta(seconds=seconds)
    Preemption.objects.update(until=F("until") - past, planned_at=F("planned_at") - past)
    Reservation.objects.update(since=F("since") - past)


def with_grace(at: Project, played: Agent, seconds: float) -> Session:
    """Sessions that may take so long to stop run on both nodes; another one has room made."""
    a_class("high", 10, at, may_preempt=True)
    made = [
        submit(at, resources={"cpu": "2"}, termination_grace_period=grace)
        for grace in (seconds, 1, seconds, 1)
    ]
    assert len(played.lease()) == 4
    played.start(*[each.pk for each in made])
    high = submit(at, priority_class="high", resources={"cpu": "4"})
    assert room_make() == MadeRoom(1, 2)
    return high


def test_room_is_kept_until_the_slowest_has_stopped(at: Project, played: Agent) -> None:
    high = with_grace(at, played, 300)
    later(415)
    assert room_make() == NOTHING
    assert played.lease() == []
    assert list(Reservation.objects.values_list("session_id", flat=True)) == [high.pk]
    played.fail(*stopping(), **STOPPED)
    assert played.lease() == [high.pk]


def test_room_is_kept_for_two_minutes_after_the_slowest_must_have_stopped(
    at: Project, played: Agent
) -> None:
    with_grace(at, played, 300)
    later(421)
    room_make()
    assert not Reservation.objects.exists()


def test_no_second_plan_is_made_during_a_grace_of_hours(at: Project, played: Agent) -> None:
    high = with_grace(at, played, 7200)
    later(7000)
    assert room_make() == NOTHING
    assert list(Reservation.objects.values_list("session_id", flat=True)) == [high.pk]


def test_room_is_kept_while_a_limit_holds_the_session_back(
    at: Project, played: Agent, full: list[Session]
) -> None:
    queue = factories.queue(at, "few", resource_limits={"cpu": 4})
    high = submit(at, priority_class="high", queue="few", resources={"cpu": "4"})
    assert room_make() == MadeRoom(1, 2)
    Queue.objects.filter(pk=queue.pk).update(resource_limits={"cpu": 3})
    submit(at, resources={"cpu": "2"})
    played.fail(*stopping(), **STOPPED)
    assert played.lease() == []
    Queue.objects.filter(pk=queue.pk).update(resource_limits={"cpu": 4})
    assert played.lease() == [high.pk]


@pytest.mark.parametrize("how", ["expired", "by the executor"])
def test_room_is_kept_again_for_a_lease_that_came_back(
    at: Project, played: Agent, full: list[Session], how: str
) -> None:
    high = submit(at, priority_class="high", resources={"cpu": "4"})
    room_make()
    played.fail(*stopping(), **STOPPED)
    assert played.lease() == [high.pk]
    assert not Reservation.objects.exists()
    if how == "expired":
        Lease.objects.filter(session=high).update(granted_at=timezone.now() - timedelta(days=1))
        assert leases_expire().returned == 1
    else:
        assert played.give_back(high.pk) == ["applied"]
    assert list(Reservation.objects.values_list("session_id", flat=True)) == [high.pk]
    assert played.lease() == [high.pk]
    assert not Reservation.objects.exists()


def test_a_plan_is_dropped_whole_if_a_victim_is_being_cancelled(
    at: Project, played: Agent, full: list[Session]
) -> None:
    for each in full[1:]:
        chain_cancel(each.pk, by="eve")
    submit(at, priority_class="high", resources={"cpu": "4"})
    assert room_make() == NOTHING
    assert stopping() == set()


def test_another_project_is_told_the_class_only(at: Project, played: Agent) -> None:
    other = factories.project("other", domain="else")
    a_class("high", 10, at, may_preempt=True)
    victims = [submit(other, resources={"cpu": "4"}) for _ in range(2)]
    played.lease()
    played.start(*[each.pk for each in victims])
    submit(at, priority_class="high", resources={"cpu": "4"})
    assert room_make() == MadeRoom(1, 1)
    (found,) = Session.objects.filter(pk__in=stopping())
    message = "made room for a session of class high in another project, by priority"
    assert found.status_message == f"preempted by scheduler: {message}"


def test_each_side_is_told_to_those_who_may_see_it(at: Project, played: Agent) -> None:
    other = factories.project("other", domain="else")
    a_class("high", 10, at, may_preempt=True)
    (victim,) = [submit(other, resources={"cpu": "4"}) for _ in range(1)]
    filler = submit(at, priority_class="high", resources={"cpu": "4"})
    played.lease()
    played.start(victim.pk, filler.pk)
    taker = submit(at, priority_class="high", resources={"cpu": "4"})
    assert room_make() == MadeRoom(1, 1)
    seen = {
        "root": (str(victim.pk), str(taker.pk)),
        "mia": (None, str(taker.pk)),
        "vic": (str(victim.pk), None),
    }
    apis = {
        "root": admin(),
        "mia": Api(factories.token(factories.user("mia", project=at))),
        "vic": Api(factories.token(factories.user("vic", project=other))),
    }
    for who, api in apis.items():
        (row,) = api.read("preemptions/")["results"]
        assert (row["victim"], row["taker"]) == seen[who]
        assert (row["victim_class"], row["taker_class"]) == ("default", "high")
        for side in (victim, taker):
            known = str(side.pk) in seen[who]
            assert len(api.read(f"preemptions/?session={side.pk}")["results"]) == known
    nobody = Api(factories.token(factories.user("nobody")))
    assert nobody.read("preemptions/")["results"] == []


def test_the_list_takes_as_many_statements_for_many(at: Project, played: Agent) -> None:
    now, api = timezone.now(), admin()

    def grow(count: int) -> int:
        Preemption.objects.bulk_create(
            Preemption(
                executor=played.executor,
                executor_name=played.executor.name,
                planned_at=now,
                until=now,
                rule="priority",
                dry_run=True,
                nodes=[],
                taker_id=uuid4(),
                taker_project=at,
                taker_rank=1,
                victim_id=uuid4(),
                victim_project=at,
                victim_rank=0,
            )
            for _ in range(count)
        )
        with CaptureQueriesContext(connection) as captured:
            api.read("preemptions/")
        return len(captured)

    grow(1)
    assert grow(1) == grow(20)


def test_the_examples_of_the_documentation_work(at: Project, played: Agent) -> None:
    text = (Path(__file__).parents[2] / "docs" / "preemption.md").read_text()
    called = re.findall(
        r"curl (?:-X (\w+) )?-H \"\$AUTH\"(?: -H \"\$JSON\")?(?: -d '([^']+)')? \"?\$API/(\S+?)\"?"
        r"(?: \\\n\s+-d '([^']+)')?$",
        text,
        re.MULTILINE,
    )
    assert len(called) == text.count("curl ")
    api = admin()
    for method, before, path, after in called:
        waits = Session.objects.values_list("pk", flat=True).first()
        address = path.replace("rack-1", "one").replace("$ID", str(waits))
        body = json.loads(before or after or "null")
        wanted = method or ("POST" if body else "GET")
        response = api.call(wanted, address, body)
        assert response.status_code in {200, 201}, (path, response.content)
    session = Session.objects.get()
    assert (session.rank, session.priority) == (100, 5)
    assert Executor.objects.get().preemption == "dry_run"


def test_queues_above_their_share_give_back_what_is_above(
    at: Project, played: Agent, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "preempt_rate": 1.0}
    poor = factories.queue(at, "poor")
    made = [submit(at, resources={"cpu": "2"}) for _ in range(4)]
    played.lease()
    played.start(*[each.pk for each in made])
    for _ in range(4):
        submit(at, queue="poor", resources={"cpu": "2"})
    queue_usage_refresh()
    assert room_make() == NOTHING  # not below for long enough yet
    assert list(QueueBelow.objects.values_list("queue_id", flat=True)) == [poor.pk]
    QueueBelow.objects.update(since=timezone.now() - timedelta(seconds=121))
    before = counted("fair_share", "on")
    assert room_make() == MadeRoom(2, 2)
    assert counted("fair_share", "on") == before + 2
    victim = stopping().pop()
    played.fail(victim, **STOPPED)
    assert len(played.lease()) == 1
    assert set(Preemption.objects.values_list("rule", flat=True)) == {"fair_share"}
