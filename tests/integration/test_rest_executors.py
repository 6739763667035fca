"""The registry of executors over REST: made with a token, looked at, closed and deleted."""

import logging
import time
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Executor, Lease
from scheduler.services import silence
from scheduler.services.registry import executor_delete
from scheduler.tasks import sweep_leases
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.locks import database_now
from sessions_app.models import ApiToken, Project
from tests import factories
from tests.agent import Agent, Api, admin, agent, running
from tests.audit import audited_acts
from tests.racing import race

PATH = "executors/"
RACK = f"{PATH}rack-1/"
NODE = {
    "name": "n1",
    "allocatable": {"cpu": "8"},
    "free": {"cpu": "6"},
    "labels": {"zone": "a"},
    "taints": [{"key": "gpu", "effect": "NoSchedule"}],
}


@pytest.fixture
def api() -> Api:
    return admin()


def make(api: Api, **fields: Any) -> Any:
    response = api.post(PATH, {"name": "rack-1", **fields})
    assert response.status_code == 201, response.content
    return response.json()


def call_in(token: str, name: str = "rack-1", trouble: str = "") -> int:
    """The status of a lease call with this token."""
    body = {"incarnation": 1, "driver": "local", "limits": {"max_sessions": 4}, "nodes": [NODE],
            "trouble": trouble}  # fmt: skip
    status: int = Api(token).post(f"{PATH}{name}/lease/", body).status_code
    return status


def heard(name: str, seconds: float) -> None:
    """As if the executor had called so long ago."""
    seen = database_now() - timedelta(seconds=seconds)
    Executor.objects.filter(name=name).update(last_seen_at=seen)


def errors(response: Any, status: int = 400) -> list[str]:
    assert response.status_code == status, response.content
    return [name.partition("[")[0] for name in response.json()["errors"]]


def test_an_executor_is_made_and_calls_in_with_its_token(api: Api, at: Project) -> None:
    response = api.post(PATH, {"name": "rack-1", "projects": ["acme/work"], "unconfirmed_after": 0})
    assert response.status_code == 201
    made = response.json()
    token = made.pop("token")
    assert token.startswith("rpr_")
    assert made.pop("created_at")
    assert made == {
        "name": "rack-1", "health": "never_heard", "heartbeat_age": None, "last_seen_at": None,
        "trouble": "", "project_troubles": [], "warnings": [], "incarnation": 0, "driver": "",
        "max_sessions": 0, "lease_count": 0, "node_count": 0,
        "projects": ["acme/work"], "unconfirmed_after": 0.0, "cordoned": False,
        "placement": "node",
        "avoid_suspects": "off",
        "auto_quarantine": False,
        "preemption": "",
        "labels": {}, "node_templates": [], "pod_placing": {}, "extended_tolerations": False,
        "cordon_reason": "", "draining_since": None,
    }  # fmt: skip
    assert call_in(token) == 200
    read = api.read(response["Location"])
    assert (read["health"], read["driver"], read["incarnation"]) == ("alive", "local", 1)
    assert 0 <= read["heartbeat_age"] < 60
    assert call_in(token, trouble="no namespace") == 200
    assert [each["trouble"] for each in api.read(PATH)["results"]] == ["no namespace"]
    assert (read["max_sessions"], read["node_count"], read["nodes"]) == (4, 1, [NODE])
    # The token is in no other answer, and not in the database either.
    assert "token" not in read
    stored = ApiToken.objects.get(executor_name="rack-1")
    assert token not in {stored.digest, stored.prefix, stored.name}


