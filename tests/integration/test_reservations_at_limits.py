"""Nodes that are kept free for a session that a limit of its queue or a quota holds back."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from scheduler.allocation.kept_room import LIMITED_FOR
from scheduler.models import Reservation
from sessions_app.models import Project, ProjectUsage, Queue
from tests import factories
from tests.agent import Agent
from tests.factories import queue, submit
from tests.integration.test_reservations import kept, pressed, soon_starved
from tests.racing import just_before, locked

__all__ = ["soon_starved"]


@pytest.fixture
def one(at: Project, owner: User) -> Agent:
    """An executor whose only node has a small session."""
    (made,) = pressed(owner, "one", nodes=1)
    return made


@pytest.fixture
def large(at: Project, owner: User, one: Agent) -> UUID:
    """A session of a queue of its own, for which the node is kept free."""
    queue(at, "limited")
    key: UUID = submit(at, owner=owner, queue="limited", resources={"cpu": "4"}).pk
    one.lease()
    assert kept() == [("one", key, ["n0"])]
    return key


class Limit:
    """The most CPUs of the queue, or of the whole project."""

    def __init__(self, at: Project, kind: str):
        self._at = at
        self._kind = kind

    def be(self, cpu: int) -> None:
        if self._kind == "queue":
            Queue.objects.filter(name="limited").update(resource_limits={"cpu": str(cpu)})
        else:
            factories.quotas(self._at, cpu=cpu)


@pytest.fixture(params=["queue", "quota"])
def limit(at: Project, request: Any) -> Limit:
    return Limit(at, request.param)


def since() -> datetime | None:
    return Reservation.objects.get().limited_since


def test_they_are_kept_while_the_limit_is_reached_for_a_moment(
    at: Project, owner: User, one: Agent, large: UUID, limit: Limit
) -> None:
    limit.be(3)
    assert one.lease() == []
    begun = since()
    assert begun is not None
    submit(at, owner=owner, resources={"cpu": "1"})
    one.succeed(*one.tokens)
    with CaptureQueriesContext(connection) as found:
        assert one.lease() == []
    assert [each["sql"] for each in found if "UPDATE scheduler_reservation" in each["sql"]] == []
    assert (kept(), since()) == ([("one", large, ["n0"])], begun)
    limit.be(100)
    assert one.lease() == [large]
    assert kept() == []


def test_they_go_to_others_if_the_limit_stays_reached(
    at: Project, owner: User, one: Agent, large: UUID, limit: Limit
) -> None:
    limit.be(3)
    one.lease()
    Reservation.objects.update(limited_since=F("limited_since") - LIMITED_FOR)
    small = submit(at, owner=owner, resources={"cpu": "1"}).pk
    one.succeed(*one.tokens)
    assert one.lease() == [small]
    assert kept() == []
    one.lease()
    assert kept() == []
    limit.be(100)
    one.lease()
    assert (kept(), since()) == ([("one", large, ["n0"])], None), "chosen anew"


def test_the_time_begins_anew_whenever_the_limit_allows_the_session(
    one: Agent, large: UUID, limit: Limit
) -> None:
    limit.be(3)
    one.lease()
    Reservation.objects.update(limited_since=F("limited_since") - LIMITED_FOR / 2)
    before = since()
    limit.be(100)
    one.lease()
    assert since() is None
    limit.be(3)
    one.lease()
    again = since()
    assert before is not None
    assert again is not None
    assert again > before


def test_they_go_at_once_if_the_queue_is_cordoned(
    at: Project, owner: User, one: Agent, large: UUID
) -> None:
    Queue.objects.filter(name="limited").update(cordoned=True)
    small = submit(at, owner=owner, resources={"cpu": "1"}).pk
    assert one.lease() == [small]
    assert kept() == []


@pytest.mark.django_db(transaction=True)
def test_they_are_kept_if_a_quota_is_used_up_at_the_last_moment(at: Project, owner: User) -> None:
    (one,) = pressed(owner, "one")
    queue(at, "limited")
    large = submit(at, owner=owner, queue="limited", resources={"cpu": "4"}).pk
    one.lease()
    ((_, _, (node,)),) = kept()
    factories.quotas(at, cpu=100)
    small = submit(at, owner=owner, resources={"cpu": "1"}).pk
    one.succeed(*[each for each, at_node in places(one).items() if at_node == node])
    # The round looks again for another session in the place of the one that is locked.
    used_up = just_before("FOR NO KEY UPDATE OF u", lambda: ProjectUsage.objects.update(limit=3))
    with locked(small), used_up:
        assert one.lease() == []
    assert kept() == [("one", large, [node])]


def places(played: Agent) -> dict[UUID, str]:
    """The planned node of each lease."""
    leases = played.executor.leases.exclude(nodes=None).values_list("session_id", "nodes")
    return {session: nodes[0] for session, nodes in leases if nodes}
