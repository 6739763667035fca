"""Shared budgets: retries over them wait, oldest chain first, or end; never one too many."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from retry.shared_budgets import Standing
from sessions_app.db import steps
from sessions_app.db.writes import atomic_writes
from sessions_app.in_force.retry_scope import retry_scopes
from sessions_app.locks import (
    AdvisoryLock,
    LockedSession,
    database_now,
    lock_sessions,
    read_decisions,
)
from sessions_app.models import (
    FailureReader,
    Project,
    RetryBudgetMinute,
    RetryBudgetState,
    RetryDecision,
    RetrySettings,
    Session,
    SessionEvent,
)
from sessions_app.services.budgets import charging
from sessions_app.services.budgets.charging import BudgetGate, has_no_room
from sessions_app.services.budgets.sweep import budgets_rebuild, budgets_sweep
from sessions_app.services.chains.dispatch import DispatchResult, retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.over_budget import over_budget_resume
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chains_cancel
from tests.factories import policy, project, queue, submit
from tests.integration.test_storm_limits import due_again, limits
from tests.invariants import check_all
from tests.racing import race, uncommitted

FAILED = Termination(exit_code=1)
PREEMPTED = Termination(conditions=("Preempted",))


def budget(at: Project | None, **fields: Any) -> None:
    """Give a project, or the cluster, a budget."""
    values = {"ratio": 0, "burst": 0, "window": 3600, "over": "postpone", "platform": False}
    RetrySettings.objects.update_or_create(
        domain=None, project=at, defaults={"retry_budget": values | fields}
    )


def failed(
    at: Project, owner: User, count: int, end: Termination = FAILED, **fields: Any
) -> list[Session]:
    """Failed sessions whose retries are due, the oldest chain first."""
    fields = {"retry_policy": policy()} | fields
    sessions = [submit(at, owner=owner, **fields) for _ in range(count)]
    sessions_settle({session.pk: End(end) for session in sessions})
    return sessions


def held(sessions: Sequence[Session]) -> list[bool]:
    """Return which of these have a retry that waits for a shared budget."""
    waiting = set(
        RetryDecision.objects.filter(state="held", held_for="shared_budget").values_list(
            "session", flat=True
        )
    )
    return [session.pk in waiting for session in sessions]


def retries_counted(scope: str) -> int:
    return sum(RetryBudgetMinute.objects.filter(scope=scope).values_list("retries", flat=True))


@pytest.mark.django_db(transaction=True)
def test_what_is_over_the_budget_waits_and_is_told(at: Project, owner: User) -> None:
    budget(at, burst=2)
    sessions = failed(at, owner, 5)
    assert retries_dispatch() == DispatchResult(5, 2, 3)
    assert held(sessions) == [False, False, True, True, True]
    decision = RetryDecision.objects.get(session=sessions[2])
    assert (decision.held_key, decision.held_order) == (
        f"project:{at.pk}",
        sessions[2].root_submitted_at,
    )
    event = SessionEvent.objects.get(session_id=sessions[2].pk, type="session.retry_postponed")
    assert (event.data["held_for"], event.data["budget"]) == ("shared_budget", "project")
    assert retries_counted(f"project:{at.pk}") == 2
    assert over_budget_resume() == 0
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_first_attempts_make_room_for_the_oldest_chains(at: Project, owner: User) -> None:
    budget(None, ratio=0.5)
    assert budgets_sweep() == 1
    sessions = failed(at, owner, 4)
    retries_dispatch()
    assert held(sessions) == [True] * 4
    # It has counted since its first run.
    assert budgets_sweep() == 0
    assert RetryBudgetMinute.objects.get().first_attempts == 4
    assert over_budget_resume() == 2
    assert retries_dispatch() == DispatchResult(2, 2, 0)
    assert held(sessions) == [False, False, True, True]
    # A retry is no first attempt.
    assert budgets_sweep() == 1
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_a_younger_chain_does_not_pass_the_line(at: Project, owner: User) -> None:
    budget(at, burst=1)
    old = failed(at, owner, 2)
    retries_dispatch()
    budget(at, burst=2)
    young = failed(at, owner, 1)
    assert retries_dispatch() == DispatchResult(1, 0, 1)
    assert over_budget_resume() == 1
    assert retries_dispatch().dispatched == 1
    assert held([*old, *young]) == [False, False, True]


@pytest.mark.django_db(transaction=True)
def test_every_scope_binds(at: Project, owner: User) -> None:
    budget(None, burst=3)
    budget(at, burst=5)
    here = queue(at)
    here.retry_budget = {
        "ratio": 0,
        "burst": 1,
        "window": 60,
        "over": "postpone",
        "platform": False,
    }
    here.save()
    sessions = failed(at, owner, 3, queue=here.name)
    others = failed(at, owner, 3)
    assert retries_dispatch().dispatched == 3
    keys = [RetryDecision.objects.get(session=session).held_key for session in (*sessions, *others)]
    assert keys == ["", f"queue:{here.pk}", f"queue:{here.pk}", "", "", "cluster"]
    # The queue lets one go, which then waits for the cluster.
    here.retry_budget["burst"] = 2
    here.save()
    assert over_budget_resume() == 0
    assert RetryDecision.objects.get(session=sessions[1]).held_key == "cluster"
    assert retries_dispatch().dispatched == 0


@pytest.mark.django_db(transaction=True)
def test_the_budget_of_a_domain_binds_its_projects_together(at: Project, owner: User) -> None:
    budget(None, burst=9)
    values = {"ratio": 0, "burst": 2, "window": 60, "over": "postpone", "platform": False}
    RetrySettings.objects.create(domain=at.domain, project=None, retry_budget=values)
    other = project("other")
    assert other.domain_id == at.domain_id
    sessions = [*failed(at, owner, 2), *failed(other, owner, 2)]
    assert retries_dispatch() == DispatchResult(4, 2, 2)
    assert held(sessions) == [False, False, True, True]
    keys = {RetryDecision.objects.get(session=each).held_key for each in sessions[2:]}
    assert keys == {f"domain:{at.domain_id}"}
    assert [retries_counted(scope) for scope in ("cluster", *keys)] == [2, 2]


@pytest.mark.django_db(transaction=True)
def test_a_retry_that_waits_for_its_slot_is_not_charged(at: Project, owner: User) -> None:
    """The budget lets it go, but its child is not made: others may use its room."""
    budget(at, burst=2)
    limits(cluster=1)
    sessions = failed(at, owner, 3)
    assert retries_dispatch() == DispatchResult(3, 1, 1, 1)
    assert held(sessions) == [False, False, True]
    assert retries_counted(f"project:{at.pk}") == 1
    limits(cluster=None)
    due_again(sessions[1])
    assert retries_dispatch().dispatched == 1
    assert retries_counted(f"project:{at.pk}") == 2
    assert check_all() == []


@pytest.mark.parametrize("place", ["dispatch.before_commit", "dispatch.after_commit"])
@pytest.mark.django_db(transaction=True)
def test_a_death_around_the_commit_charges_what_was_made(
    at: Project, owner: User, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget(at, burst=2)
    failed(at, owner, 3)

    def dies(name: str) -> None:
        if name == place:
            raise RuntimeError(name)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "failpoint", dies)
        with pytest.raises(RuntimeError):
            retries_dispatch()
    made = Session.objects.exclude(parent=None).count()
    assert retries_counted(f"project:{at.pk}") == made == (2 if "after" in place else 0)
    while retries_dispatch().claimed:
        pass
    assert retries_counted(f"project:{at.pk}") == Session.objects.exclude(parent=None).count() == 2
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_causes_of_the_platform_count_if_asked(at: Project, owner: User) -> None:
    budget(at, burst=0)
    failed(at, owner, 1, PREEMPTED)
    assert retries_dispatch().dispatched == 1
    budget(at, burst=0, platform=True)
    failed(at, owner, 1, PREEMPTED)
    assert retries_dispatch() == DispatchResult(1, 0, 1)
    assert not RetryBudgetMinute.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_manual_retries_neither_count_nor_wait(at: Project, owner: User) -> None:
    budget(at, burst=0)
    (session,) = failed(at, owner, 1)
    retries_dispatch()
    session_retry(session.pk, session.root_id, by="ada")
    assert Session.objects.filter(parent=session).exists()
    assert not RetryBudgetMinute.objects.exists()
    budget(at, burst=0, over="fail")
    assert budgets_sweep() == 1
    (ended,) = failed(at, owner, 1)
    assert RetryDecision.objects.get(session=ended).reason == "shared_budget_spent"
    session_retry(ended.pk, ended.root_id, by="ada")
    assert retries_counted(f"project:{at.pk}") == 0
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_without_the_budget_all_go(at: Project, owner: User) -> None:
    budget(at, burst=0)
    failed(at, owner, 3)
    retries_dispatch()
    RetrySettings.objects.update(retry_budget=None)
    assert over_budget_resume() == 3
    assert retries_dispatch().dispatched == 3


@pytest.mark.django_db(transaction=True)
def test_a_release_looks_at_the_switch(at: Project, owner: User) -> None:
    budget(at, burst=0)
    (session,) = failed(at, owner, 1)
    retries_dispatch()
    RetrySettings.objects.update(retry_budget=None, mode="paused")
    assert over_budget_resume() == 0
    decision = RetryDecision.objects.get(session=session)
    assert (decision.state, decision.held_for, decision.held_key) == ("held", "switch", "")
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_what_waits_can_be_cancelled(at: Project, owner: User) -> None:
    budget(at, burst=0)
    (session,) = failed(at, owner, 1)
    retries_dispatch()
    chains_cancel([session.root_id], by="ada")
    session.refresh_from_db()
    assert session.retry_state == "cancelled"
    assert over_budget_resume() == 0


@pytest.mark.django_db(transaction=True)
def test_old_retries_leave_the_window(at: Project, owner: User) -> None:
    budget(at, burst=1, window=60)
    failed(at, owner, 2)
    assert retries_dispatch().dispatched == 1
    earlier = database_now() - timedelta(seconds=180)
    RetryBudgetMinute.objects.update(minute=earlier.replace(second=0, microsecond=0))
    assert over_budget_resume() == 1
    assert retries_dispatch().dispatched == 1


@pytest.mark.django_db(transaction=True)
def test_a_verdict_ends_chains(at: Project, owner: User) -> None:
    budget(at, burst=1, over="fail")
    first, second = failed(at, owner, 2)
    # Both were decided before the budget was spent.
    assert retries_dispatch().dispatched == 2
    assert budgets_sweep() == 1
    (late,) = failed(at, owner, 1)
    decision = RetryDecision.objects.get(session=late)
    assert (decision.reason, decision.state) == ("shared_budget_spent", "final")
    late.refresh_from_db()
    assert late.retry_state == "exhausted"
    (preempted,) = failed(at, owner, 1, PREEMPTED)
    assert RetryDecision.objects.get(session=preempted).action == "retry"
    # A verdict that nobody renews says nothing.
    RetryBudgetState.objects.update(judged_at=database_now() - timedelta(minutes=2))
    (again,) = failed(at, owner, 1)
    assert RetryDecision.objects.get(session=again).action == "retry"
    assert {first.pk, second.pk}


@pytest.mark.parametrize("over", ["postpone", "fail"])
@pytest.mark.django_db(transaction=True)
def test_who_made_room_neither_waits_for_a_budget_nor_counts_in_one(
    at: Project, owner: User, over: str
) -> None:
    budget(at, burst=0, over=over, platform=True)
    budgets_sweep()
    victim = submit(at, owner=owner)
    asked = {"gave_way_to": uuid4(), "preempt_requested_at": database_now()}
    Session.objects.filter(pk=victim.pk).update(**asked)
    sessions_settle({victim.pk: End(PREEMPTED)})
    assert retries_dispatch().dispatched == 1
    assert not RetryBudgetMinute.objects.filter(retries__gt=0).exists()


@pytest.mark.django_db(transaction=True)
def test_the_sweep_forgets_what_has_no_budget(at: Project, owner: User) -> None:
    budget(at, burst=1)
    failed(at, owner, 1)
    retries_dispatch()
    budgets_sweep()
    assert RetryBudgetState.objects.count() == RetryBudgetMinute.objects.count() == 1
    RetrySettings.objects.update(retry_budget=None)
    budgets_sweep()
    assert not RetryBudgetState.objects.exists()
    assert not RetryBudgetMinute.objects.exists()
    with CaptureQueriesContext(connection) as queries:
        assert budgets_sweep() == 0
    assert len(queries) == 1


@pytest.mark.django_db(transaction=True)
def test_budgets_cost_dispatch_no_statement(at: Project, owner: User) -> None:
    """What it makes of them goes with the children, and the commit charges it."""
    counts = []
    for change in (dict, lambda: budget(at, burst=100), lambda: budget(None, burst=100)):
        change()
        failed(at, owner, 10)
        with CaptureQueriesContext(connection) as queries:
            assert retries_dispatch().dispatched == 10
        counts.append(len(queries))
    assert [counts[1] - counts[0], counts[2] - counts[0]] == [0, 0]


@pytest.mark.django_db(transaction=True)
def test_two_dispatchers_never_go_over_it(at: Project, owner: User) -> None:
    budget(at, burst=7)
    failed(at, owner, 30)
    results = race(*[partial(retries_dispatch, 3)] * 6)
    assert sum(result.dispatched for result in results) <= 7
    while retries_dispatch(3).claimed:
        pass
    assert Session.objects.exclude(parent=None).count() == 7
    assert retries_counted(f"project:{at.pk}") == 7
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_few_retries_are_charged_side_by_side_while_there_is_room(at: Project, owner: User) -> None:
    """With room for 64 retries more than theirs, commits do not wait for each other."""
    budget(at, burst=65)
    key = f"project:{at.pk}"
    failed(at, owner, 2)
    with uncommitted(_charging):
        assert retries_dispatch(1).dispatched == 1
    (part,) = RetryBudgetMinute.objects.filter(scope=key)
    assert 1 <= part.minute.second <= 8
    assert retries_dispatch(1).dispatched == 1
    assert retries_counted(key) == 2
    assert RetryBudgetMinute.objects.filter(scope=key, minute__second=0, retries=1).exists()
    later = F("minute") - timedelta(minutes=3)
    RetryBudgetMinute.objects.filter(retries__gt=0).update(minute=later)
    budgets_sweep()
    (merged,) = RetryBudgetMinute.objects.filter(scope=key, retries__gt=0)
    assert (merged.retries, merged.minute.second) == (2, 0)


def _charging() -> None:
    """Do as a commit does that charges a budget with room."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [AdvisoryLock.BUDGET_CHARGES])