def test_an_executor_tells_its_warnings_as_long_as_they_last(api: Api) -> None:
    token = make(api)["token"]

    def warned(*warnings: str) -> list[str]:
        body = {"incarnation": 1, "limits": {"max_sessions": 4}}
        body |= {"warnings": list(warnings)} if warnings else {}
        assert Api(token).post(f"{PATH}rack-1/lease/", body).status_code == 200
        (found,) = api.read(PATH)["results"]
        return list(found["warnings"])

    assert warned("no PriorityClass high", "x" * 2000) == ["no PriorityClass high", "x" * 1024]
    query = "{ executors { edges { node { warnings } } } }"
    answer = api.post("/graphql/", {"query": query}).json()["data"]
    assert len(answer["executors"]["edges"][0]["node"]["warnings"]) == 2
    assert warned() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Rack"),
        ("name", "a" * 64),
        ("name", "a/b"),
        ("name", None),
        ("projects", ["acme/ghost"]),
        ("projects", ["acme"]),
        ("projects", "acme/work"),
        ("projects", [3]),
        ("projects", None),
        ("projects", ["acme/work"] * 1001),
        ("unconfirmed_after", -1),
        ("unconfirmed_after", 1e12),
        ("unconfirmed_after", "60"),
        ("unconfirmed_after", True),
        ("placement", "anywhere"),
        ("avoid_suspects", "some"),
        ("auto_quarantine", "yes"),
        ("preemption", "maybe"),
        ("labels", {"a b": "c"}),
        ("labels", {"a": 3}),
        ("labels", {"a": "b c"}),
        ("labels", {f"a{n}": "b" for n in range(65)}),
        ("labels", ["a"]),
        ("cordoned", True),
        ("token", "rpr_mine"),
    ],
)
def test_each_field_is_checked(api: Api, at: Project, field: str, value: Any) -> None:
    response = api.post(PATH, {"name": "rack-1", field: value})
    assert {name.partition(".")[0] for name in errors(response)} == {field}
    assert not Executor.objects.exists()
    assert not ApiToken.objects.exclude(executor_name="").exists()


def test_a_name_is_given_once(api: Api) -> None:
    token = make(api)["token"]
    response = api.post(PATH, {"name": "rack-1"})
    assert errors(response, 409) == ["name"]
    assert call_in(token) == 200


def test_decisions_of_operators_are_stored(api: Api, at: Project) -> None:
    other = factories.project("other", domain="acme").address
    make(api, projects=["acme/work"], unconfirmed_after=60)
    changed = api.call("PATCH", RACK, {"projects": [other, "acme/work", other]}).json()
    assert (changed["projects"], changed["unconfirmed_after"]) == (["acme/other", "acme/work"], 60)
    changed = api.call("PATCH", RACK, {"unconfirmed_after": None, "placement": "cluster"}).json()
    assert changed["placement"] == "cluster"
    assert (len(changed["projects"]), changed["unconfirmed_after"]) == (2, None)
    assert api.call("PATCH", RACK, {"projects": []}).json()["projects"] == []
    assert errors(api.call("PATCH", RACK, {"projects": ["acme/ghost"]})) == ["projects"]
    for field in ("name", "nodes", "max_sessions", "last_seen_at"):
        assert errors(api.call("PATCH", RACK, {field: "x"})) == [field]
    assert api.call("PATCH", f"{PATH}ghost/", {}).status_code == 404


def test_a_cordoned_executor_gets_nothing_new_and_keeps_what_it_runs(
    api: Api, at: Project, played: Agent
) -> None:
    first = running(played, factories.submit(at))
    path = f"{PATH}one/"
    for body in ({}, {"reason": ""}, {"reason": "x" * 257}, {"reason": 3}):
        assert errors(api.post(f"{path}cordon/", body)) == ["reason"]
    assert errors(api.post(f"{path}cordon/", {"reason": "  "})) == ["cordon_reason"]
    for _ in range(2):
        closed = api.post(f"{path}cordon/", {"reason": "new racks"}).json()
        assert (closed["cordoned"], closed["cordon_reason"]) == (True, "new racks")
    second = factories.submit(at)
    assert played.lease() == []
    assert played.answer["stops"] == []
    assert (closed["lease_count"], factories.reread(first).status) == (1, "RUNNING")
    assert errors(api.post(f"{path}uncordon/", {"reason": "x"})) == ["reason"]
    for _ in range(2):
        opened = api.post(f"{path}uncordon/").json()
        assert (opened["cordoned"], opened["cordon_reason"]) == (False, "")
    assert played.lease() == [second.pk]


def test_a_new_token_takes_the_place_of_all_others(api: Api) -> None:
    first = make(api)["token"]
    second = factories.token(executor_name="rack-1")
    other = make(api, name="rack-2")["token"]
    response = api.post(f"{RACK}token/")
    assert response.status_code == 201
    body = response.json()
    assert set(body) == {"name", "token"}
    assert [call_in(each) for each in (first, second, body["token"])] == [401, 401, 200]
    assert call_in(other, "rack-2") == 200
    assert errors(api.post(f"{RACK}token/", {"name": "x"})) == ["name"]
    assert api.post(f"{PATH}ghost/token/").status_code == 404
    assert call_in(body["token"]) == 200


