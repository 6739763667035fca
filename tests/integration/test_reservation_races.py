"""Rounds that reserve nodes at the same moment: a session has room once, a node has one taker."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from scheduler.models import Reservation
from scheduler.services.leases import lease_round
from sessions_app.models import Project
from tests.integration.test_reservations import kept, pressed, soon_starved, starving
from tests.invariants import check_all
from tests.racing import just_before, race

__all__ = ["soon_starved"]
pytestmark = pytest.mark.django_db(transaction=True)
TIMES = 5


def twice() -> list[Any]:
    """The sessions that have room kept more than once, and the nodes that more than one has."""
    rows = kept()
    sessions = Counter(session for _, session, _ in rows)
    nodes = Counter((name, node) for name, _, of in rows for node in of)
    return [key for count in (sessions, nodes) for key, number in count.items() if number > 1]


def sessions_kept() -> set[UUID]:
    return {session for _, session, _ in kept()}


def test_rounds_at_once_reserve_for_each_session_once(at: Project, owner: User) -> None:
    names = [each.executor.name for each in pressed(owner, "one", "two", "three", nodes=3)]
    large = starving(at, owner, 2)
    for _ in range(TIMES):
        Reservation.objects.all().delete()
        race(*(lambda name=name: lease_round(name, 1) for name in names))
        assert twice() == []
        for name in names:
            lease_round(name, 1)
        assert (sessions_kept(), twice()) == ({*large}, [])
    assert check_all() == []


def test_a_round_that_read_before_another_reserved_reserves_nothing(
    at: Project, owner: User
) -> None:
    one, two = pressed(owner, "one", "two", nodes=4)
    first, second = starving(at, owner, 2)
    with just_before("pg_try_advisory_xact_lock", two.lease):
        one.lease()
    assert [(name, session) for name, session, _ in kept()] == [("two", first), ("one", second)]


def test_a_round_sees_that_another_has_just_reserved_a_quarter(at: Project, owner: User) -> None:
    one, two = pressed(owner, "one", "two")
    first, _ = starving(at, owner, 2)
    with just_before("pg_try_advisory_xact_lock", two.lease):
        one.lease()
    assert [(name, session) for name, session, _ in kept()] == [("two", first)]


def test_rounds_at_once_keep_a_quarter_of_the_pool_together(at: Project, owner: User) -> None:
    names = [each.executor.name for each in pressed(owner, *"abcdefgh", nodes=1)]
    starving(at, owner, 8)
    for _ in range(2):
        Reservation.objects.all().delete()
        race(*(lambda name=name: lease_round(name, 1) for name in names[:4]))
        assert len(kept()) in {1, 2}
        race(*(lambda name=name: lease_round(name, 1) for name in names[4:]))
        for name in names:
            lease_round(name, 1)
        assert (len(kept()), twice()) == (2, [])


def test_a_round_does_not_wait_for_one_that_reserves(at: Project, owner: User) -> None:
    one, two = pressed(owner, "one", "two")
    (large,) = starving(at, owner, 1)
    with just_before("INSERT INTO scheduler_reservation", two.lease):
        one.lease()
    assert [(name, session) for name, session, _ in kept()] == [("one", large)]


def test_two_processes_of_one_executor_give_a_node_to_one_session(at: Project, owner: User) -> None:
    (one,) = pressed(owner, "one", nodes=16)
    large = starving(at, owner, 4)
    for _ in range(TIMES):
        Reservation.objects.all().delete()
        race(*(lambda: lease_round(one.executor.name, 1) for _ in range(3)))
        assert twice() == []
        assert sessions_kept() == {*large}
    assert check_all() == []