@pytest.mark.django_db(transaction=True)
def test_many_who_charge_side_by_side_never_go_over_it(at: Project, owner: User) -> None:
    budget(at, burst=160)
    failed(at, owner, 200)
    sent = race(*[partial(_dispatch_singly, 25)] * 8)
    assert sum(sent) <= 160
    parts = RetryBudgetMinute.objects.filter(minute__second__gt=0)
    assert len(parts) > 1
    while retries_dispatch().dispatched:
        pass
    assert Session.objects.exclude(parent=None).count() == retries_counted(f"project:{at.pk}")
    assert retries_counted(f"project:{at.pk}") == 160
    assert check_all() == []


def _dispatch_singly(times: int) -> int:
    return sum(retries_dispatch(1).dispatched for _ in range(times))


def refused(gate: BudgetGate, sent: list[LockedSession]) -> bool:
    """Whether the database would refuse to commit these retries."""
    try:
        with atomic_writes() as writes, connection.cursor() as cursor:
            gate.charge(writes, sent)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except IntegrityError as error:
        return has_no_room(error)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    return False


@pytest.mark.django_db
def test_the_commit_refuses_what_has_to_wait(at: Project, owner: User) -> None:
    """The trigger and the book of `retry/shared_budgets.py` say the same, whatever the counts."""
    draw = random.Random(7)
    budget(None, burst=0)
    *sessions, waiting = failed(at, owner, 4)
    RetryDecision.objects.filter(session=waiting).update(
        state="held", held_for="shared_budget", held_key="cluster"
    )
    verdicts = Counter[bool]()
    for _ in range(80):
        window = draw.choice([60, 90, 3600])
        over = draw.choice(["postpone", "postpone", "fail"])
        budget(None, ratio=draw.choice([0, 0.29, 0.5]), burst=draw.randint(0, 4), window=window)
        budget(at, ratio=1, burst=draw.randint(0, 4), window=window, over=over)
        now = database_now()
        RetryBudgetMinute.objects.all().delete()
        for scope in ("cluster", f"project:{at.pk}"):
            for back in draw.sample([0, 1, 2, 30, 59, 60, 61], 3):
                RetryBudgetMinute.objects.create(
                    scope=scope,
                    minute=now.replace(second=0, microsecond=0) - timedelta(minutes=back),
                    first_attempts=draw.randint(0, 6),
                    retries=draw.randint(0, 2),
                )
        # Nobody, somebody older than two of them, or somebody younger than all.
        order = draw.choice([None, sessions[1].root_submitted_at, now])
        RetryDecision.objects.filter(session=waiting).update(held_order=order)
        asking = lock_sessions([each.pk for each in draw.sample(sessions, draw.randint(1, 3))])
        decisions = read_decisions([each.id for each in asking])
        gate = BudgetGate(asking, decisions, retry_scopes([at.pk]), now=now)
        has_to_wait = bool(gate.over(asking, limited=False))
        assert refused(gate, asking) == has_to_wait
        verdicts[has_to_wait] += 1
    assert min(verdicts[True], verdicts[False]) > 10