def test_an_executor_with_leases_is_not_deleted(api: Api, at: Project, played: Agent) -> None:
    session = running(played, factories.submit(at))
    response = api.call("DELETE", f"{PATH}one/")
    assert (response.status_code, response.json()["lease_count"]) == (409, 1)
    assert "it holds 1 lease:" in response.json()["detail"]
    played.succeed(session.pk)
    assert played.lease() == []
    assert api.call("DELETE", f"{PATH}one/").status_code == 204
    assert api.get(f"{PATH}one/").status_code == 404
    assert api.call("DELETE", f"{PATH}one/").status_code == 404
    assert played.call("lease", {}).status_code == 401
    assert factories.reread(session).executor == "one"


def test_a_name_that_is_given_again_is_not_open_to_old_tokens(api: Api) -> None:
    old = factories.token(executor_name="rack-1")
    new = make(api)["token"]
    assert [call_in(old), call_in(new)] == [401, 200]


def test_every_change_is_audited_without_the_token(api: Api, at: Project) -> None:
    made = make(api)
    api.call("PATCH", RACK, {"projects": ["acme/work"]})
    api.call("PATCH", RACK, {"projects": ["acme/work"]})
    api.post(f"{RACK}cordon/", {"reason": "new racks"})
    api.post(f"{RACK}uncordon/")
    renewed = api.post(f"{RACK}token/").json()
    api.call("DELETE", RACK)
    entries = list(audited_acts().order_by("id"))
    assert [entry.action for entry in entries] == [
        "executor.create", "token.create", "executor.serve", "executor.cordon",
        "executor.uncordon", "token.revoke", "token.create", "token.revoke",
        "executor.stop_serving", "executor.delete",
    ]  # fmt: skip
    own = [entry for entry in entries if entry.object_type == "executor"]
    assert {(entry.object_id, entry.project) for entry in own} == {("rack-1", "")}
    assert own[1].data == {"before": {}, "after": {"project": "acme/work"}}
    assert own[2].data["after"] == {"cordoned": True, "cordon_reason": "new racks"}
    assert set(own[-1].data["before"]) == {
        "name", "cordoned", "cordon_reason", "drained_by", "drain_force", "placement",
        "avoid_suspects", "auto_quarantine", "preemption", "labels",
    }  # fmt: skip
    recorded = str([entry.data for entry in entries])
    assert made["token"] not in recorded
    assert renewed["token"] not in recorded


def test_leases_are_listed_by_their_age(api: Api, at: Project, played: Agent) -> None:
    sessions = [factories.submit(at, name=f"train-{number}") for number in range(3)]
    played.lease()
    played.start(sessions[1].pk)
    path = f"{PATH}one/leases/"
    listed = api.read(path)["results"]
    assert [each["session_name"] for each in listed] == ["train-0", "train-1", "train-2"]
    item = listed[1]
    assert item.pop("granted_at")
    assert item == {
        "session_id": str(sessions[1].pk), "session_name": "train-1", "project": "acme/work",
        "queue": "default", "status": "RUNNING", "node": "", "nodes": [], "template": "",
        "accepted": True, "lost_at": None,
        "fencing_token": played.tokens[sessions[1].pk], "run_deadline": None,
    }  # fmt: skip
    assert [len(page) for page in api.pages(f"{path}?page_size=2")] == [2, 1]
    assert api.get(f"{path}?status=x").status_code == 400
    assert api.get(f"{path}?cursor=x").status_code == 404


def test_the_list_says_who_is_late_and_who_is_gone(api: Api) -> None:
    ages = {"a": 5, "b": 45, "c": 90}
    for name, age in ages.items():
        factories.executor(name)
        heard(name, age)
    factories.executor("d")
    answer = {each["name"]: each["health"] for each in api.read(PATH)["results"]}
    assert answer == {"a": "alive", "b": "late", "c": "silent", "d": "never_heard"}
    for name, health in answer.items():
        page = api.read(f"{PATH}?health={health.upper()}")
        assert [each["name"] for each in page["results"]] == [name]
    assert [len(page) for page in api.pages(f"{PATH}?page_size=3")] == [3, 1]


