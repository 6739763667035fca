"""Storm limits: a retry over them is postponed to a slot of its own, once, and never dropped."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.engine.decide import Mode
from retry.evidence.termination import Termination
from retry.storm_limits import StormLimits
from sessions_app import wakeups
from sessions_app.db.writes import atomic_writes
from sessions_app.locks import database_now, lock_sessions
from sessions_app.models import (
    Project,
    Queue,
    RetryDecision,
    RetrySettings,
    RetrySlots,
    Session,
    SessionEvent,
)
from sessions_app.services.chains.dispatch import DispatchResult, retries_dispatch
from sessions_app.services.chains.manual_retry import (
    Granted,
    session_retry,
    sessions_retry,
    sessions_retry_paced,
)
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.chains.storm_slots import slots_reserve
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.sessions.cancel import chains_cancel
from sessions_app.services.write.transitions import Change, Event, fact, sessions_change
from tests.factories import policy, queue, settle, submit, tip
from tests.invariants import check_all
from tests.racing import race

MINUTE = timedelta(minutes=1)
STORM_LIMITS = StormLimits(cluster=3, queue=2)


def limits(cluster: int | None = None, queue: int | None = None) -> None:
    RetrySettings.objects.update_or_create(
        domain=None,
        project=None,
        defaults={"retries_per_minute": cluster, "queue_retries_per_minute": queue},
    )


def switch(mode: Mode) -> None:
    RetrySettings.objects.update_or_create(domain=None, project=None, defaults={"mode": mode})


def due(at: Project, owner: User, count: int, **fields: Any) -> list[Session]:
    """Failed sessions whose retries are due, in this order."""
    fields = {"retry_policy": policy()} | fields
    sessions = [submit(at, owner=owner, **fields) for _ in range(count)]
    sessions_settle({session.pk: End(Termination(exit_code=1)) for session in sessions})
    return sessions


def due_again(*sessions: Session) -> None:
    """As if the time of their slots had come."""
    with atomic_writes() as writes:
        locked = lock_sessions([session.pk for session in sessions])
        now = database_now()
        RetryDecision.objects.filter(session__in=sessions).update(due_at=now)
        event = Event("session.retry_scheduled", {"decision": {"due_at": fact(now)}})
        sessions_change(writes, [Change(session, {}, [event]) for session in locked], now=now)


def slots(sessions: Sequence[Session]) -> list[datetime]:
    """Return the times at which the retries of these sessions come due, in their order."""
    found = dict(RetryDecision.objects.values_list("session", "due_at"))
    return [due_at for session in sessions if (due_at := found[session.pk])]


def minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def minutes_after(moment: datetime, times: Sequence[datetime]) -> list[int]:
    return [(minute_of(time) - minute_of(moment)) // MINUTE for time in times]


def waiting(sessions: Sequence[Session]) -> list[Session]:
    """Those whose retry waits, in the order in which it comes due."""
    wanted = Session.objects.filter(pk__in=[session.pk for session in sessions])
    return list(wanted.filter(retry_state="scheduled").order_by("decision__due_at"))


@pytest.mark.django_db
def test_without_limits_all_go_and_no_slot_is_counted(at: Project, owner: User) -> None:
    due(at, owner, 5)
    assert retries_dispatch() == DispatchResult(5, 5, 0)
    assert not RetrySlots.objects.exists()


@pytest.mark.django_db
def test_retries_over_the_limit_get_the_next_free_slots(at: Project, owner: User) -> None:
    limits(cluster=4)
    sessions = due(at, owner, 10)
    assert retries_dispatch() == DispatchResult(10, 4, 0, 6)
    now = database_now()
    times = slots(waiting(sessions))
    assert minutes_after(now, times) in ([1, 1, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1])
    assert [time.second for time in times] == [0, 15, 30, 45, 0, 15]
    assert sorted(RetrySlots.objects.values_list("taken", flat=True)) == [2, 4, 4]
    assert check_all() == []


@pytest.mark.django_db
def test_the_postponement_is_told_once_and_the_slot_is_kept(at: Project, owner: User) -> None:
    limits(cluster=1)
    sessions = due(at, owner, 3)
    retries_dispatch()
    late = waiting(sessions)
    due_again(*late)
    # Their slots count, whatever is set by now.
    assert retries_dispatch() == DispatchResult(2, 2, 0)
    for session in late:
        events = SessionEvent.objects.filter(session_id=session.pk, type="session.retry_postponed")
        (event,) = events
        assert event.data["due_at"] == event.data["decision"]["due_at"]
        assert "limit" in event.data["reason"]
    assert sum(RetrySlots.objects.values_list("taken", flat=True)) == 3
    assert check_all() == []


@pytest.mark.django_db
def test_nobody_reads_a_postponed_retry_again(at: Project, owner: User) -> None:
    limits(cluster=1)
    due(at, owner, 5)
    assert retries_dispatch(3) == DispatchResult(3, 1, 0, 2)
    assert retries_dispatch(3) == DispatchResult(2, 0, 0, 2)
    assert retries_dispatch(3) == DispatchResult(0, 0, 0)


@pytest.mark.django_db
def test_each_queue_has_its_own_minutes(at: Project, owner: User) -> None:
    limits(cluster=6, queue=2)
    queue(at, "busy")
    many = due(at, owner, 10, queue="busy")
    retries_dispatch()
    few = due(at, owner, 2)
    result = retries_dispatch()
    # The backlog of the other queue fills two of six slots of each minute.
    assert (result.dispatched, result.postponed) == (2, 0)
    assert len(waiting(many)) == 8
    assert [tip(session).retry_count for session in few] == [1, 1]
    per_minute = Counter(minutes_after(database_now(), slots(waiting(many))))
    assert set(per_minute.values()) == {2}
    assert check_all() == []


@pytest.mark.django_db
def test_a_gap_is_filled_by_who_can_use_it(at: Project, owner: User) -> None:
    limits(cluster=3, queue=2)
    now = database_now()
    other = Queue.objects.get(pk=queue(at).pk)
    here = Queue.objects.get(project=at, is_default=True)
    first = slots_reserve([here.pk] * 5, STORM_LIMITS, now=now)
    second = slots_reserve([other.pk] * 3, STORM_LIMITS, now=now)
    assert minutes_after(now, first) == [0, 0, 1, 1, 2]
    assert minutes_after(now, second) == [0, 1, 2]


@pytest.mark.django_db
def test_a_limit_that_is_changed_holds_for_what_comes_then(at: Project, owner: User) -> None:
    limits(cluster=1)
    early = due(at, owner, 3)
    retries_dispatch()
    before = slots(waiting(early))
    limits(cluster=None)
    due(at, owner, 3)
    assert retries_dispatch() == DispatchResult(3, 3, 0)
    limits(cluster=3)
    late = due(at, owner, 4)
    retries_dispatch()
    assert slots(waiting(early)) == before
    assert len(waiting(late)) in {1, 2}


@pytest.mark.django_db
def test_minutes_that_are_over_are_swept_up(at: Project, owner: User) -> None:
    limits(cluster=10, queue=10)
    old = minute_of(database_now()) - 5 * MINUTE
    (here,) = Queue.objects.filter(project=at)
    RetrySlots.objects.create(queue=None, minute=old, taken=9)
    RetrySlots.objects.create(queue=here, minute=old, taken=9)
    due(at, owner, 1)
    retries_dispatch()
    assert sorted(RetrySlots.objects.values_list("taken", flat=True)) == [1, 1]


@pytest.mark.django_db
def test_a_cancelled_retry_gives_its_slot_back(at: Project, owner: User) -> None:
    limits(cluster=1, queue=1)
    sessions = due(at, owner, 4)
    retries_dispatch()
    first, *rest = waiting(sessions)
    (freed,) = slots([first])
    chains_cancel([first.pk], by="ann")
    (new,) = due(at, owner, 1)
    retries_dispatch()
    assert slots([new]) == [freed]
    assert slots(rest) == slots(waiting(rest))
    assert check_all() == []


@pytest.mark.django_db
def test_a_retry_by_hand_goes_at_once_and_counts(at: Project, owner: User) -> None:
    limits(cluster=2)
    sessions = [settle(submit(at, owner=owner)) for _ in range(3)]
    now = minute_of(database_now())
    sessions_retry({session.pk: session.pk for session in sessions}, by="ann")
    assert [tip(session).retry_count for session in sessions] == [1, 1, 1]
    minute, taken = RetrySlots.objects.values_list("minute", "taken").get()
    assert taken == 3
    assert minute in {now, now + MINUTE}
    due(at, owner, 1)
    result = retries_dispatch()
    assert result.postponed == 1 or minute_of(database_now()) > minute


@pytest.mark.django_db
def test_a_postponed_retry_that_is_brought_forward_frees_its_slot(at: Project, owner: User) -> None:
    limits(cluster=1)
    sessions = due(at, owner, 3)
    retries_dispatch()
    first, second = waiting(sessions)
    minutes = [minute_of(slot) for slot in slots([first, second])]
    session_retry(first.pk, first.pk, by="ann")
    taken = dict(RetrySlots.objects.values_list("minute", "taken"))
    assert [taken[minute] for minute in minutes] == [0, 1]
    assert check_all() == []


@pytest.mark.django_db
def test_paused_lets_go_of_retries_by_hand_that_off_held(at: Project, owner: User) -> None:
    automatic, *by_hand = [*due(at, owner, 1), *due(at, owner, 2, retry_policy={"max_retries": 0})]
    limits(cluster=1)
    sessions_retry_paced({each.pk: each.pk for each in by_hand}, by="ann")
    late = Session.objects.get(pk__in=[each.pk for each in by_hand], retry_state="scheduled")
    due_again(automatic, late)
    switch(Mode.OFF)
    assert (retries_dispatch().held, held_resume()) == (2, 0)
    switch(Mode.PAUSED)
    assert (held_resume(), held_resume()) == (1, 0)
    states = Session.objects.in_bulk([automatic.pk, late.pk])
    assert states[late.pk].retry_state == "scheduled"
    assert states[automatic.pk].retry_state == "held"
    switch(Mode.ON)
    assert held_resume() == 1
    assert check_all() == []


@pytest.mark.django_db
def test_many_cost_as_many_statements_as_few(at: Project, owner: User) -> None:
    others = [queue(at) for _ in range(3)]

    def statements(count: int) -> int:
        for each in others:
            due(at, owner, count, queue=each.name)
        with CaptureQueriesContext(connection) as queries:
            result = retries_dispatch()
        assert result.postponed == 3 * count
        return len(queries)

    limits(cluster=1, queue=1)
    due(at, owner, 1)
    retries_dispatch()
    # Nothing that is postponed comes due while this test runs, on the slowest machine.
    now = minute_of(database_now())
    RetrySlots.objects.bulk_create(
        RetrySlots(queue=None, minute=now + ahead * MINUTE, taken=1) for ahead in range(1, 30)
    )
    assert statements(1) == statements(40) <= 14


@pytest.mark.django_db(transaction=True)
def test_hints_are_left_for_the_slots(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    hinted: list[float] = []
    monkeypatch.setattr(wakeups.publisher, "hints", hinted.extend)
    limits(cluster=2)
    sessions = due(at, owner, 4)
    hinted.clear()
    retries_dispatch()
    times = slots(waiting(sessions))
    assert sorted(hinted) == pytest.approx([time.timestamp() for time in times], abs=1)


@pytest.mark.django_db(transaction=True)
def test_two_workers_give_each_slot_once(at: Project, owner: User) -> None:
    names = [queue(at).name for _ in range(3)]
    limits(cluster=7, queue=3)
    for _ in range(3):
        for name in names:
            due(at, owner, 12, queue=name)
        race(*[partial(dispatch_all, 5)] * 4)
    for limit, per_queue in ((7, False), (3, True)):
        rows = RetrySlots.objects.filter(queue__isnull=not per_queue)
        assert max(rows.values_list("taken", flat=True)) <= limit
    # What went is in the minutes that it was counted in, what waits in those of its slots.
    decisions = RetryDecision.objects.select_related("session")
    assert decisions.count() == 108
    waits = Counter(
        (decision.session.queue_id, minute_of(decision.due_at))
        for decision in decisions.filter(state="scheduled")
        if decision.due_at
    )
    counted = {
        (row.queue_id, row.minute): row.taken for row in RetrySlots.objects.exclude(queue=None)
    }
    assert all(count <= counted[key] for key, count in waits.items())
    # The next minute has deleted the counts of those that went before it.
    kept_since = min(minute for _, minute in counted)
    gone = decisions.filter(state="dispatched", dispatched_at__lt=kept_since).count()
    assert sum(counted.values()) == 108 - gone
    assert check_all() == []


def dispatch_all(size: int) -> int:
    dispatched = 0
    while (result := retries_dispatch(size)).claimed:
        dispatched += result.dispatched
    return dispatched


def cancel(roots: dict[UUID, UUID]) -> object:
    return chains_cancel(list(roots), by="ann")


def by_hand(roots: dict[UUID, UUID]) -> object:
    return sessions_retry(roots, by="ann")


def by_hand_paced(roots: dict[UUID, UUID]) -> object:
    return sessions_retry_paced(roots, by="ann")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", [cancel, by_hand, by_hand_paced])
def test_every_chain_has_one_future_in_any_order(
    at: Project, owner: User, act: Callable[[dict[UUID, UUID]], object]
) -> None:
    limits(cluster=2, queue=2)
    for _ in range(5):
        roots = {session.pk: session.pk for session in due(at, owner, 8)}
        race(partial(dispatch_all, 3), partial(act, roots), partial(dispatch_all, 3))
        assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_two_bulk_retries_of_the_same_chains(at: Project, owner: User) -> None:
    for limit in (None, 3, 3):
        limits(cluster=limit)
        sessions = [settle(submit(at, owner=owner)) for _ in range(6)]
        roots = {session.pk: session.pk for session in sessions}
        outcomes = race(partial(by_hand_paced, roots), partial(by_hand_paced, roots))
        retried = [each for done in outcomes for each in done.values() if is_child(each)]
        assert len(retried) == Session.objects.filter(parent__in=sessions).count()
        assert len(retried) + len(waiting(sessions)) == 6
    assert sum(RetrySlots.objects.values_list("taken", flat=True)) == 12
    assert check_all() == []


def is_child(outcome: Any) -> bool:
    return isinstance(outcome, Granted) and outcome.child_id is not None
