"""A round, "why pending" and "would it fit" know what pods get that their sessions do not say."""

from typing import Any

import pytest

from scheduler.models import Executor
from sessions_app.models import Project, RetrySettings, Session
from sessions_app.models.tenants import Role
from sessions_app.selectors.why_pending import why_pending
from tests import factories
from tests.agent import Agent, Api, admin, agent
from tests.factories import submit, user
from tests.graphs import Graph

GPU = {"nvidia.com/gpu": "1"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATING = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def node(name: str, labels: Any = None, taints: Any = (), **amounts: str) -> dict[str, Any]:
    more = {"labels": labels or {}, "taints": [*taints]}
    return {"name": name, "allocatable": {"cpu": "4", **amounts}, **more}


NODES = [node("a"), node("b"), node("g", taints=[TAINT], **{"nvidia.com/gpu": "8"})]


@pytest.fixture
def played() -> Agent:
    return agent("one", nodes=NODES)


def waiting(at: Project, **fields: Any) -> Session:
    return submit(at, owner=user(superuser=True), **fields)


def why(session: Session) -> str:
    found = why_pending(session, at_once=True)
    assert found is not None
    return found.message


def warned(api: Api, **fields: Any) -> list[str]:
    response = api.post("sessions/", {"project": "acme/work", "command": ["true"], **fields})
    assert response.status_code == 201, response.content
    return list(response.json().get("warnings", ()))


@pytest.mark.parametrize(
    "fields", [{"extended_tolerations": True}, {"pod_placing": TOLERATING}], ids=["added", "own"]
)
def test_a_gpu_session_starts_where_a_bare_pod_would(
    at: Project, played: Agent, api: Api, fields: dict[str, Any]
) -> None:
    played.lease()
    (told,) = warned(api, resources=GPU)
    session = waiting(at, resources=GPU)
    assert played.lease() == []
    most = "2 of 3 nodes have too little nvidia.com/gpu"
    nearest = "the nearest, node g, has the taint nvidia.com/gpu, which it does not tolerate"
    words = f"it fits on no executor: one: no node has all that it needs: {most}; {nearest}"
    assert (told, why(session)) == (words, words)
    assert session.pk in played.lease(**fields)
    assert [each["nodes"] for each in played.answer["leases"]] == [["g"], ["g"]]
    assert warned(api, resources=GPU) == []


def test_the_word_of_an_agent_holds_until_its_nodes_come_again(at: Project, played: Agent) -> None:
    played.lease(pod_placing=TOLERATING, extended_tolerations=True)
    played.lease(nodes=None)
    known = Executor.objects.get()
    assert (known.pod_placing, known.extended_tolerations) == (TOLERATING, True)
    shown = admin().read("executors/one/")
    assert (shown["pod_placing"], shown["extended_tolerations"]) == (TOLERATING, True)
    played.lease()
    known.refresh_from_db()
    assert (known.pod_placing, known.extended_tolerations) == ({}, False)


def test_a_selector_of_the_executor_counts_and_one_of_the_session_wins(
    at: Project, played: Agent, api: Api
) -> None:
    played.nodes = [node("a", {"pool": "batch"}), node("b", {"pool": "own"})]
    selector = {"nodeSelector": {"pool": "batch"}}
    played.lease(pod_placing=selector)
    for _ in range(3):
        waiting(at, resources={"cpu": "2"}, name="plain")
    own = waiting(at, resources={"cpu": "2"}, pod_spec={"nodeSelector": {"pool": "own"}})
    assert len(played.lease(pod_placing=selector)) == 3
    nodes = {each["session_id"]: each["nodes"] for each in played.answer["leases"]}
    assert nodes.pop(str(own.pk)) == ["b"]
    assert list(nodes.values()) == [["a"], ["a"]]
    (left,) = Session.objects.filter(status="PENDING")
    assert why(left).startswith("it waits for room")


def test_another_executor_is_judged_by_its_own_defaults(at: Project, played: Agent) -> None:
    """A retry that avoids an executor goes back there if no other one could run it."""
    other = agent("other", nodes=NODES)
    other.lease()
    session = waiting(at, resources=GPU)
    Session.objects.filter(pk=session.pk).update(avoid_executors=["one"], scheduling_key=None)
    assert played.lease(extended_tolerations=True) == [session.pk]


def test_another_executor_that_could_run_it_gets_it(at: Project, played: Agent) -> None:
    other = agent("other", nodes=NODES)
    other.lease(extended_tolerations=True)
    session = waiting(at, resources=GPU)
    Session.objects.filter(pk=session.pk).update(avoid_executors=["one"], scheduling_key=None)
    assert played.lease(extended_tolerations=True) == []
    assert other.lease(extended_tolerations=True) == [session.pk]


@pytest.mark.parametrize(
    ("placing", "why"),
    [
        ([], "must be an object"),
        ({"tolerations": "all"}, "tolerations: must be a list of objects"),
        ({"containers": []}, "containers: is no field of pod defaults"),
    ],
)
def test_what_cannot_be_read_is_refused(played: Agent, placing: Any, why: str) -> None:
    limits = {"max_sessions": 1}
    answer = played.call("lease", {"limits": limits, "nodes": [], "pod_placing": placing})
    assert answer.status_code == 400
    assert why in answer.content.decode()


SETTINGS = "retry-settings/projects/acme/work/"


def project_gets(defaults: Any, *, status: int = 200, path: str = SETTINGS) -> Any:
    answer = admin().call("PATCH", path, {"pod_defaults": defaults})
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_project_adds_to_the_defaults_of_the_executor(
    at: Project, played: Agent, api: Api
) -> None:
    """And only for its own sessions, even if those of another project ask for the same."""
    played.lease()
    assert len(warned(api, resources=GPU)) == 1
    assert project_gets(TOLERATING)["pod_defaults"] == TOLERATING
    assert warned(api, resources=GPU) == []
    other = factories.project("other")
    strange = waiting(other, resources=GPU)
    mine = waiting(at, resources=GPU)
    granted = played.lease()
    assert mine.pk in granted
    assert strange.pk not in granted
    assert "has the taint nvidia.com/gpu" in why(strange)
    leases = {each["session_id"]: each for each in played.answer["leases"]}
    assert leases[str(mine.pk)]["pod_defaults"] == TOLERATING
    assert leases[str(mine.pk)]["spec"]["pod_spec"] is None


def test_a_project_wins_over_the_executor_and_a_session_over_both(
    at: Project, played: Agent
) -> None:
    played.nodes = [node(each, {"pool": each}) for each in ("executor", "project", "own")]
    project_gets({"nodeSelector": {"pool": "project"}})
    plain = waiting(at, resources={"cpu": "1"})
    own = waiting(at, resources={"cpu": "1"}, pod_spec={"nodeSelector": {"pool": "own"}})
    far = waiting(at, resources={"cpu": "1"}, pod_spec={"nodeSelector": {"zone": "far"}})
    played.lease(pod_placing={"nodeSelector": {"pool": "executor"}})
    nodes = {each["session_id"]: each["nodes"] for each in played.answer["leases"]}
    assert nodes == {str(plain.pk): ["project"], str(own.pk): ["own"]}
    assert why(far).endswith("one: no node has the label zone=far")


def test_who_sets_them_chooses_nothing_that_runs_beside_the_secrets_of_others(
    at: Project, played: Agent
) -> None:
    """Containers cannot be given at all; labels and annotations, by which injectors add some, are
    left out where a session has secrets."""
    for name in ("containers", "initContainers", "shareProcessNamespace"):
        told = project_gets({name: [{}]}, status=400)["errors"]["pod_defaults"]
        assert "is no field of pod defaults" in told[0]
    defaults = {"metadata": {"annotations": {"inject": "mine"}, "labels": {"a": "b"}},
                "spec": {"nodeSelector": {}, "imagePullSecrets": [{"name": "key"}]}}  # fmt: skip
    project_gets(defaults)
    body = {"project": at.address, "command": ["true"]}
    admin().post("sessions/", {**body, "name": "plain"})
    admin().post("sessions/", {**body, "name": "secret", "secret_environ": {"KEY": "value"}})
    played.lease()
    got = {each["spec"]["name"]: each["pod_defaults"] for each in played.answer["leases"]}
    assert got["plain"] == defaults
    assert got["secret"] == {"spec": defaults["spec"]}


@pytest.mark.parametrize(
    ("defaults", "why"),
    [
        ({"hostNetwork": True}, "hostNetwork: is no field of pod defaults"),
        ({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "volumes[0].hostPath: is "),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations[0].key: must be given here"),
        ("gpu", "must be an object"),
    ],
)  # fmt: skip
def test_defaults_of_a_project_are_checked(at: Project, defaults: Any, why: str) -> None:
    (told,) = project_gets(defaults, status=400)["errors"]["pod_defaults"]
    assert why in told


def test_only_a_project_has_some_and_only_maintainers_set_them(at: Project, api: Api) -> None:
    for level in ("cluster", "domains/acme"):
        path = f"retry-settings/{level}/"
        told = project_gets(TOLERATING, status=400, path=path)["errors"]["pod_defaults"]
        assert told == ["can only be set for a project"]
        assert "pod_defaults" not in admin().read(path)
    assert api.call("PATCH", SETTINGS, {"pod_defaults": TOLERATING}).status_code == 403
    project_gets(TOLERATING)
    assert api.read(SETTINGS)["pod_defaults"] == TOLERATING
    assert project_gets({})["pod_defaults"] is None


def test_graphql_sets_and_tells_them(at: Project, graph: Graph) -> None:
    change = """mutation($input: UpdateRetrySettingsInput!) { updateRetrySettings(input: $input) {
        retrySettings { podDefaults } } }"""
    given = {"domain": "acme", "project": "work", "podDefaults": TOLERATING}
    told = graph.ask(change, input=given)["updateRetrySettings"]["retrySettings"]
    assert told == {"podDefaults": TOLERATING}


def test_a_maintainer_sets_them_on_the_page(at: Project, client: Any) -> None:
    ann = factories.user("ann", project=at, role=Role.MAINTAINER)
    client.force_login(ann)
    page = "/projects/acme/work/pods/"
    text = "tolerations:\n- {key: nvidia.com/gpu, operator: Exists}\n"
    assert client.post(page, {"pod_defaults": text}).status_code == 302
    assert RetrySettings.objects.get(project=at).pod_defaults == TOLERATING
    assert "nvidia.com/gpu" in client.get(page).content.decode()
    wrong = client.post(page, {"pod_defaults": "hostNetwork: true"})
    assert wrong.status_code == 400
    assert "hostNetwork: is no field of pod defaults" in wrong.content.decode()
    assert "hostNetwork: true" in wrong.content.decode()
    client.force_login(factories.user("bob", project=at))
    assert client.post(page, {"pod_defaults": ""}).status_code == 403
    assert "nvidia.com/gpu" in client.get(page).content.decode()


def test_characters_that_the_database_cannot_hold_do_no_harm(at: Project, played: Agent) -> None:
    odd = {"metadata": {"labels": {"a": "\x00"}}}
    project_gets(odd, status=400)
    selector = {"nodeSelector": {"a": "\x00"}}
    body = {"limits": {"max_sessions": 1}, "nodes": [], "pod_placing": selector}
    # As everywhere on the wire: a heartbeat must not fail for it.
    assert played.call("lease", body).status_code == 200
    assert "\x00" not in Executor.objects.get().pod_placing["nodeSelector"]["a"]
