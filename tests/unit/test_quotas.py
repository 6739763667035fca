"""Tests of what is left of quotas, and how amounts are written."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.quantity import parse
from sessions_app.core.quotas import (
    MEMORY,
    PENDING,
    SESSIONS,
    WAITING,
    Quota,
    Quotas,
    running,
    spelled,
)

ONE = {SESSIONS: Decimal(1)}


def quota(number: int, name: str, limit: int, used: int = 0, scope: str = "acme/work") -> Quota:
    return Quota(number, scope, name, Decimal(limit), Decimal(used))


def test_a_live_session_takes_a_place_and_what_all_its_pods_ask_for() -> None:
    assert running({"memory": "1Gi", "cpu": "500m"}, 3) == {
        SESSIONS: 1,
        MEMORY: 3 * 2**30,
        "resources.cpu": Decimal("1.5"),
    }
    assert running({"requests": {"cpu": 1}, "limits": {"cpu": 2}}, 1)["resources.cpu"] == 1
    # A counter holds no more digits: each session counts the same whenever it is counted.
    assert running({"cpu": "0.0000000001"}, 2)["resources.cpu"] == Decimal("2e-9")


def full(quotas: Quotas) -> list[int]:
    """The projects in which no session can start now."""
    return [project for project in sorted(quotas.projects) if quotas.held(project, ONE)]


def test_without_quotas_nothing_is_held() -> None:
    none = Quotas([])
    assert not none
    assert none.held(1, ONE) is None
    assert full(none) == []
    none.take(1, ONE)


def test_a_quota_that_is_about_to_be_set_counts_and_holds_nothing() -> None:
    found = Quotas([(1, None)])
    assert found
    assert found.projects == {1}
    assert found.held(1, ONE) is None


def test_amounts_are_taken_from_all_projects_of_a_domain() -> None:
    shared = [(each, quota(1, SESSIONS, 2, scope="acme")) for each in (1, 2)]
    found = Quotas([*shared, (1, quota(2, SESSIONS, 1))])
    found.take(1, ONE)
    assert full(found) == [1]
    held = found.held(1, ONE)
    assert held
    assert str(held) == ("the quota sessions of acme/work is 1, 1 are in use, and this needs 1")
    found.take(2, ONE)
    assert full(found) == [1, 2]
    assert found.held(2, WAITING) is None


def test_a_permanent_lack_of_room_is_told_first() -> None:
    found = Quotas([(1, quota(1, SESSIONS, 1, 1)), (1, quota(2, MEMORY, 2**30))])
    wanted = running({"memory": "2Gi"}, 1)
    held = found.held(1, wanted)
    assert held
    assert not held.ever
    assert found.never(1, wanted) == held
    assert str(held) == (
        "the quota resources.memory of acme/work is 1Gi in all, and this needs 2Gi"
    )
    assert found.never(1, ONE) is None


def test_a_quota_on_what_nobody_asks_for_holds_nobody() -> None:
    full = Quotas([(1, quota(1, "resources.gpu", 0))])
    assert full.held(1, running({"cpu": 1}, 1)) is None
    assert full.held(1, running({"gpu": 0}, 1)) is None
    assert full.held(1, running({"gpu": 1}, 1))


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        (PENDING, "1024", "1024"),
        (MEMORY, str(64 * 2**30), "64Gi"),
        (MEMORY, "1000", "1000"),
        (MEMORY, "0", "0"),
        ("resources.ephemeral-storage", "2048", "2Ki"),
        ("resources.cpu", "2048", "2048"),
        ("resources.cpu", "2.5", "2500m"),
        ("resources.cpu", "0.0005", "0.5m"),
    ],
)
def test_amounts_are_written_as_people_do(name: str, amount: str, text: str) -> None:
    assert spelled(name, Decimal(amount)) == text


@given(st.decimals(0, 2**62, places=9), st.sampled_from([MEMORY, "resources.cpu"]))
def test_written_amounts_are_the_same_amounts(amount: Decimal, name: str) -> None:
    assert parse(spelled(name, amount)) == amount
