"""Who made room: on the page of a project and on that of operators, and what was lost."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from interfaces.web.project_preemptions import PAGE
from scheduler.allocation.preemption_world import plans_underway
from scheduler.allocation.reservations import reservations_restore
from scheduler.models import Executor, Preemption, Reservation
from sessions_app.models import Membership, PriorityClass, Project, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Api, admin
from tests.graphs import Graph
from tests.integration.admin import operator
from tests.integration.test_operations_page import MOST
from tests.integration.test_project_pages import statements
from tests.pages import project, read, signed_in, viewer, words

__all__ = ["project", "viewer"]

pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/queues/preemptions/"
ROOM = "/operations/room/"


@pytest.fixture
def rack() -> Executor:
    return factories.executor("rack")


def ended(
    project: Project, seconds: float, *, pods: int = 1, exit_code: int = 143, **fields: Any
) -> Session:
    """A session of this project that ran for so many seconds; `fields` are its columns."""
    started = factories.start(factories.submit(project, cluster_size=pods))
    status = "error" if exit_code else "terminated"
    made = factories.settle(started, status=status, exit_code=exit_code)
    begun = timezone.now() - timedelta(hours=1)
    times = {"started_at": begun, "finished_at": begun + timedelta(seconds=seconds)}
    Session.objects.filter(pk=made.pk).update(**times, **fields)
    return made


def test_a_project_sees_who_made_room_for_whom(
    project: Project, rack: Executor, viewer: Client
) -> None:
    victim, taker = ended(project, 200), factories.submit(project)
    PriorityClass.objects.create(name="high", value=7, projects=[project.address])
    at = timezone.now() - timedelta(minutes=4)
    factories.room_made(
        rack, victim, taker, rule="fair_share", taker_rank=7, planned_at=at, nodes=["a", "b"]
    )
    text = read(viewer, AT)
    sides = f"session {str(victim.pk)[:13]} class default session {str(taker.pk)[:13]} class high"
    assert f"{sides} fair share rack a, b 3 min 20 s 4 min ago" in text
    assert f'href="/sessions/{victim.pk}/"' in viewer.get(AT).content.decode()
    assert AT in viewer.get("/projects/acme/work/queues/").content.decode()


def test_of_another_project_it_tells_the_class_alone(
    project: Project, rack: Executor, viewer: Client
) -> None:
    other = factories.project("other", domain="else")
    mine, theirs = ended(project, 30), ended(other, 50)
    factories.room_made(rack, mine, theirs)
    factories.room_made(rack, theirs, mine, taker_rank=99)
    factories.room_made(rack, theirs, theirs)
    answer = viewer.get(AT)
    text = words(answer)
    assert text.count("a session of class default in another project") == 2
    assert f"session {str(mine.pk)[:13]} priority rack" in text, "its class was deleted"
    assert str(theirs.pk)[:13] not in text
    assert ("30 s" in text, "50 s" in text) == (True, False)
    assert answer.content.decode().count("<tr id=") == 2
    outsider = signed_in(factories.user("eve", project=other))
    assert outsider.get(AT).status_code == 404
    assert str(theirs.pk)[:13] in read(operator(), AT)


def test_who_may_see_the_taker_finds_it_at_the_victim(
    project: Project, rack: Executor, viewer: Client
) -> None:
    other = factories.project("other", domain="else")
    taker = factories.submit(other)
    victim, plain = ended(project, 30, gave_way_to=taker.pk), ended(project, 30)
    both = factories.user("bo", project=project)
    Membership.objects.create(user=both, project=other, role=Role.VIEWER)
    query = "query ($id: ID!) { session(id: $id) { madeRoomFor } }"

    def told(user: User, of: Session) -> tuple[str | None, int]:
        """What they are told, and the statements of it; GraphQL and the page say the same."""
        graph = Graph(factories.token(user))
        page = signed_in(user).get(f"/sessions/{of.pk}/").content.decode()
        with CaptureQueriesContext(connection) as captured:
            found = graph.read(f"sessions/{of.pk}/")["made_room_for"]
        spent = len(captured)
        assert graph.ask(query, id=str(of.pk))["session"]["madeRoomFor"] == found
        assert (f'made room for <a href="/sessions/{taker.pk}/"' in page) == bool(found)
        assert ("It made room for" in page) == bool(found)
        return found, spent

    vera = factories.user("vera", project=project, role=Role.VIEWER)
    root = factories.user("root", superuser=True)
    for user, seen in ((both, str(taker.pk)), (root, str(taker.pk)), (vera, None)):
        _, usual = told(user, plain)
        assert told(user, victim) == (seen, usual + 1), user
    assert "made_room_for" not in admin().read("sessions/")["results"][0], "lists do not look"
    admin_page = f"/admin/sessions_app/session/{victim.pk}/change/"
    assert f"session {str(taker.pk)[:13]}" in read(signed_in(root), admin_page)
    Session.objects.filter(pk=victim.pk).update(gave_way_to=uuid4())
    assert told(root, victim)[0] is None, "there is nothing left to see"


def test_a_project_sees_which_nodes_are_kept_free_for_its_sessions(
    project: Project, rack: Executor, viewer: Client
) -> None:
    assert "Nodes kept free" not in read(viewer, AT)
    other = factories.project("other", domain="else")
    for place, name in ((project, "large"), (other, "hidden")):
        waits = factories.submit(place, name=name)
        Reservation.objects.create(executor=rack, session=waits, nodes=["n1", "n2"])
    text = read(viewer, AT)
    assert "large acme/work / default rack n1, n2" in text
    assert "hidden" not in text


def test_a_part_is_alone_for_htmx_and_a_page_without_it(project: Project, viewer: Client) -> None:
    empty = "Nobody made room in the last 30 days."
    alone = viewer.get(AT, headers={"HX-Request": "true"}).content.decode()
    assert empty in alone
    assert "<html" not in alone
    whole = viewer.get(AT).content.decode()
    assert empty in whole
    assert "<html" in whole
    assert viewer.post(AT).status_code == 405


def test_the_list_has_pages_and_a_fixed_number_of_statements(
    project: Project, rack: Executor, viewer: Client
) -> None:
    victim = ended(project, 10)
    made = [factories.room_made(rack, victim, victim, rule="priority") for _ in range(2)]
    Reservation.objects.create(executor=rack, session=factories.submit(project), nodes=["n1"])
    few = statements(viewer, AT)
    Reservation.objects.create(executor=rack, session=factories.submit(project), nodes=["n2"])
    made += [factories.room_made(rack, victim, victim) for _ in range(PAGE)]
    assert statements(viewer, AT) == few <= 8
    first = viewer.get(AT).content.decode()
    last = made[2].pk
    assert f"{AT}?before={last}" in first
    assert f'id="row-preemption-{last}"' in first
    assert f'id="row-preemption-{made[1].pk}"' not in first
    second = viewer.get(f"{AT}?before={last}").content.decode()
    assert f'id="row-preemption-{made[1].pk}"' in second
    assert f'id="row-preemption-{last}"' not in second
    assert f'href="{AT}">First page' in second
    assert f'id="row-preemption-{made[-1].pk}"' in viewer.get(f"{AT}?before=x").content.decode()


LOST = [
    ({"pods": 4}, 400.0),
    ({"progress": {"step": 90, "checkpoint_step": 60, "rate": 2.0, "best": 90}}, 15.0),
    ({"progress": {"step": 90, "checkpoint_step": 0, "rate": 0.1, "best": 90}}, 100.0),
    ({"progress": {"step": 90, "best": 90}}, 100.0),
    ({"exit_code": 0}, 0.0),
]


@pytest.mark.parametrize(("fields", "lost"), LOST)
def test_what_is_lost_is_counted_from_the_start_or_the_checkpoint(
    project: Project, rack: Executor, fields: dict[str, Any], lost: float
) -> None:
    victim = ended(project, 100, **fields)
    factories.room_made(rack, victim, victim)
    (row,) = admin().read("preemptions/")["results"]
    assert row["lost_seconds"] == lost


def test_nothing_is_told_of_what_is_not_lost_or_not_seen(project: Project, rack: Executor) -> None:
    other = factories.project("other", domain="else")
    gone, running, hidden = ended(project, 9), factories.submit(project), ended(other, 9)
    factories.start(running)
    factories.room_made(rack, gone, gone, dry_run=True)
    factories.room_made(rack, running, gone)
    factories.room_made(rack, hidden, gone)
    factories.room_made(rack, gone, gone, victim_id=uuid4())
    member = Api(factories.token(factories.user("mia", project=project)))
    rows = member.read("preemptions/")["results"]
    assert [each["lost_seconds"] for each in rows] == [None] * 4
    factories.settle(running, exit_code=143)
    Preemption.objects.update(dry_run=False)
    known = [each["lost_seconds"] is not None for each in member.read("preemptions/")["results"]]
    assert known == [False, False, True, True]


def test_the_preemptions_of_a_deleted_executor_stay(
    project: Project, rack: Executor, viewer: Client
) -> None:
    later = timezone.now() + timedelta(minutes=2)
    waits = factories.submit(project)
    factories.room_made(rack, ended(project, 30), waits, until=later)
    assert admin().call("DELETE", "executors/rack/").status_code == 204
    (row,) = admin().read("preemptions/?executor=rack")["results"]
    assert row["executor"] == "rack"
    query = "{ preemptions { edges { node { executor } } } }"
    told = Graph(factories.token(factories.user("boss", superuser=True))).ask(query)
    assert told["preemptions"]["edges"] == [{"node": {"executor": "rack"}}]
    assert "priority rack n1" in read(viewer, AT)
    assert "rack" in read(operator(), "/admin/scheduler/preemption/")
    assert not plans_underway(timezone.now(), {})[0].takers, "nobody makes room there any more"
    reservations_restore([waits.pk])
    assert not Reservation.objects.exists()


def test_operators_see_what_is_kept_free_and_who_made_room_last(
    project: Project, rack: Executor
) -> None:
    waits = factories.submit(project, name="large")
    Reservation.objects.create(
        executor=rack, session=waits, nodes=["n1", "n2"], since=timezone.now() - timedelta(hours=2)
    )
    now = timezone.now()
    for minutes in (59, 61):
        victim = ended(project, minutes)
        planned = now - timedelta(minutes=minutes)
        factories.room_made(rack, victim, waits, planned_at=planned, dry_run=minutes == 61)
    client = operator()
    text = read(client, ROOM)
    assert "large acme/work / default rack n1, n2 2 h" in text
    assert "priority rack n1 59 s 59 min ago" in text
    assert "dry run" not in text, "more than an hour ago"
    page = client.get("/operations/").content.decode()
    assert f'href="/sessions/{waits.pk}/"' in page
    assert 'hx-get="/operations/room/"' in page


def test_operators_are_told_that_there_is_nothing(project: Project) -> None:
    text = read(operator(), ROOM)
    assert "No node is kept free." in text
    assert "Nobody made room in the last hour." in text


def test_the_page_of_operators_takes_a_fixed_number_of_statements(
    project: Project, rack: Executor
) -> None:
    client = operator()

    def grow(count: int) -> list[int]:
        for _ in range(count):
            waits = factories.submit(project)
            Reservation.objects.create(executor=rack, session=waits, nodes=["n1"])
            factories.room_made(rack, ended(project, 5), waits, taker_rank=3)
        return [statements(client, path) for path in (ROOM, "/operations/")]

    few = grow(1)
    assert grow(4) == few
    assert few[0] <= 6
    assert few[1] <= MOST
