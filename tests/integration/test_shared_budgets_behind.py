"""Shared budgets whose log is read late, and whose retries wait for slots: no chain ends by a
verdict that is not true, and no slot is given to a retry for which there is no room."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from sessions_app.db.writes import Writes
from sessions_app.locks import database_now
from sessions_app.models import (
    Project,
    Queue,
    RetryBudgetMinute,
    RetryBudgetState,
    RetryDecision,
    Session,
)
from sessions_app.services.budgets import sweep
from sessions_app.services.budgets.charging import minutes_add
from sessions_app.services.budgets.sweep import budgets_rebuild, budgets_sweep
from sessions_app.services.chains.dispatch import DispatchResult, retries_dispatch
from sessions_app.services.chains.over_budget import over_budget_resume
from tests.factories import submit
from tests.integration.test_shared_budgets import PREEMPTED, budget, failed, held
from tests.integration.test_storm_limits import due_again, limits
from tests.invariants import check_all
from tests.racing import uncommitted

pytestmark = pytest.mark.django_db(transaction=True)


def reason(session: Session) -> str:
    return RetryDecision.objects.get(session=session).reason


def spent() -> list[bool]:
    return [each.spent_since is not None for each in RetryBudgetState.objects.all()]


def charged_beyond_the_burst(at: Project, owner: User) -> None:
    """First attempts allow four retries, and two are made; the sweep has not counted them yet."""
    budget(at, ratio=1, over="fail")
    assert budgets_sweep() == 1
    RetryBudgetState.objects.all().delete()
    sessions = failed(at, owner, 2)
    for _ in range(2):
        submit(at, owner=owner)
    assert retries_dispatch().dispatched == len(sessions)


def test_a_log_that_is_half_read_ends_no_chain(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged_beyond_the_burst(at, owner)
    monkeypatch.setattr(sweep, "SLICE", 1)
    assert budgets_sweep(seconds=0) == 0
    assert spent() == []
    (late,) = failed(at, owner, 1)
    assert reason(late) != "shared_budget_spent"
    assert budgets_sweep() == 0
    assert spent() == [False]


def test_a_rebuild_ends_no_chain_while_it_reads(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged_beyond_the_burst(at, owner)
    assert budgets_sweep() == 0
    monkeypatch.setattr(sweep, "SLICE", 1)
    seen: list[list[bool]] = []
    count = sweep._count

    def counted(*args: Any) -> bool:
        seen.append(spent())
        return count(*args)

    monkeypatch.setattr(sweep, "_count", counted)
    assert budgets_rebuild() == 0
    assert len(seen) > 4
    assert not any(map(any, seen))


def test_a_transaction_that_stays_open_ends_no_chain(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget(at, ratio=1, over="fail")
    assert budgets_sweep() == 1
    RetryBudgetState.objects.all().delete()
    monkeypatch.setattr(sweep, "_LATEST", timedelta(0))
    with uncommitted(lambda: submit(at, owner=owner)):
        failed(at, owner, 2)
        assert retries_dispatch().dispatched == 2
        assert budgets_sweep() == 0
        assert spent() == []
    assert budgets_sweep() == 0
    assert spent() == [False]
    # Three first attempts and two retries.
    failed(at, owner, 1)
    assert retries_dispatch().dispatched == 1
    assert RetryBudgetMinute.objects.filter(retries__gt=0).exists()


def test_a_budget_that_is_new_while_the_sweep_counts_keeps_its_charges(
    at: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget(at, burst=5)
    budgets_sweep()
    queue = Queue.objects.get(project=at)
    minute = int(database_now().timestamp()) // 60
    count = sweep._count

    def counted(writes: Writes, *args: Any) -> bool:
        more = count(writes, *args)
        Queue.objects.filter(pk=queue.pk).update(retry_budget={"burst": 5})
        minutes_add(writes, {(f"queue:{queue.pk}", minute): (0, 5)})
        return more

    monkeypatch.setattr(sweep, "_count", counted)
    budgets_sweep()
    assert RetryBudgetMinute.objects.get(scope=f"queue:{queue.pk}").retries == 5


def test_a_slot_is_only_for_a_retry_with_room(at: Project, owner: User) -> None:
    budget(at, burst=3)
    sessions = failed(at, owner, 3)
    limits(cluster=1)
    assert retries_dispatch() == DispatchResult(3, 1, 0, postponed=2)
    younger = failed(at, owner, 2)
    # Two of the room are for those that wait for their slots.
    assert retries_dispatch() == DispatchResult(2, 0, 2)
    assert held([*sessions, *younger]) == [False] * 3 + [True] * 2
    assert over_budget_resume() == 0
    due_again(*sessions[1:])
    assert retries_dispatch() == DispatchResult(2, 2, 0)
    assert check_all() == []


def test_a_line_does_not_leave_for_slots_that_are_beyond_its_room(at: Project, owner: User) -> None:
    budget(at)
    sessions = failed(at, owner, 6)
    assert retries_dispatch().held == 6
    limits(cluster=1)
    budget(at, burst=3)
    assert over_budget_resume() == 3
    # Before dispatch comes, and while they wait for their slots, nobody else goes.
    assert over_budget_resume() == 0
    assert retries_dispatch() == DispatchResult(3, 1, 0, postponed=2)
    assert over_budget_resume() == 0
    assert held(sessions) == [False] * 3 + [True] * 3
    assert check_all() == []


@pytest.mark.parametrize("scope", ["cluster", "queue"])
def test_each_scope_leaves_room_for_its_own(at: Project, owner: User, scope: str) -> None:
    fields = {"retry_budget": {"ratio": 0, "burst": 3}}
    if scope == "queue":
        Queue.objects.filter(project=at).update(**fields)
    limits(cluster=1)
    if scope == "cluster":
        budget(None, burst=3)
    # Causes of the platform need no room of it.
    failed(at, owner, 2, PREEMPTED)
    failed(at, owner, 2)
    assert retries_dispatch() == DispatchResult(4, 1, 0, postponed=3)
    (younger,) = failed(at, owner, 1)
    assert retries_dispatch().held == 0
    (last,) = failed(at, owner, 1)
    assert retries_dispatch().held == 1
    assert held([younger, last]) == [False, True]
