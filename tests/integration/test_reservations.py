"""Nodes that are kept free for starved sessions: who sees them, and when they go."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.locks import claim_queues
from scheduler.models import Executor, Node, Reservation
from scheduler.services.executors import leases_sweep_orphans
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, Api, admin, agent
from tests.factories import queue, submit, token, user
from tests.graphs import Graph
from tests.racing import uncommitted


@pytest.fixture(autouse=True)
def soon_starved(settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "starved_after": 0.0}


@pytest.fixture
def played() -> Agent:
    return agent("one", nodes=[{"name": n, "allocatable": {"cpu": "4"}} for n in "ab"])


@pytest.fixture
def large(at: Project, played: Agent, owner: User) -> UUID:
    """A session that needs a whole node while both have small ones."""
    for _ in range(2):
        submit(at, owner=owner, resources={"cpu": "3"})
    assert len(played.lease()) == 2
    key: UUID = submit(at, owner=owner, resources={"cpu": "4"}).pk
    assert played.lease() == []
    return key


def kept() -> list[tuple[str, UUID, list[str]]]:
    rows = Reservation.objects.order_by("pk")
    return list(rows.values_list("executor__name", "session_id", "nodes"))


def test_operators_see_them_at_every_door(
    at: Project, large: UUID, graph: Graph, client: Any, owner: User
) -> None:
    (row,) = admin().read("reservations/")["results"]
    since = row.pop("since")
    assert row == {
        "executor": "one",
        "session_id": str(large),
        "session_name": Session.objects.get(pk=large).name,
        "project": "acme/work",
        "queue": "default",
        "nodes": ["a"],
    }
    assert admin().read("reservations/?executor=other")["results"] == []
    (same,) = admin().read("executors/one/")["reservations"]
    assert same == {**row, "since": since}
    query = "{ reservations { edges { node { executor sessionId nodes } } } }"
    (edge,) = graph.ask(query)["reservations"]["edges"]
    assert edge["node"] == {"executor": "one", "sessionId": str(large), "nodes": ["a"]}
    client.force_login(owner)
    page = client.get("/operations/").content.decode()
    assert "Executor one: node a is kept free for a session of acme/work" in page
    problems = admin().read("operations/")["problems"]
    assert [each["subject"] for each in problems if each["kind"] == "reservation"] == [str(large)]


def test_the_session_says_what_is_kept_for_it(at: Project, large: UUID) -> None:
    Session.objects.update(created_at=F("created_at") - timedelta(seconds=10))
    why = admin().read(f"sessions/{large}/")["pending_reason"]
    assert why == (
        "it waits for room: one: cpu, of which it needs 4 and 2 is free. Kept free for it: one: a"
    )


def test_others_do_not_see_room_that_is_kept(at: Project, played: Agent, large: UUID) -> None:
    small = submit(at, owner=user(superuser=True), resources={"cpu": "1"}).pk
    assert played.lease() == [small]
    assert played.answer["leases"][0]["nodes"] == ["b"]
    last = submit(at, owner=user(superuser=True), resources={"cpu": "1"}).pk
    Session.objects.update(created_at=F("created_at") - timedelta(seconds=10))
    why = admin().read(f"sessions/{last}/")["why_pending"]["reason"]
    assert why == "capacity"


def test_one_goes_with_its_session(at: Project, played: Agent, large: UUID) -> None:
    assert kept() == [("one", large, ["a"])]
    played.succeed(*_started(played))
    assert played.lease() == [large]
    assert kept() == []


def _started(played: Agent) -> list[UUID]:
    played.start(*played.tokens)
    return list(played.tokens)


def test_one_goes_with_its_node(played: Agent, large: UUID) -> None:
    played.nodes = [{"name": n, "allocatable": {"cpu": "4"}, "free": {"cpu": "0"}} for n in "bc"]
    played.lease()
    ((_, session, nodes),) = kept()
    assert (session, nodes != ["a"]) == (large, True)


def test_one_of_a_silent_executor_is_swept(played: Agent, large: UUID) -> None:
    leases_sweep_orphans()
    assert kept() == [("one", large, ["a"])]
    chain_cancel(large, by="ann")
    assert admin().read("reservations/")["results"] == []
    leases_sweep_orphans()
    assert kept() == []


def test_a_round_without_a_change_writes_nothing(played: Agent, large: UUID) -> None:
    with CaptureQueriesContext(connection) as found:
        played.lease()
    assert kept() == [("one", large, ["a"])]
    written = [each["sql"] for each in found if "scheduler_reservation" in each["sql"]]
    assert [sql for sql in written if not sql.lstrip().startswith("SELECT")] == []


def test_a_list_is_a_fixed_number_of_statements(
    at: Project, played: Agent, large: UUID, owner: User, django_assert_num_queries: Any
) -> None:
    api = Api(token(owner))
    api.read("reservations/")
    with CaptureQueriesContext(connection) as few:
        api.read("reservations/")
    more = [submit(at, owner=owner) for _ in range(4)]
    one = Executor.objects.get()
    Reservation.objects.bulk_create(
        Reservation(executor=one, session=each, nodes=["b"]) for each in more
    )
    with django_assert_num_queries(len(few)):
        assert len(api.read("reservations/")["results"]) == 5


def pressed(owner: User, *names: str, nodes: int = 2) -> list[Agent]:
    """Executors whose nodes are full of small sessions."""
    made = []
    for name in names:
        each = agent(
            name,
            nodes=[{"name": f"n{k}", "allocatable": {"cpu": "4"}} for k in range(nodes)],
            max_sessions=100,
        )
        at = Project.objects.get()
        for _ in range(nodes):
            submit(at, owner=owner, resources={"cpu": "3"})
        assert len(each.lease()) == nodes
        each.start(*each.tokens)
        made.append(each)
    queue_usage_refresh()
    return made


def starving(at: Project, owner: User, count: int) -> list[UUID]:
    """Large sessions, each in a queue of its own."""
    keys = []
    for number in range(count):
        name = queue(at, f"large-{number}").name
        keys.append(submit(at, owner=owner, queue=name, resources={"cpu": "4"}).pk)
    return keys


def test_a_session_has_room_kept_on_one_executor_only(at: Project, owner: User) -> None:
    agents = pressed(owner, "one", "two", nodes=8)
    large = starving(at, owner, 2)
    for _ in range(2):
        for each in agents:
            each.lease()
    assert [(name, session) for name, session, _ in kept()] == [("one", each) for each in large]


@pytest.mark.parametrize(
    "out",
    [
        {"cordoned": True},
        {"trouble": "no token"},
        {"last_seen_at": timezone.now() - timedelta(days=1)},
    ],
)
def test_room_on_an_executor_that_starts_nothing_is_kept_for_nobody(
    at: Project, owner: User, out: dict[str, Any]
) -> None:
    one, two = pressed(owner, "one", "two")
    large, _ = starving(at, owner, 2)
    one.lease()
    two.lease()
    assert [name for name, _, _ in kept()] == ["one"]
    Executor.objects.filter(name="one").update(**out)
    two.lease()
    # It counts for nobody's quarter either.
    assert [(name, session) for name, session, _ in kept()] == [("one", large), ("two", large)]
    back = {"cordoned": False, "trouble": "", "last_seen_at": timezone.now()}
    Executor.objects.filter(name="one").update(**back)
    two.lease()
    assert [(name, session) for name, session, _ in kept()] == [("one", large)], "the first stays"


def test_a_quarter_of_the_pool_is_kept_at_most(at: Project, owner: User) -> None:
    one, two = pressed(owner, "one", "two", nodes=8)
    large = starving(at, owner, 6)
    for each in (one, two, one):
        each.lease()
    assert [(name, session) for name, session, _ in kept()] == [
        *(("one", each) for each in large[:2]),
        *(("two", each) for each in large[2:4]),
    ]


def test_a_quarter_of_an_executor_is_kept_at_most(at: Project, owner: User) -> None:
    (one,) = pressed(owner, "one", nodes=8)
    pressed(owner, "two", nodes=24)
    large = starving(at, owner, 4)
    one.lease()
    assert [session for _, session, _ in kept()] == large[:2]
    assert len({nodes[0] for _, _, nodes in kept()}) == 2


def test_many_small_executors_keep_a_quarter_together(at: Project, owner: User) -> None:
    agents = pressed(owner, *(f"e{k}" for k in range(10)), nodes=1)
    large = starving(at, owner, 10)
    for each in agents:
        each.lease()
    assert [(name, session) for name, session, _ in kept()] == [("e0", large[0]), ("e1", large[1])]


def test_what_others_keep_is_read_only_for_starved_sessions(at: Project, owner: User) -> None:
    one, two = pressed(owner, "one", "two")
    statements = []
    for count in (0, 1):
        starving(at, owner, count)
        one.lease()
        submit(at, owner=owner, resources={"cpu": "1"})
        with CaptureQueriesContext(connection) as found:
            two.lease()
        asked = [each["sql"] for each in found if "scheduler_reservation" in each["sql"]]
        # The lock of the executor's row reads its own.
        statements.append(len([sql for sql in asked if "FOR NO KEY UPDATE" not in sql]))
    assert statements == [0, 1], "who is starved, and has no room elsewhere"


def test_a_gang_has_a_suspect_node_kept_if_it_needs_it(at: Project, owner: User) -> None:
    (one,) = pressed(owner, "one", nodes=2)
    Executor.objects.update(avoid_suspects="all")
    until = timezone.now() + timedelta(hours=1)
    Node.objects.create(
        executor=one.executor, name="n0", address="one/n0", suspected_until=until, present=True
    )
    submit(at, owner=owner, resources={"cpu": "4"}, cluster_size=2)
    one.lease()
    assert [sorted(nodes) for _, _, nodes in kept()] == [["n0", "n1"]]


def test_who_was_released_since_then_is_not_starved(at: Project, owner: User) -> None:
    (one,) = pressed(owner, "one")
    large = submit(at, owner=owner, resources={"cpu": "4"}).pk
    released = SessionEvent.objects.create(
        session_id=large,
        root_id=large,
        project=at,
        attempt=0,
        seq=2,
        type="session.released",
        time=timezone.now() + timedelta(minutes=1),
    )
    one.lease()
    assert kept() == []
    SessionEvent.objects.filter(pk=released.pk).update(time=timezone.now())
    one.lease()
    assert [session for _, session, _ in kept()] == [large]


@pytest.mark.django_db(transaction=True)
def test_room_is_kept_while_another_round_holds_the_limits_of_the_queue(
    at: Project, owner: User
) -> None:
    (one,) = pressed(owner, "one", nodes=1)
    made = queue(at, "limited", resource_limits={"sessions": 5})
    large = submit(at, owner=owner, queue="limited", resources={"cpu": "4"}).pk
    one.lease()
    small = submit(at, owner=owner, resources={"cpu": "1"}).pk
    one.succeed(*one.tokens)
    with uncommitted(lambda: claim_queues([made.pk])):
        assert one.lease() == []
        assert [session for _, session, _ in kept()] == [large]
    assert one.lease() == [large]
    one.start(large)
    one.succeed(large)
    assert one.lease() == [small]