def test_the_list_is_filtered(api: Api) -> None:
    for name, driver in (("a", "local"), ("b", "kubernetes")):
        Executor.objects.filter(pk=factories.executor(name).pk).update(driver=driver)
    api.post(f"{PATH}b/cordon/", {"reason": "x"})

    def names(query: str) -> list[str]:
        return [each["name"] for each in api.read(f"{PATH}?{query}")["results"]]

    assert [names("cordoned=true"), names("cordoned=false")] == [["b"], ["a"]]
    assert [names("driver=local"), names("driver=local&cordoned=true")] == [["a"], []]
    for query in ("health=well", "cordoned=perhaps", "page_size=0", "name=a", "driver=%00"):
        assert api.get(f"{PATH}?{query}").status_code == 400, query


def test_a_list_and_a_page_take_as_many_statements_for_many_as_for_one(
    api: Api, at: Project
) -> None:
    owner = factories.user(superuser=True)

    def grow(count: int) -> None:
        for _ in range(count):
            made = agent(nodes=[{"name": "n1", "allocatable": {"cpu": "8"}}])
            made.executor.projects.add(at, factories.project())
            factories.submit(at, owner=owner)
            factories.submit(at, owner=owner)
            assert len(made.lease()) == 2

    def cost(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            api.read(path)
        return len(captured)

    grow(1)
    name = Executor.objects.get().name
    paths = (PATH, f"{PATH}{name}/", f"{PATH}{name}/leases/")
    api.read(PATH)
    few = [cost(path) for path in paths]
    grow(9)
    Lease.objects.update(executor=Executor.objects.get(name=name))
    assert len(api.read(paths[2])["results"]) == 20
    assert api.read(PATH)["results"][0]["node_count"] == 1
    assert [cost(path) for path in paths] == few
    assert max(few) <= 5


def test_becoming_late_and_coming_back_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "_began", -inf)
    factories.executor("never")
    for name in ("well", "rack-1"):
        factories.executor(name)
        heard(name, 5)

    def warnings() -> list[str]:
        caplog.clear()
        sweep_leases.run()
        return [each.message for each in caplog.records if each.levelno == logging.WARNING]

    assert warnings() == []
    heard("rack-1", settings.REPRISE["executor_late_after"] + 5)
    (warning,) = warnings()
    assert warning.startswith("executor rack-1 has been silent for 3")
    assert warnings() == []
    heard("rack-1", 1)
    assert warnings() == ["executor rack-1 sends heartbeats again"]
    assert warnings() == []
    # A server that was off itself hears from nobody at first.
    monkeypatch.setattr(silence, "_began", time.monotonic())
    heard("rack-1", 600)
    assert warnings() == []


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_deleting_against_leasing(self) -> None:
        at = factories.project()
        owner = factories.user(project=at)
        for number in range(12):
            played = agent(f"rack-{number}")
            executor = played.executor
            session = factories.submit(at, owner=owner)

            def lease(played: Agent = played) -> int:
                body = {"limits": {"max_sessions": 1}, "runs": []}
                status: int = played.call("lease", body).status_code
                return status

            leased, deleted = race(lease, partial(executor_delete, executor, by="ann"))
            held = Lease.objects.filter(session=session).exists()
            assert Executor.objects.filter(pk=executor.pk).exists() is held
            assert isinstance(deleted, Conflict) is held
            assert leased in {200, 401, 404}
            assert factories.reread(session).status == ("SCHEDULED" if held else "PENDING")
            Lease.objects.all().delete()
            factories.settle(session)

    def test_one_deletes_it_only_once(self) -> None:
        for number in range(6):
            executor = factories.executor(f"rack-{number}")
            outcomes = race(*[partial(executor_delete, executor, by="ann")] * 2)
            assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", "NotFound"]
            assert any(isinstance(each, NotFound) for each in outcomes)

    def test_of_tokens_made_at_once_one_is_left(self) -> None:
        api = admin()
        executor = factories.executor("rack-1")
        for _ in range(4):
            answers = race(*[partial(api.post, f"{RACK}token/")] * 3)
            tokens = [answer.json()["token"] for answer in answers]
            assert sorted(call_in(token) for token in tokens) == [200, 401, 401]
        assert ApiToken.objects.filter(executor_name=executor.name).count() == 1

    def test_a_change_does_not_bring_back_what_is_deleted(self) -> None:
        api = admin()
        for number in range(6):
            executor = factories.executor(f"rack-{number}")
            path = f"{PATH}{executor.name}/"
            answers = race(
                partial(api.post, f"{path}cordon/", {"reason": "x"}),
                partial(executor_delete, executor, by="ann"),
            )
            assert answers[0].status_code in {200, 404}
            assert answers[1] is None
            assert not Executor.objects.filter(name=executor.name).exists()
