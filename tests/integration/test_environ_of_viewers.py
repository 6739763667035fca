"""Tests that members and up see the values of variables; viewers see the names."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from base.podspec.specification import without_values
from sessions_app.locks import database_now
from sessions_app.models import Membership, Project, Session
from sessions_app.models.tenants import Role
from sessions_app.services.sessions.retention import chains_archive, chains_ended
from tests import factories
from tests.agent import Api, agent, failed
from tests.graphs import Graph, nodes
from tests.people import World

VALUE = "swordfish"
ENVIRON = {"PASSWORD": VALUE, "EMPTY": ""}
POD = {
    "containers": [
        {"name": "main", "env": [{"name": "A", "value": VALUE}, {"name": "B", "valueFrom": {}}]},
        {"name": "bare"},
    ],
    "initContainers": [{"name": "first", "env": [{"name": "C", "value": VALUE}]}],
}
MEMBERS = ("owner", "colleague", "maintainer", "domain_admin", "admin", "scoped", "read_only")


def submitted(at: Project, pod_spec: dict[str, Any] | None = None) -> Session:
    return factories.submit(at, environ=ENVIRON, pod_spec=pod_spec or POD)


@pytest.mark.parametrize("who", [*MEMBERS, "viewer"])
def test_members_see_values_and_viewers_do_not(world: World, who: str) -> None:
    session = submitted(world.project)
    answer = world.api(who).read(f"sessions/{session.pk}/")
    if who == "viewer":
        assert answer["environ"] == {"PASSWORD": None, "EMPTY": None}
        first, second = answer["pod_spec"]["containers"][0]["env"]
        assert (first, second) == ({"name": "A", "value": None}, {"name": "B", "valueFrom": {}})
        assert VALUE not in str(answer)
    else:
        assert answer["environ"] == ENVIRON
        assert answer["pod_spec"] == POD
    query = "query($id: ID!) { session(id: $id) { environ podSpec secretEnviron } }"
    graph = Graph(world.tokens[who])
    same = graph.ask(query, id=str(session.pk))["session"]
    assert same["environ"] == answer["environ"]
    assert same["podSpec"] == answer["pod_spec"]


def test_a_list_over_projects_shows_each_its_own() -> None:
    """Of one who is a viewer here and a member there."""
    at = factories.project("here", domain="initech")
    other = factories.project("there", domain="initech")
    user = factories.user("eve", project=at, role=Role.VIEWER)
    Membership.objects.create(user=user, project=other, role=Role.MEMBER)
    for place in (at, other):
        submitted(place)
    found = Graph(factories.token(user)).ask(
        "{ sessions { edges { node { queueName environ } } } }"
    )
    values = [node["environ"]["PASSWORD"] for node in nodes(found["sessions"])]
    assert sorted(values, key=str) == [None, VALUE]


def test_no_answer_or_page_tells_a_viewer_a_value() -> None:
    at, played = factories.project("here", domain="initech"), agent()
    session = submitted(at)
    failed(played, session)
    user = factories.user("vic", project=at, role=Role.VIEWER)
    api = Api(factories.token(user))
    paths = ["", "attempts/", "events/", "retry-decision/", "logs/"]
    texts = [api.get(f"sessions/{session.pk}/{path}") for path in paths]
    texts += [api.get("sessions/"), api.get("job-sets/"), page(user, session)]
    texts.append(api.post("retry-policies/simulate/", {"history": {"project": at.address}}))
    assert [each.status_code for each in texts[:-1]] == [200] * (len(texts) - 1)
    later = database_now() + timedelta(days=1)
    assert chains_archive(chains_ended(later), later)
    texts += [api.get(f"sessions/{session.pk}/"), page(user, session)]
    for each in texts:
        content = b"".join(each) if each.streaming else each.content
        assert VALUE not in content.decode()
    assert "only members see the value" in texts[-1].content.decode()
    member = factories.user("mia", project=at)
    assert VALUE in page(member, session).content.decode()


def page(user: User, session: Session) -> Any:
    browser = Client()
    browser.force_login(user)
    return browser.get(f"/sessions/{session.pk}/")


@pytest.mark.parametrize(
    "pod_spec",
    [
        {},
        {"spec": POD, "metadata": {"labels": {"a": "b"}}},
        {"containers": [{"env": None}, {"env": [3]}, {"env": {"a": "b"}}], "initContainers": None},
        {"ephemeralContainers": [{"env": [{"value": {"deep": VALUE}}]}]},
    ],
)
def test_any_pod_spec_is_bared(pod_spec: dict[str, Any]) -> None:
    before = str(pod_spec)
    assert VALUE not in str(without_values(pod_spec))
    assert str(pod_spec) == before
