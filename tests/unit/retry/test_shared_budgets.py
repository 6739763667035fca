"""Shared budgets: how many retries a window allows, and which of them go."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from retry.engine.decide import Settings
from retry.engine.decision import SpentBudget
from retry.explain.sentences import explain
from retry.policies.shared_budget import SharedBudget
from retry.shared_budgets import MINUTE, Book, Limit, Standing, edges
from tests.unit.retry.build import PREEMPTED, decided, exited

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("ratio", "burst", "first", "allowed"),
    [(0.2, 50, 0, 50), (0.2, 50, 4, 50), (0.2, 50, 5, 51), (0.29, 0, 100, 29), (0, 3, 10**6, 3)],
)
def test_what_first_attempts_allow(ratio: float, burst: int, first: int, allowed: int) -> None:
    assert Limit(ratio, burst, 3600).allowed(first) == allowed


def test_the_edges_of_a_window_are_read_strictly() -> None:
    assert edges(60, 600) == (9, 9)
    assert edges(60, 630) == (9, 10)


@given(
    retries=st.lists(st.floats(0, 1000)),
    firsts=st.lists(st.floats(0, 1000)),
    window=st.integers(60, 600),
    now=st.floats(600, 1000),
)
def test_minutes_never_count_too_few_retries_or_too_many_first_attempts(
    retries: Sequence[float], firsts: Sequence[float], window: int, now: float
) -> None:
    since = edges(window, now)
    counted = sum(moment // MINUTE >= since.retries for moment in retries if moment <= now)
    assert counted >= sum(now - window <= moment <= now for moment in retries)
    first = sum(moment // MINUTE >= since.first_attempts for moment in firsts if moment <= now)
    assert first <= sum(now - window <= moment <= now for moment in firsts)


@given(
    rooms=st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)),
    asked=st.lists(st.sets(st.sampled_from("abcd"))),
)
def test_no_scope_lets_more_go_than_it_has_room_for(
    rooms: dict[str, int], asked: Sequence[set[str]]
) -> None:
    book = Book({scope: Standing(Limit(0, room, 60)) for scope, room in rooms.items()})
    went = [scopes for scopes in asked if book.take(sorted(scopes), BEGAN) is None]
    for scope, room in rooms.items():
        taken = sum(scope in scopes for scopes in went)
        wanted = sum(scope in scopes for scopes in asked)
        assert taken <= room
        # Nothing but another full scope leaves room that is asked for.
        if all(scopes <= {scope, "d"} for scopes in asked):
            assert taken == min(room, wanted)


def test_a_younger_chain_waits_behind_the_line() -> None:
    book = Book({"cluster": Standing(Limit(0, 5, 60), head=at(10))})
    assert book.take(["cluster"], at(11)) == "cluster"
    assert book.take(["cluster"], at(10)) is None
    assert book.take(["cluster"], at(9)) is None


def test_what_waits_in_one_scope_takes_no_room_of_another() -> None:
    book = Book({"a": Standing(Limit(0, 1, 60)), "b": Standing(Limit(0, 0, 60))})
    assert book.take(["a", "b"], at(0)) == "b"
    assert book.take(["a"], at(1)) is None


def test_the_shipped_values() -> None:
    budget = SharedBudget()
    assert budget.stored() == {
        "ratio": 0.2,
        "burst": 50,
        "window": 3600,
        "over": "postpone",
        "platform": False,
    }
    assert SharedBudget.model_validate(budget.stored()) == budget


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("ratio", each) for each in (-1, 101, "1", True, float("nan"))),
        *(("burst", each) for each in (-1, 1_000_001, 1.5, None)),
        *(("window", each) for each in (59, 86_401, "60")),
        *(("over", each) for each in ("drop", 1, None)),
        *(("platform", each) for each in (1, "yes")),
        ("limit", 1),
    ],
)
def test_what_is_no_budget_is_refused_by_its_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        SharedBudget.model_validate({field: value})
    assert [each["loc"] for each in refused.value.errors()] == [(field,)]


def spent(*, platform: bool = False) -> Settings:
    return Settings(spent=(SpentBudget("project", platform),))


def test_a_spent_budget_ends_chains() -> None:
    decision = decided(exited(1), settings=spent(), max_retries=3)
    assert (decision.reason, decision.retry_state) == ("shared_budget_spent", "exhausted")
    sentences = explain({"action": "fail", "reason": decision.reason}, decision.trace)
    assert "The retry budget that all chains of its project share is spent." in sentences
    # It is the last thing that a retry could fail by.
    assert [step["step"] for step in decision.trace][-2:] == ["shared_budget", "decision"]


def test_it_parks_chains_that_ask_for_it() -> None:
    decision = decided(exited(1), settings=spent(), max_retries=3, on_exhausted="park")
    assert (decision.reason, decision.held_for) == ("shared_budget_spent", "parked")


def test_causes_of_the_platform_go_on_unless_they_count() -> None:
    assert decided(PREEMPTED, settings=spent(), max_retries=3).action == "retry"
    assert decided(PREEMPTED, settings=spent(platform=True), max_retries=3).action == "fail"


def test_a_chain_without_retries_is_not_exhausted_by_it() -> None:
    assert decided(exited(1), settings=spent()).reason == "no_policy"


def test_a_retry_that_waits_says_for_what() -> None:
    held = {"action": "retry", "state": "held", "held_for": "shared_budget", "held_key": "queue:7"}
    said = "The retry is held until the shared retry budget of its queue has room."
    assert said in explain(held, [])