@pytest.mark.django_db(transaction=True)
def test_what_others_are_faster_for_stays_due(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks and sees room, and each time others have taken it before its commit."""
    budget(at, burst=1)
    failed(at, owner, 2)
    assert retries_dispatch(1).dispatched == 1
    with monkeypatch.context() as patch:
        patch.setattr(
            charging,
            "standings_of",
            lambda limits, **_: {scope: Standing(limit) for scope, limit in limits.items()},
        )
        assert retries_dispatch() == DispatchResult(0, 0, 0)
    assert Session.objects.exclude(parent=None).count() == 1
    assert retries_dispatch() == DispatchResult(1, 0, 1)
    assert check_all() == []


def kept() -> list[tuple[Any, ...]]:
    rows = RetryBudgetMinute.objects.order_by("scope", "minute")
    return list(rows.values_list("scope", "minute", "first_attempts", "retries"))


@pytest.mark.django_db(transaction=True)
def test_a_rebuild_counts_what_was_charged_and_submitted(at: Project, owner: User) -> None:
    """By hand, and after causes of the platform, a retry counts in no budget but where it asks."""
    budget(None, ratio=0.5, burst=5, platform=True)
    budget(at, burst=3)
    budgets_sweep()
    sessions = failed(at, owner, 4)
    retries_dispatch()
    failed(at, owner, 1, PREEMPTED)
    retries_dispatch()
    session_retry(sessions[-1].pk, sessions[-1].root_id, by="ann")
    assert budgets_sweep() == 1
    before = kept()
    sums = [
        [sum(row[each] for row in before if row[0] == scope) for each in (2, 3)]
        for scope in ("cluster", f"project:{at.pk}")
    ]
    assert sums == [[5, 4], [5, 3]]
    (state,) = RetryBudgetState.objects.filter(spent_since__isnull=False)
    RetryBudgetMinute.objects.update(first_attempts=77, retries=0)
    FailureReader.objects.filter(pk=4).delete()
    assert budgets_rebuild() == 1
    assert kept() == before
    (again,) = RetryBudgetState.objects.filter(spent_since__isnull=False)
    assert (again.scope, again.spent_since) == (state.scope, state.spent_since)
    # What is submitted from now on counts once.
    failed(at, owner, 1)
    budgets_sweep()
    assert sum(row[2] for row in kept() if row[0] == "cluster") == 6
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_without_a_budget_a_rebuild_counts_nothing(at: Project, owner: User) -> None:
    failed(at, owner, 2)
    retries_dispatch()
    assert budgets_rebuild() == 0
    assert not RetryBudgetMinute.objects.exists()
    assert not FailureReader.objects.filter(pk=4).exists()
