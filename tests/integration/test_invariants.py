"""Each invariant is broken by hand once, and its checker says so."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from scheduler.models import Lease, Preemption
from sessions_app.models import (
    Dependency,
    ProjectUsage,
    RetryDecision,
    RetryTrace,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.priority import session_set_priority
from tests import invariants
from tests.agent import agent, failed, running
from tests.factories import executor, policy, project, quotas, submit
from tests.invariants import CHECKS, check_all


@pytest.fixture
def sound() -> dict[str, Session]:
    """Sound records: `parent` failed and was retried as `child`, which runs; `waiting` waits."""
    at = project()
    quotas(at, sessions=5, pending_sessions=5)
    parent = submit(at, retry_policy=policy())
    played = agent()
    failed(played, parent)
    retries_dispatch()
    child = running(played, Session.objects.get(parent=parent))
    waiting = submit(at, retry_policy=policy(retry_delay=3600))
    failed(played, waiting)
    assert check_all() == []
    return {"parent": parent, "child": child, "waiting": waiting}


def events(session: Session) -> Any:
    return SessionEvent.objects.filter(session_id=session.pk)


def sessions(session: Session) -> Any:
    return Session.objects.filter(pk=session.pk)


def decisions(session: Session) -> Any:
    return RetryDecision.objects.filter(session=session)


def without_trigger(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"DROP TRIGGER {name} ON sessions_app_session")


def without_constraint(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        (is_index,) = cursor.fetchone()
        statement = (
            f"DROP INDEX {name}"
            if is_index and name == "session_one_unfinished"
            else f"ALTER TABLE sessions_app_session DROP CONSTRAINT {name}"
        )
        cursor.execute(statement)


def lose_a_fact(records: dict[str, Session]) -> None:
    sessions(records["child"]).update(node="elsewhere")


def change_a_decision(records: dict[str, Session]) -> None:
    decisions(records["waiting"]).update(delay=1)


def forget_a_fact(records: dict[str, Session]) -> None:
    event = events(records["parent"]).get(type="session.error")
    del event.data["exit_code"]
    event.save()


def drop_an_event(records: dict[str, Session]) -> None:
    events(records["child"]).filter(type="session.running").delete()


def skip_a_number(records: dict[str, Session]) -> None:
    sessions(records["child"]).update(event_seq=9)


def go_back(records: dict[str, Session]) -> None:
    event = events(records["child"]).get(type="session.preparing")
    event.data["status"] = "TERMINATING"
    event.save()


def lose_a_decision(records: dict[str, Session]) -> None:
    decisions(records["waiting"]).delete()


def lose_a_trace(records: dict[str, Session]) -> None:
    RetryTrace.objects.filter(decision=records["waiting"].pk).delete()


def empty_a_trace(records: dict[str, Session]) -> None:
    RetryTrace.objects.filter(decision=records["waiting"].pk).update(steps=[])


def leave_a_trace(_records: dict[str, Session]) -> None:
    RetryTrace.objects.create(decision_id=uuid4(), steps=[{"step": "cause"}])


def decide_a_success(records: dict[str, Session]) -> None:
    sessions(records["waiting"]).update(status="TERMINATED")


def show_another_state(records: dict[str, Session]) -> None:
    sessions(records["waiting"]).update(retry_state="exhausted")


def lose_a_child(records: dict[str, Session]) -> None:
    Lease.objects.filter(session=records["child"]).delete()
    sessions(records["child"]).delete()


def name_another_child(records: dict[str, Session]) -> None:
    decisions(records["parent"]).update(next_session_id=records["waiting"].pk)


def skip_an_attempt(records: dict[str, Session]) -> None:
    sessions(records["child"]).update(retry_count=2, retry_counters={"inline/failure": 2})


def keep_the_tip(records: dict[str, Session]) -> None:
    sessions(records["parent"]).update(tip=True)


def two_unfinished(records: dict[str, Session]) -> None:
    without_constraint("session_one_unfinished")
    sessions(records["parent"]).update(status="PENDING", phase="waiting", finished_at=None)


def wait_beside_a_run(records: dict[str, Session]) -> None:
    decisions(records["parent"]).update(state="scheduled", next_session_id=None)


def cancel_in_part(records: dict[str, Session]) -> None:
    sessions(records["waiting"]).update(cancel_requested_at=records["waiting"].finished_at)


def begin_after_the_cancel(records: dict[str, Session]) -> None:
    sessions(records["parent"]).update(cancel_requested_at=records["parent"].finished_at)
    sessions(records["child"]).update(created_at=timezone.now())


def count_twice(records: dict[str, Session]) -> None:
    without_trigger("session_counters")
    sessions(records["child"]).update(retry_counters={"inline/failure": 1, "manual": 1})


def pay_nothing(records: dict[str, Session]) -> None:
    without_trigger("session_counters")
    sessions(records["child"]).update(retry_counters={})


def grant_in_vain(records: dict[str, Session]) -> None:
    decisions(records["parent"]).update(resources={"memory": "4Gi"})


def give_what_was_not_granted(records: dict[str, Session]) -> None:
    sessions(records["child"]).update(spec=records["waiting"].spec)


def lose_a_lease(records: dict[str, Session]) -> None:
    Lease.objects.filter(session=records["child"]).delete()


def lease_to_another(records: dict[str, Session]) -> None:
    Lease.objects.filter(session=records["child"]).update(executor=executor())


def unaccept(records: dict[str, Session]) -> None:
    Lease.objects.filter(session=records["child"]).update(accepted=False)


def keep_a_token(records: dict[str, Session]) -> None:
    waiting = submit(records["child"].project)
    sessions(waiting).update(fencing_token=7)


def report_under_another_lease(records: dict[str, Session]) -> None:
    event = events(records["child"]).get(type="session.running")
    event.data["fencing_token"] += 1
    event.save()


def give_a_token_twice(records: dict[str, Session]) -> None:
    scheduled = events(records["parent"]).exclude(data__fencing_token=None)
    token = events(records["child"]).get(type="session.scheduled").data["fencing_token"]
    for event in scheduled:
        event.data["fencing_token"] = token
        event.save()


def lease_what_is_leased(records: dict[str, Session]) -> None:
    event = events(records["child"]).get(type="session.preparing")
    event.type, event.data["fencing_token"] = "session.scheduled", 2**40
    event.save()
    events(records["child"]).get(type="session.running").delete()


def begin_before_the_end(records: dict[str, Session]) -> None:
    sessions(records["child"]).update(created_at=records["parent"].created_at)


def change_a_priority_untold(records: dict[str, Session]) -> None:
    waiting = submit(records["child"].project)
    session_set_priority(waiting.pk, 5, by="ann")
    sessions(waiting).update(stored_priority=6)


def count_one_more(records: dict[str, Session]) -> None:
    ProjectUsage.objects.filter(name="sessions").update(used=2)


def count_nothing_that_waits(records: dict[str, Session]) -> None:
    submit(records["child"].project)
    ProjectUsage.objects.filter(name="pending_sessions").update(used=0)


def write_in_the_future(records: dict[str, Session]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sessions_app_sessionevent SET xid = (xid::text::bigint + 1000000)::text::xid8 "
            "WHERE session_id = %s AND seq = 1",
            [records["child"].pk],
        )


def lose_a_row(records: dict[str, Session]) -> None:
    decisions(records["waiting"]).delete()
    sessions(records["waiting"])._raw_delete("default")


def keep_a_row(records: dict[str, Session]) -> None:
    events(records["child"]).filter(type="session.running").update(type="session.archived")


def lose_a_specification(records: dict[str, Session]) -> None:
    SessionSpec.objects.filter(pk=records["waiting"].spec_id)._raw_delete("default")


def fire_twice(records: dict[str, Session]) -> None:
    time = "2030-01-31T12:00:00"
    for name, zone in (("parent", "Z"), ("waiting", "+00:00")):
        creation_id = f"schedule:{records['child'].pk}:{time}{zone}"
        sessions(records[name]).update(creation_id=creation_id)


def test_the_database_refuses_counters_that_do_not_add_up(sound: dict[str, Session]) -> None:
    child = sessions(sound["child"])
    # Several counters are added up, one is compared.
    child.update(retry_counters={"inline/failure": 0, "manual": 1})
    for wrong in ({"inline/failure": 2}, {"inline/failure": 1, "manual": 1}, {"manual": "2"}, {}):
        with pytest.raises(IntegrityError, match="do not add up"), transaction.atomic():
            child.update(retry_counters=wrong)
    copied = sound["parent"]
    copied.pk = copied.root_id = uuid4()
    copied.creation_id, copied.retry_counters = "copied", {"manual": 1}
    with pytest.raises(IntegrityError, match="do not add up"), transaction.atomic():
        copied.save(force_insert=True)


def depend(session: Session, **values: Any) -> None:
    Dependency.objects.create(root=session, on_root=uuid4(), place=0, creation_id="x", **values)


def run_too_early(records: dict[str, Session]) -> None:
    depend(records["parent"])


def run_before_the_end(records: dict[str, Session]) -> None:
    seen = {"outcome": "succeeded", "met": True, "tip_id": records["child"].pk}
    depend(records["parent"], **seen)


def wait_for_nothing(records: dict[str, Session]) -> None:
    waiting = submit(records["child"].project)
    Session.objects.filter(pk=waiting.pk).update(phase="blocked")


def stop_for_nobody(records: dict[str, Session]) -> None:
    sessions(records["child"]).update(gave_way_to=uuid4(), preempt_requested_at=timezone.now())


def make_room_and_go_on(records: dict[str, Session]) -> None:
    """A plan that was recorded, but not carried out."""
    child, now = records["child"], timezone.now()
    Preemption.objects.create(
        executor=Lease.objects.get(session=child).executor,
        planned_at=now,
        until=now,
        rule="priority",
        dry_run=False,
        nodes=["n1"],
        taker_id=uuid4(),
        taker_project=child.project,
        taker_rank=10,
        victim_id=child.pk,
        victim_project=child.project,
        victim_rank=0,
    )


def hold_for_no_breaker(records: dict[str, Session]) -> None:
    held = {"state": "held", "held_for": "breaker", "held_key": "cluster/ghost"}
    decisions(records["waiting"]).update(**held)


BREAKAGES: dict[Callable[[dict[str, Session]], None], Callable[..., Any]] = {
    lose_a_fact: invariants.log_folds_to_row,
    change_a_decision: invariants.log_folds_to_row,
    forget_a_fact: invariants.log_folds_to_row,
    change_a_priority_untold: invariants.priorities_are_told,
    drop_an_event: invariants.seq_is_gapless,
    skip_a_number: invariants.seq_is_gapless,
    go_back: invariants.steps_are_allowed,
    lose_a_decision: invariants.failures_are_decided,
    decide_a_success: invariants.failures_are_decided,
    lose_a_trace: invariants.decisions_have_their_trace,
    empty_a_trace: invariants.decisions_have_their_trace,
    leave_a_trace: invariants.decisions_have_their_trace,
    show_another_state: invariants.decision_is_shown,
    lose_a_child: invariants.dispatched_has_one_child,
    name_another_child: invariants.dispatched_has_one_child,
    skip_an_attempt: invariants.chains_are_in_order,
    keep_the_tip: invariants.chains_are_in_order,
    two_unfinished: invariants.one_unfinished_a_chain,
    wait_beside_a_run: invariants.one_unfinished_a_chain,
    cancel_in_part: invariants.cancelled_chains_end,
    begin_after_the_cancel: invariants.cancelled_chains_end,
    count_twice: invariants.counters_add_up,
    pay_nothing: invariants.counters_add_up,
    grant_in_vain: invariants.resources_are_granted,
    give_what_was_not_granted: invariants.resources_are_granted,
    lose_a_lease: invariants.leases_fit,
    lease_to_another: invariants.leases_fit,
    unaccept: invariants.leases_fit,
    keep_a_token: invariants.leases_fit,
    report_under_another_lease: invariants.leases_follow_each_other,
    give_a_token_twice: invariants.leases_follow_each_other,
    lease_what_is_leased: invariants.leases_follow_each_other,
    begin_before_the_end: invariants.attempts_follow_each_other,
    count_one_more: invariants.usage_is_counted,
    count_nothing_that_waits: invariants.usage_is_counted,
    lose_a_row: invariants.archived_chains_are_whole,
    keep_a_row: invariants.archived_chains_are_whole,
    lose_a_specification: invariants.specifications_are_used,
    fire_twice: invariants.no_schedule_fires_twice,
    run_too_early: invariants.dependants_wait,
    run_before_the_end: invariants.dependants_wait,
    wait_for_nothing: invariants.dependants_wait,
    hold_for_no_breaker: invariants.breakers_know_what_they_hold,
    stop_for_nobody: invariants.room_is_made_for_somebody,
    make_room_and_go_on: invariants.room_is_made_for_somebody,
    write_in_the_future: invariants.streams_tell_all,
}


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.__name__)
def test_a_broken_invariant_is_reported(
    sound: dict[str, Session], breakage: Callable[[dict[str, Session]], None]
) -> None:
    breakage(sound)
    reported = {line.partition(":")[0] for line in check_all()}
    assert BREAKAGES[breakage].__name__ in reported


def test_every_checker_is_broken_once() -> None:
    assert set(BREAKAGES.values()) == set(CHECKS)


def test_an_orphaned_lease_is_no_violation(sound: dict[str, Session]) -> None:
    waiting = submit(sound["child"].project)
    agent().lease()
    chain_cancel(waiting.pk, by="ann")
    assert Lease.objects.filter(session=waiting).exists()
    assert check_all() == []
