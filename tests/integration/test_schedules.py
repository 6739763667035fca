"""Schedules: at each of its times one chain, as its owner, whatever happens in between."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from sessions_app import wakeups
from sessions_app.core.cadence import FAR
from sessions_app.db import steps
from sessions_app.locks import database_now
from sessions_app.models import (
    AuditEntry,
    Membership,
    Project,
    Schedule,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.models.schedules import Overlap
from sessions_app.services.chains.dependants import dependants_follow
from sessions_app.services.schedules import firing
from sessions_app.services.schedules.firing import Fired, schedules_fire
from sessions_app.services.schedules.saving import TASK as SCHEDULES
from sessions_app.services.schedules.saving import due_of, schedule_resume
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.tasks import fire_schedules
from tests import factories
from tests.agent import Agent
from tests.invariants import check_all

MINUTE = 60
TEMPLATE = {"command": ["backup"], "environ": {"KIND": "full"}, "name": "backup"}


def made(at: Project, owner: User, **fields: Any) -> Schedule:
    """A schedule of every minute, which has just been made."""
    return factories.schedule(at, owner, **({"name": "nightly", "template": TEMPLATE} | fields))


def pass_by(seconds: float = MINUTE + 1) -> None:
    """Let time pass for all schedules."""
    earlier = timedelta(seconds=seconds)
    Schedule.objects.update(
        created_at=F("created_at") - earlier,
        next_at=F("next_at") - earlier,
        due_at=F("due_at") - earlier,
        last_at=F("last_at") - earlier,
    )


def fire() -> Fired:
    return schedules_fire()


def chains() -> list[Session]:
    return list(Session.objects.filter(parent=None).order_by("creation_id"))


def stored(schedule: Schedule) -> Schedule:
    return Schedule.objects.get(pk=schedule.pk)


def test_a_time_becomes_one_chain_of_its_owner(at: Project) -> None:
    ann = factories.user("ann", project=at)
    schedule = made(at, ann)
    first = schedule.next_at
    assert fire() == Fired(0)
    assert chains() == []
    pass_by()
    time = stored(schedule).next_at
    assert time
    assert first
    assert time < first
    assert fire() == Fired(1, {"fired": 1})
    (chain,) = chains()
    written = time.isoformat().replace("+00:00", "Z")
    assert chain.creation_id == f"schedule:{schedule.pk}:{written}"
    assert (chain.owner, chain.name, chain.project) == (ann, "backup", at)
    spec = SessionSpec.objects.get(pk=chain.spec_id)
    assert spec.environ == {"KIND": "full", "REPRISE_SCHEDULED_TIME": written}
    told = SessionEvent.objects.get(session_id=chain.pk).data
    assert told["schedule"] == f"{at.address}/nightly"
    after = stored(schedule)
    assert (after.last_at, after.recent, after.last_problem) == (time, [chain.pk], "")
    assert after.next_at == time + timedelta(seconds=MINUTE)
    assert fire() == Fired(0)
    assert check_all() == []


def test_the_task_fires_all_that_is_due(at: Project, owner: User) -> None:
    for number in range(5):
        made(at, owner, name=f"s{number}")
    pass_by()
    assert fire_schedules.run() == 5
    assert len(chains()) == 5
    assert fire_schedules.run() == 0


def test_whoever_saves_one_asks_for_a_look_at_its_time(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        wakeups, "due_after_commit", lambda task, due, now: asked.extend([task] * len(due))
    )
    made(at, owner)
    assert asked == [SCHEDULES]
    pass_by()
    fire()
    assert asked == [SCHEDULES] * 2


def test_missed_times_are_made_up_as_long_as_wanted(at: Project, owner: User) -> None:
    little = made(at, owner, name="little", catch_up=60)
    much = made(at, owner, name="much", catch_up=240)
    none = made(at, owner, name="none", catch_up=0)
    pass_by(MINUTE * 10 + 1)
    fire()
    found = [len(stored(each).recent) for each in (little, much, none)]
    assert found == [1, 4, 1]
    assert not Schedule.objects.filter(next_at__lte=database_now()).exists()
    assert check_all() == []


def test_many_missed_times_come_in_several_steps(at: Project, owner: User) -> None:
    schedule = made(at, owner, every=1, catch_up=3600)
    pass_by(firing.MOST_TIMES * 2 + 3)
    fired = [fire().fired for _ in range(3)]
    assert fired[:2] == [firing.MOST_TIMES] * 2
    assert fired[2] >= 2
    assert len(stored(schedule).recent) == sum(fired)


def test_an_earlier_chain_holds_up_a_schedule_that_skips(at: Project, owner: User) -> None:
    schedule = made(at, owner, overlap=Overlap.SKIP)
    pass_by()
    fire()
    (first,) = chains()
    pass_by()
    fire()
    assert chains() == [first]
    assert stored(schedule).last_problem == "an earlier chain had not ended"
    factories.settle(factories.start(first), status="terminated")
    pass_by()
    assert fire().fired == 1
    assert stored(schedule).last_problem == ""


def test_a_retry_that_waits_is_a_chain_that_has_not_ended(at: Project, owner: User) -> None:
    waits = {**TEMPLATE, "retry_policy": factories.policy(retry_delay=3600)}
    made(at, owner, overlap=Overlap.SKIP, template=waits)
    pass_by()
    fire()
    factories.settle(chains()[0])
    pass_by()
    assert fire().outcomes["overlapped"] == 1
    chain_cancel(chains()[0].pk, by="ann")
    pass_by()
    assert fire().fired == 1


def test_an_earlier_chain_is_cancelled_by_one_that_wants_it(at: Project, owner: User) -> None:
    made(at, owner, overlap=Overlap.CANCEL_RUNNING)
    pass_by()
    fire()
    (first,) = chains()
    pass_by()
    assert fire().fired == 1
    assert factories.reread(first).status == "CANCELLED"
    assert len(chains()) == 2
    entry = AuditEntry.objects.get(action="session.cancel")
    assert (entry.actor, entry.root) == ("reprise", first.pk)
    assert check_all() == []


def test_the_next_chain_begins_when_the_earlier_one_has_stopped(
    at: Project, owner: User, played: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firing, "KEPT", 2)
    schedule = made(at, owner, overlap=Overlap.CANCEL_RUNNING)
    pass_by()
    fire()
    (first,) = chains()
    assert played.lease() == [first.pk]
    played.start(first.pk)
    # It takes its time to stop: each time has its chain, and none of them begins beside it.
    for number in range(4):
        pass_by()
        assert fire().fired == 1
        newest = max(chains(), key=lambda each: each.pk)
        assert factories.reread(first).status == "TERMINATING"
        assert (newest.status, newest.phase) == ("PENDING", "blocked")
        assert [each.on_root for each in newest.dependencies.all()] == [first.pk]
        assert (played.lease(), len(chains())) == ([], number + 2)
    assert stored(schedule).paused_at is None
    played.fail(first.pk, exit_code=143)
    assert dependants_follow([first.pk]) == 1
    assert played.lease() == [newest.pk]
    cancelled = [each for each in chains() if each.status == "CANCELLED"]
    assert len(cancelled) == 4, "the first one, and those whose time was over before they began"
    pass_by()
    fire()
    assert len(stored(schedule).recent) == 2
    assert check_all() == []


def test_who_may_no_longer_create_there_pauses_it(at: Project) -> None:
    ann = factories.user("ann", project=at)
    schedule = made(at, ann)
    Membership.objects.filter(user=ann).delete()
    pass_by()
    assert fire().outcomes["paused"] == 1
    paused = stored(schedule)
    assert paused.paused_at
    assert paused.paused_reason.startswith(f"ann may not create sessions in {at.address}")
    assert chains() == []
    entry = AuditEntry.objects.filter(object_type="schedule").latest("pk")
    assert (entry.actor, entry.action) == ("reprise", "schedule.change")
    pass_by()
    assert fire() == Fired(0)


@pytest.mark.parametrize("gone", ["inactive", "deleted"])
def test_an_owner_who_is_gone_pauses_it(at: Project, gone: str) -> None:
    ann = factories.user("ann", project=at)
    schedule = made(at, ann)
    if gone == "deleted":
        ann.delete()
    else:
        User.objects.filter(pk=ann.pk).update(is_active=False)
    pass_by()
    fire()
    assert stored(schedule).paused_reason.startswith("its owner is gone or may not sign in")


def test_a_template_or_queue_that_is_no_longer_good_pauses_it_alone(
    at: Project, owner: User
) -> None:
    good = made(at, owner, name="good")
    policy = made(at, owner, name="policy", template={**TEMPLATE, "retry_policies": ["gone"]})
    shape = made(at, owner, name="shape")
    queue = made(at, owner, name="queue", queue=factories.queue(at, "old").name)
    Schedule.objects.filter(pk=shape.pk).update(template={"command": 7})
    at.queues.filter(name="old").delete()
    pass_by()
    assert fire().outcomes["paused"] == 3
    assert not stored(good).paused
    assert "gone" in stored(policy).paused_reason
    assert stored(shape).paused_reason.startswith("template.command")
    assert stored(queue).paused_reason == f"queue: no queue old in project {at.address}"


def test_failed_chains_in_a_row_pause_it(at: Project, owner: User) -> None:
    schedule = made(at, owner, pause_after=2)
    for code in (1, 0, 1, 1):
        pass_by()
        assert fire().fired == 1
        last = Session.objects.get(pk=stored(schedule).recent[0])
        factories.settle(factories.start(last), **({} if code else {"status": "terminated"}))
    pass_by()
    assert fire().fired == 0
    assert stored(schedule).paused_reason == "its last 2 chains failed"
    schedule_resume(stored(schedule), by=factories.user("resumes"))
    pass_by()
    assert fire().fired == 1


def test_a_time_without_room_is_tried_again_and_then_left_out(at: Project, owner: User) -> None:
    factories.quotas(at, pending_sessions=1)
    schedule = made(at, owner)
    pass_by()
    assert fire().fired == 1
    (first,) = chains()
    pass_by()
    refused = fire()
    assert (refused.fired, refused.outcomes["refused"]) == (0, 1)
    waits = stored(schedule)
    assert "pending" in waits.last_problem
    assert waits.due_at
    assert waits.next_at
    assert waits.due_at > waits.next_at
    assert fire() == Fired(0)
    chain_cancel(first.pk, by="ann")
    pass_by(firing.AGAIN.seconds)
    assert fire().fired == 1
    now = stored(schedule)
    assert now.last_at
    assert now.next_at == now.last_at + timedelta(seconds=MINUTE)
    assert check_all() == []


def test_a_time_that_never_finds_room_keeps_that_reason(at: Project, owner: User) -> None:
    factories.quotas(at, pending_sessions=1)
    schedule = made(at, owner, every=3600)
    pass_by(3601)
    assert fire().fired == 1
    pass_by(3601)
    assert fire().outcomes == {"refused": 1}
    reason = stored(schedule).last_problem
    pass_by(120)
    assert fire().outcomes == {"missed": 1}
    assert stored(schedule).last_problem == reason
    pass_by(3600 + 120)
    assert fire().outcomes == {"missed": 1}
    assert stored(schedule).last_problem == "nobody looked at it in time"


def test_a_schedule_set_back_to_an_earlier_state_makes_no_chain_twice(
    at: Project, owner: User
) -> None:
    """As after a restore of this table alone, or of a backup beside which sessions live on."""
    schedule = made(at, owner, catch_up=3600)
    pass_by()
    before = Schedule.objects.filter(pk=schedule.pk).values().get()
    fire()
    Schedule.objects.filter(pk=schedule.pk).update(**before | {"template": {"command": ["new"]}})
    assert fire().claimed == 1
    (chain,) = chains()
    assert stored(schedule).recent == [chain.pk]
    assert check_all() == []


def test_the_end_of_its_times_is_the_end_of_a_schedule(at: Project, owner: User) -> None:
    schedule = made(at, owner, until=database_now() + timedelta(seconds=MINUTE + 1))
    pass_by()
    Schedule.objects.update(until=F("until") - timedelta(seconds=MINUTE + 1))
    assert fire().fired == 1
    assert (stored(schedule).next_at, stored(schedule).due_at) == (None, None)


def test_the_jitter_makes_chains_later_and_leaves_their_times(at: Project, owner: User) -> None:
    schedule = made(at, owner, every=3600, jitter=3000, catch_up=7200)
    now = stored(schedule)
    assert now.due_at
    assert now.next_at
    delay = now.due_at - now.next_at
    assert timedelta() <= delay <= timedelta(seconds=3000)
    pass_by(3600 + delay.seconds - 20)
    if delay.seconds > 20:
        assert fire() == Fired(0)


def test_the_jitter_of_a_time_ends_at_the_next_one(at: Project, owner: User) -> None:
    schedule = made(at, owner, jitter=3600)
    times = schedule.cadence.times(database_now(), FAR, 200)
    dues = [due_of(schedule, each) for each in times]
    assert dues == sorted(dues)
    assert all(due <= after for due, after in zip(dues, times[1:], strict=False))
    assert dues != times


def test_many_schedules_take_as_many_statements_as_few(at: Project, owner: User) -> None:
    others = factories.project()

    def statements(number: int) -> int:
        for each in range(number):
            where = at if each % 2 else others
            overlap = (Overlap.ALLOW, Overlap.SKIP)[each % 2]
            made(where, owner, name=f"s{number}-{each}", overlap=overlap, pause_after=3)
        pass_by()
        fire()
        pass_by()
        with CaptureQueriesContext(connection) as captured:
            fire()
        Schedule.objects.all().delete()
        return len(captured)

    assert statements(3) == statements(30)


def test_the_due_ones_are_found_by_an_index(at: Project, owner: User) -> None:
    made(at, owner)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM sessions_app_schedule WHERE paused_at IS NULL "
            "AND due_at <= now() ORDER BY due_at, id LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED"
        )
        assert "schedule_due" in str(cursor.fetchall())


def test_firing_writes_no_audit_entry(at: Project, owner: User) -> None:
    made(at, owner)
    before = AuditEntry.objects.count()
    pass_by()
    fire()
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize("edge", ["before", "after"])
def test_a_process_that_dies_at_the_commit_loses_and_doubles_nothing(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch, edge: str
) -> None:
    schedule = made(at, owner)
    pass_by()
    time = stored(schedule).next_at

    def dies(name: str) -> None:
        if name == f"schedule.{edge}_commit":
            raise SystemExit(name)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "failpoint", dies)
        with pytest.raises(SystemExit):
            fire()
    assert len(chains()) == (0 if edge == "before" else 1)
    fire()
    assert len(chains()) == 1
    assert stored(schedule).last_at == time
    assert check_all() == []


def test_the_judge_sees_a_time_that_fired_twice(at: Project, owner: User) -> None:
    made(at, owner)
    pass_by()
    fire()
    (chain,) = chains()
    twice = factories.submit(factories.project())
    other = chain.creation_id.replace("Z", "+00:00")
    Session.objects.filter(pk=twice.pk).update(creation_id=other)
    assert ["fired at" in each for each in check_all()] == [True]


def test_a_time_that_is_left_out_cancels_nothing(at: Project, owner: User) -> None:
    made(at, owner, every=3600, overlap=Overlap.CANCEL_RUNNING)
    pass_by(3601)
    fire()
    (first,) = chains()
    pass_by(3600 + 120)
    assert fire().outcomes == {"missed": 1}
    assert factories.reread(first).status == "PENDING"
