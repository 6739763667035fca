"""Quotas under races, on separate connections: never over the limit, never counted wrong."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from interfaces.requests.bodies import SessionCreate
from sessions_app.core.errors import Conflict, QuotaExceeded
from sessions_app.models import Project, ProjectUsage, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.resources.quotas import usage_rebuild
from sessions_app.services.sessions.cancel import chains_cancel
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import sessions_submit
from tests.agent import Agent, agent
from tests.factories import executor, policy, project, quotas, submit
from tests.invariants import check_all
from tests.racing import PATIENCE, closing, race, uncommitted, wait_for_a_lock, waited

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 10


@pytest.fixture
def place(owner: User) -> Callable[..., Placed]:
    def make(at: Project, **fields: Any) -> Placed:
        asked = SessionCreate.model_validate({"command": ["true"], **fields})
        return Placed(at.queues.get(), owner.pk, asked.submission())

    return make


def used(name: str) -> int:
    return int(ProjectUsage.objects.get(name=name).used)


def test_two_at_the_last_place(at: Project, place: Callable[..., Placed]) -> None:
    for number in range(1, TIMES + 1):
        quotas(at, pending_sessions=number)
        results = race(*[partial(sessions_submit, [place(at)])] * 2)
        refused = [each for (each,) in results if isinstance(each, QuotaExceeded)]
        assert len(refused) == 1
        assert used("pending_sessions") == number == Session.objects.count()


def test_many_in_bulk_fill_it_to_the_brim(at: Project, place: Callable[..., Placed]) -> None:
    other = project(domain=at.domain.name)
    quotas(at.domain, pending_sessions=50)
    quotas(other, pending_sessions=20)
    calls = [partial(sessions_submit, [place(where) for _ in range(12)])
             for where in (at, other) for _ in range(4)]  # fmt: skip
    outcomes = [each for result in race(*calls) for each in result]
    assert all(isinstance(each, QuotaExceeded | Conflict)
               for each in outcomes if isinstance(each, Exception))  # fmt: skip
    assert Session.objects.count() <= 50
    assert Session.objects.filter(project=other).count() <= 20
    # Who was refused by a race may ask again: there is room until there is none.
    sessions_submit([place(at) for _ in range(60)])
    assert Session.objects.count() == 50
    assert check_all() == []


def test_the_same_creation_id_twice_takes_one_place(
    at: Project, place: Callable[..., Placed]
) -> None:
    quotas(at, pending_sessions=TIMES)
    for number in range(TIMES):
        same = place(at, creation_id=f"same-{number}")
        race(*[partial(sessions_submit, [same])] * 3)
    assert used("pending_sessions") == Session.objects.count() == TIMES


def test_executors_that_lease_at_once_stay_within(at: Project, owner: User) -> None:
    quotas(at, sessions=7)
    players = [agent() for _ in range(4)]
    for _ in range(20):
        submit(at, owner=owner)
    for _ in range(3):
        race(*[player.lease for player in players])
        live = Session.objects.filter(phase="live")
        assert live.count() == used("sessions") <= 7
        # Whoever came second to what waits may have gone away with less than there was.
        players[0].lease()
        assert live.count() == used("sessions") == 7
        for player in players:
            if held := list(player.tokens)[:2]:
                player.start(*held)
                player.succeed(*held)
    assert check_all() == []


def test_the_last_places_of_a_domain_are_leased_once(at: Project, owner: User) -> None:
    """Each executor finds its own project's sessions, and room for them, before either commits."""
    other = project(domain=at.domain.name)
    quotas(at.domain, sessions=3)
    for _ in range(3):
        submit(at, owner=owner)
        submit(other, owner=owner)
    first, second = (Agent(executor(projects=(each,))) for each in (at, other))
    assert waited(second.lease, while_open=lambda: first.lease(limits={"max_sessions": 2}))
    assert (len(first.tokens), len(second.tokens)) == (2, 1)
    assert used("sessions") == 3
    assert check_all() == []


def test_all_at_once(at: Project, owner: User, place: Callable[..., Placed]) -> None:
    """Submits, leases, ends, cancels, dispatches, limits and rebuilds, none in step."""
    other = project(domain=at.domain.name)
    players = [agent() for _ in range(2)]

    def submits() -> None:
        for number in range(12):
            fields = {"retry_policy": policy(), "resources": {"cpu": "100m"} if number % 2 else {}}
            sessions_submit([place(each, **fields) for each in (at, other) for _ in range(3)])

    def runs(player: Agent) -> None:
        for number in range(10):
            player.lease(limits={"max_sessions": 20}, nodes=[NODE])
            held = list(player.tokens)[:5]
            player.send(*[player.reporting(each, "RUNNING") for each in held])
            end = "ERROR" if number % 2 else "TERMINATED"
            player.send(*[player.reporting(each, end) for each in held])
            retries_dispatch()

    def cancels() -> None:
        for _ in range(8):
            roots = Session.objects.filter(phase="waiting").order_by("?")
            chains_cancel(list(roots.values_list("root_id", flat=True)[:2]), by="ann")

    def limits() -> None:
        for number in range(6):
            quotas(at, pending_sessions=30, sessions=6, cpu=1 + number)
            quotas(at.domain, pending_sessions=40 + number, sessions=9)
            quotas(other, **{"sessions": 5} if number % 2 else {"cpu": 2})
            if number == 3:
                ProjectUsage.objects.filter(project=other).delete()

    def rebuilds() -> None:
        for _ in range(8):
            assert usage_rebuild().corrected == 0

    race(submits, submits, *[partial(runs, player) for player in players], cancels, limits,
         rebuilds)  # fmt: skip
    assert check_all() == []
    for counter in ProjectUsage.objects.filter(name="sessions"):
        assert counter.limit is None or counter.used <= counter.limit


NODE = {"name": "n1", "allocatable": {"cpu": "64", "memory": "64Gi"}}


def test_a_limit_is_set_while_somebody_submits(at: Project, place: Callable[..., Placed]) -> None:
    """Sessions that found no counter are in the database before the new one is filled."""
    with ThreadPoolExecutor(2) as others:
        with uncommitted(lambda: sessions_submit([place(at)])):
            setting = others.submit(closing, lambda: quotas(at, pending_sessions=5))
            wait_for_a_lock()
            # In the line behind it: this one finds the counter.
            later = others.submit(closing, lambda: sessions_submit([place(at)]))
            assert not setting.done()
        setting.result(PATIENCE)
        later.result(PATIENCE)
    assert used("pending_sessions") == 2
    assert check_all() == []


def test_a_limit_is_set_while_somebody_leases(at: Project, owner: User) -> None:
    submit(at, owner=owner)
    player = agent()
    waited(lambda: quotas(at, sessions=5, pending_sessions=5), while_open=player.lease)
    assert (used("sessions"), used("pending_sessions")) == (1, 0)


def test_a_rebuild_waits_for_who_has_counted(at: Project, place: Callable[..., Placed]) -> None:
    quotas(at, pending_sessions=5)
    rebuilt = waited(usage_rebuild, while_open=lambda: sessions_submit([place(at)]))
    assert rebuilt.corrected == 0
    assert used("pending_sessions") == 1


def test_withdrawn_leases_are_not_counted(at: Project, place: Callable[..., Placed]) -> None:
    quotas(at, pending_sessions=1)

    class Undone(Exception):
        pass

    with suppress(Undone), transaction.atomic():
        sessions_submit([place(at)])
        raise Undone
    assert used("pending_sessions") == 0
    assert not any(isinstance(each, Exception) for each in sessions_submit([place(at)]))
