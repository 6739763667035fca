"""Draining an executor: it gets nothing new, and what runs there comes back elsewhere."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Executor, Lease
from scheduler.services import drain
from scheduler.services.drain import Drained, drains_go_on, executor_drain
from sessions_app.core.errors import NotFound
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests.agent import Agent, agent
from tests.audit import audited_acts
from tests.factories import policy, reread, submit, user
from tests.racing import locked

STOPPED: dict[str, Any] = {"exit_code": 143, "reason": "Preempted"}
NOTHING = Drained(0, 0, 0, 0)
pytestmark = pytest.mark.usefixtures("all_invariants_hold")


def runs(at: Project, played: Agent, count: int = 1, **fields: Any) -> list[Session]:
    """Sessions that run on the executor."""
    owner = user(project=at)
    found = [submit(at, owner=owner, **{"retry_policy": policy(), **fields}) for _ in range(count)]
    played.lease()
    played.start(*[each.pk for each in found])
    return found


def test_running_sessions_come_back_on_another_executor(at: Project, played: Agent) -> None:
    sessions = runs(at, played, 100)
    assert executor_drain("one", by="eve", reason="new kernel") == Drained(100, 0, 100, 0)
    assert reread(sessions[0]).status_message == "preempted by eve: executor one: new kernel"
    played.lease()
    assert [stop["reason"] for stop in played.answer["stops"]] == ["preempted"] * 100
    played.fail(*[each.pk for each in sessions], **STOPPED)
    assert retries_dispatch().dispatched == 100
    other = agent("two")
    assert played.lease() == []
    children = other.lease()
    parents = Session.objects.filter(pk__in=children).values_list("parent", flat=True)
    assert set(parents) == {each.pk for each in sessions}
    assert len(children) == 100
    other.start(*children)
    other.succeed(*children)
    assert executor_drain("one", by="eve") == NOTHING


def test_leases_that_nobody_accepted_go_back_uncounted(at: Project, played: Agent) -> None:
    session = submit(at)
    played.lease()
    assert executor_drain("one", by="eve", reason="new kernel") == Drained(0, 1, 0, 0)
    back = reread(session)
    assert (back.status, back.lease_returns, Lease.objects.count()) == ("PENDING", 0, 0)
    assert played.report(session.pk, "PREPARING") == "stale"
    assert agent("two").lease() == [session.pk]


def test_repeating_it_changes_nothing(at: Project, played: Agent) -> None:
    runs(at, played, 3)
    executor_drain("one", by="eve", reason="new kernel")
    before = Executor.objects.values().get()
    assert executor_drain("one", by="bob") == Drained(0, 0, 3, 0)
    assert Executor.objects.values().get() == before
    assert audited_acts().filter(action="executor.drain").count() == 1


@pytest.mark.parametrize("kind", ["interactive", "inference"])
def test_sessions_without_retries_run_on_unless_forced(
    at: Project, played: Agent, kind: str
) -> None:
    (kept,) = runs(at, played, session_type=kind)
    (batch,) = runs(at, played)
    waiting = submit(at, session_type=kind)
    played.lease()
    assert executor_drain("one", by="eve") == Drained(1, 1, 2, 1)
    assert [reread(each).status for each in (kept, batch, waiting)] == [
        "RUNNING", "TERMINATING", "PENDING",
    ]  # fmt: skip
    assert drains_go_on() == 0
    assert executor_drain("one", by="eve", force=True) == Drained(1, 0, 2, 0)
    assert reread(kept).status == "TERMINATING"


def test_without_a_reason_it_says_that_it_is_drained(at: Project, played: Agent) -> None:
    (session,) = runs(at, played)
    executor_drain("one", by="eve")
    assert Executor.objects.get().cordon_reason == "drained"
    assert reread(session).status_message == "preempted by eve: executor one: drained"


def test_the_reason_of_a_cordon_stays(played: Agent) -> None:
    Executor.objects.update(cordoned=True, cordon_reason="new kernel")
    executor_drain("one", by="eve")
    assert Executor.objects.get().cordon_reason == "new kernel"
    executor_drain("one", by="eve", reason="new disks")
    assert Executor.objects.get().cordon_reason == "new disks"


def test_an_executor_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="no executor ghost"):
        executor_drain("ghost", by="eve")


def test_the_others_are_left_alone(at: Project, played: Agent) -> None:
    (session,) = runs(at, played)
    agent("two")
    assert executor_drain("two", by="eve") == NOTHING
    assert reread(session).status == "RUNNING"


def test_stopping_sessions_are_left_alone(at: Project, played: Agent) -> None:
    (session,) = runs(at, played)
    played.report(session.pk, "TERMINATING")
    assert executor_drain("one", by="eve") == Drained(0, 0, 1, 0)
    assert reread(session).preempt_requested_at is None


def test_the_sweep_goes_on_with_what_was_interrupted(
    at: Project, played: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = runs(at, played, 5)
    monkeypatch.setattr(drain, "BATCH", 2)
    monkeypatch.setattr(drain, "_go_through", lambda executor_id: (0, 0))
    assert executor_drain("one", by="eve", reason="new kernel") == Drained(0, 0, 5, 0)
    monkeypatch.undo()
    monkeypatch.setattr(drain, "BATCH", 2)
    assert drains_go_on() == 5
    assert {reread(each).status_message for each in sessions} == {
        "preempted by eve: executor one: new kernel"
    }
    assert drains_go_on() == 0


def test_a_drain_that_is_over_takes_nothing_any_more(at: Project, played: Agent) -> None:
    executor_drain("one", by="eve")
    Executor.objects.update(cordoned=False)
    (session,) = runs(at, played)
    assert drains_go_on() == 0
    assert reread(session).status == "RUNNING"


def test_many_cost_as_many_statements_as_one(at: Project, played: Agent) -> None:
    def statements(count: int) -> int:
        runs(at, played, count)
        owner = user(project=at)
        for _ in range(count):
            submit(at, owner=owner)
        played.lease()
        with CaptureQueriesContext(connection) as captured:
            done = executor_drain("one", by="eve")
        assert done.asked == count <= done.returned
        Executor.objects.update(cordoned=False, draining_since=None)
        return len(captured)

    assert statements(1) == statements(40)


@pytest.mark.django_db(transaction=True)
def test_locked_sessions_are_left_to_the_sweep(at: Project, played: Agent) -> None:
    first, second = runs(at, played, 2)
    with locked(first.pk):
        assert executor_drain("one", by="eve") == Drained(1, 0, 2, 0)
    assert [reread(each).status for each in (first, second)] == ["RUNNING", "TERMINATING"]
    assert drains_go_on() == 1
    assert reread(first).status == "TERMINATING"
