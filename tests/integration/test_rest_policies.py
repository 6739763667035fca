"""Policies over REST: documents in and out, scopes in addresses, and what is said when refused."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Project, Queue, RetryPolicy, Session
from sessions_app.models.tenants import Role
from sessions_app.services.resources.policies import policy_delete
from sessions_app.services.resources.queues import queue_save
from sessions_app.services.resources.retry_config import retry_settings_put
from tests import factories
from tests.agent import Api
from tests.factories import default_queue

PATH = "retry-policies/"
ML = f"{PATH}ml-training/"
YAML = "application/yaml"
ARMADA = Path(__file__).parent / "armada-retry-policy.yaml"
"""The example of Armada's own document."""
RULES: list[dict[str, Any]] = [
    {
        "name": "preempted",
        "action": "Retry",
        "onConditions": ["Preempted", "Evicted"],
        "antiAffinity": {"mode": "node"},
    },
    {
        "action": "Retry",
        "onConditions": ["OOMKilled"],
        "retryLimit": 3,
        "resources": {"memory": {"factor": 1.5, "max": "64Gi"}},
    },
    {
        "action": "Retry",
        "containerName": "main",
        "includeInitContainers": False,
        "onExitCodes": {"operator": "In", "values": [137, 143]},
    },
    {"action": "Retry", "onTerminationMessage": {"pattern": ".*TRANSIENT.*"}},
    {"action": "Retry", "onFailureCategory": ["cuda_error", "infiniband_error"]},
    {"action": "Retry", "onCauses": ["image_pull_failure"]},
]
SPEC: dict[str, Any] = {
    "retryLimit": 5,
    "defaultAction": "Fail",
    "backoff": {"initialDelay": "10s", "maxDelay": "5m", "multiplier": 2.0},
    "antiAffinity": {"mode": "none"},
    "rules": RULES,
}


def document(name: str = "ml-training", **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": name},
        "spec": SPEC,
        **parts,
    }


def specs(**spec: Any) -> dict[str, Any]:
    return document(spec=spec)


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("root", superuser=True)))


def attach(queue: Queue, *names: str) -> None:
    queue.retry_policies = list(names)
    queue_save(queue, by="root", fields=["retry_policies"])


def put(api: Api, path: str, body: Any, status: int = 200, **extra: Any) -> Any:
    response = api.call("PUT", path, body, **extra)
    assert response.status_code == status, response.content
    return response.json()


def refused(api: Api, body: Any, path: str = PATH, status: int = 400) -> dict[str, list[str]]:
    response = api.post(path, body)
    assert response.status_code == status, response.content
    errors: dict[str, list[str]] = response.json()["errors"]
    assert RetryPolicy.objects.count() == 0
    return errors


class TestDocuments:
    def test_a_new_policy_comes_back_with_a_status(self, api: Api) -> None:
        response = api.post(PATH, document())
        assert response.status_code == 201
        assert response["Location"].endswith(f"/api/v2/{ML}")
        made = response.json()
        status = made.pop("status")
        assert made == document()
        assert datetime.fromisoformat(status.pop("created_at"))
        assert status == {
            "revision": 1,
            "created_by": "root",
            "archived_at": None,
            "warnings": [],
            "used_by": {"queues": [], "default": False},
        }
        assert api.read(response["Location"]).keys() == {*document(), "status"}
        assert api.post(PATH, document()).status_code == 409

    def test_a_policy_can_be_sent_back_as_it_was_read(self, api: Api) -> None:
        put(api, ML, document(), 201)
        read = api.read(ML)
        assert put(api, ML, read)["status"]["revision"] == 1
        read["spec"]["retryLimit"] = 6
        assert put(api, ML, read)["status"]["revision"] == 2
        assert api.read(ML)["spec"]["retryLimit"] == 6

    def test_keys_come_in_the_order_in_which_people_write_them(self, api: Api) -> None:
        put(api, ML, document(), 201)
        read = json.loads(api.get(ML).content)
        assert list(read) == ["apiVersion", "kind", "metadata", "spec", "status"]
        assert list(read["spec"]["rules"][0])[:2] == ["name", "action"]

    def test_a_rule_that_is_never_reached_gives_a_warning(self, api: Api) -> None:
        wide = {"action": "Fail", "onConditions": ["OOMKilled", "Evicted"], "name": "wide"}
        narrow = {"action": "Retry", "onConditions": ["Evicted"]}
        made = put(api, ML, specs(rules=[wide, narrow]), 201)
        (warning,) = made["status"]["warnings"]
        assert warning.startswith("spec.rules[1]")
        assert "wide" in warning

    def test_revisions_are_listed_newest_first(self, api: Api) -> None:
        for limit in (1, 2, 3):
            put(api, ML, specs(retryLimit=limit), 201 if limit == 1 else 200)
        page = api.read(f"{ML}revisions/?page_size=2")
        assert [each["revision"] for each in page["results"]] == [3, 2]
        assert page["results"][0]["document"] == specs(retryLimit=3)
        assert page["results"][0]["created_by"] == "root"
        rest = api.read(page["next"])
        assert [each["revision"] for each in rest["results"]] == [1]
        assert rest["next"] is None
        assert api.get(f"{PATH}missing/revisions/").status_code == 404

    def test_the_name_in_the_address_is_the_documents(self, api: Api) -> None:
        response = api.call("PUT", ML, document("other"))
        assert response.status_code == 400
        assert list(response.json()["errors"]) == ["metadata.name"]

    def test_deleting_says_what_it_came_to(self, api: Api, at: Project) -> None:
        put(api, ML, document(), 201)
        assert api.call("DELETE", ML).json() == {"outcome": "deleted"}
        assert api.get(ML).status_code == api.call("DELETE", ML).status_code == 404
        put(api, ML, document(), 201)
        factories.submit(at, retry_policies=["ml-training"])
        response = api.call("DELETE", ML)
        assert (response.status_code, response.json()) == (200, {"outcome": "archived"})
        assert api.read(ML)["status"]["archived_at"] is not None
        assert api.read(PATH)["results"] == []
        assert len(api.read(f"{PATH}?archived=true")["results"]) == 1
        assert put(api, ML, document(), 201)["status"]["revision"] == 2

    def test_deleting_what_is_named_lists_the_places(self, api: Api, at: Project) -> None:
        put(api, ML, document(), 201)
        attach(default_queue(at), "ml-training")
        retry_settings_put(ConfigScope(), default_policy="ml-training", by="root")
        used_by = {"queues": ["acme/work/default"], "default": True}
        assert api.read(ML)["status"]["used_by"] == used_by
        response = api.call("DELETE", ML)
        assert response.status_code == 409
        assert response.json()["used_by"] == used_by
        assert "acme/work/default" in response.json()["detail"]
        assert api.read(ML)["status"]["archived_at"] is None


class TestYaml:
    def test_a_document_in_yaml_is_the_same_in_json(self, api: Api) -> None:
        text = yaml.safe_dump(document()).encode()
        response = api.post(PATH, text, content_type=YAML)
        assert response.status_code == 201, response.content
        assert put(api, ML, document())["status"]["revision"] == 1

    def test_a_document_of_armada_is_read_as_our_own(self, api: Api) -> None:
        text = ARMADA.read_bytes()
        made = api.call("PUT", ML, text, content_type=YAML)
        assert made.status_code == 201, made.content
        kept = api.read(ML)
        assert kept["apiVersion"] == "reprise/v1"
        assert kept["spec"] == yaml.safe_load(text)["spec"]
        # The same under our own version says nothing new.
        own = text.replace(b"armadaproject.io/v1", b"reprise/v1")
        again = api.call("PUT", ML, own, content_type=YAML)
        assert (again.status_code, again.json()["status"]["revision"]) == (200, 1)
        body = {
            "policies": [yaml.safe_load(text)],
            "chains": [{"terminations": [{"conditions": ["Preempted"]}]}],
        }
        found = api.post(f"{PATH}simulate/", body)
        assert found.status_code == 200, found.content
        other = text.replace(b"armadaproject.io/v1", b"example.com/v1")
        refused = api.call("PUT", ML, other, content_type=YAML)
        why = "must be 'reprise/v1', or a version of armadaproject.io"
        assert refused.json()["errors"] == {"apiVersion": [why]}

    def test_fields_that_only_armada_knows_are_ignored_with_a_warning(self, api: Api) -> None:
        text = ARMADA.read_bytes().replace(b"io/v1", b"io/v1beta1")
        made = api.call("PUT", ML, text + b"  weight: 3\n", content_type=YAML)
        assert made.status_code == 201, made.content
        warning = "spec.weight is not known here and is ignored"
        assert made.json()["status"]["warnings"] == [warning]
        assert api.read(ML)["status"]["warnings"] == []
        assert "weight" not in api.read(ML)["spec"]
        mutation = """
            mutation ($yaml: String!) { applyRetryPolicy(input: {yaml: $yaml}) {
                retryPolicy { status { warnings } } errors { field message } } }
        """
        asked = {"query": mutation, "variables": {"yaml": (text + b"  weight: 3\n").decode()}}
        applied = api.post("/graphql/", asked).json()["data"]["applyRetryPolicy"]
        assert applied["retryPolicy"]["status"]["warnings"] == [warning]

    def test_yaml_is_answered_to_who_asks_for_it(self, api: Api) -> None:
        put(api, ML, document(), 201)
        response = api.http.get(
            f"/api/v2/{ML}", headers={"Authorization": f"Bearer {api.token}", "Accept": YAML}
        )
        assert response["Content-Type"].startswith(YAML)
        assert yaml.safe_load(response.content) == api.read(ML)
        again = put(api, ML, response.content, content_type=YAML)
        assert again["status"]["revision"] == 1

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            (b"a: &a [x, x]\nb: &b [" + b"*a," * 60_000 + b"]", "values"),
            (b"a: " + b"[" * 5000, "nested deeper"),
            (b"kind: RetryPolicy\nkind: RetryPolicy", "repeated"),
            (b"a: !!python/name:os.system", "tags"),
            (b"a: [", "line 2"),
        ],
    )
    def test_bombs_and_junk_are_a_400(self, api: Api, body: bytes, why: str) -> None:
        for method, path in (("POST", PATH), ("PUT", ML)):
            response = api.call(method, path, body, content_type=YAML)
            assert response.status_code == 400
            assert why in response.json()["errors"]["body"][0]
            assert response["Content-Type"] == "application/problem+json"

    def test_a_repeated_key_in_json_is_a_400(self, api: Api) -> None:
        body = json.dumps(specs(retryLimit=1)).replace("}}", ', "retryLimit": 5}}').encode()
        assert "repeated" in str(refused(api, body))

    def test_a_body_over_the_limit_is_a_413(self, api: Api) -> None:
        body = b"# " + b"x" * (1024 * 1024)
        assert api.post(PATH, body, content_type=YAML).status_code == 413

    def test_other_types_are_a_415(self, api: Api) -> None:
        assert api.post(PATH, b"a: 1", content_type="text/plain").status_code == 415


class TestScopes:
    def test_the_scope_is_in_the_address_the_document_or_both(self, api: Api, at: Project) -> None:
        metadata = {"name": "ml-training", "domain": "acme", "project": "work"}
        placed = document(metadata=metadata)
        for path, body, status in (
            (f"{ML}?project=acme/work", document(), 201),
            (f"{ML}?domain=acme&project=work", document(), 200),
            (f"{ML}?project=acme/work", placed, 200),
            (ML, placed, 200),
        ):
            made = put(api, path, body, status)
            assert (made["metadata"], made["status"]["revision"]) == (metadata, 1)
        assert api.get(ML).status_code == 404
        assert api.read(f"{ML}?project=acme/work")["metadata"] == metadata
        response = api.call("PUT", f"{ML}?domain=acme", placed)
        assert list(response.json()["errors"]) == ["metadata.project"]

    def test_the_location_finds_it(self, api: Api, at: Project) -> None:
        for scope in ({"domain": "acme"}, {"domain": "acme", "project": "work"}, {}):
            name = f"policy-{len(scope)}"
            response = api.post(PATH, document(metadata={"name": name, **scope}))
            assert api.read(response["Location"])["metadata"] == {"name": name, **scope}

    def test_a_name_on_the_same_line_is_a_409(self, api: Api, at: Project) -> None:
        put(api, f"{ML}?project=acme/work", document(), 201)
        for path in (ML, f"{ML}?domain=acme"):
            response = api.call("PUT", path, document())
            assert response.status_code == 409
            assert response.json()["errors"] == {"metadata.name": ["is taken"]}
            assert "acme/work" in response.json()["detail"]

    def test_lists_show_what_applies_to_whom(self, api: Api, at: Project) -> None:
        other = factories.project("other", domain="acme")
        far = factories.project("far", domain="globex")
        factories.named_policy("cluster-wide")
        factories.named_policy("acme-wide", domain=at.domain)
        factories.named_policy("of-work", project=at)
        factories.named_policy("of-other", project=other)
        factories.named_policy("globex-wide", domain=far.domain)
        admin = factories.user(superuser=True)
        domain_member = factories.user(domain=at.domain, role=Role.VIEWER)
        for token, expected in (
            (factories.token(factories.user(project=at)), "cluster-wide acme-wide of-work"),
            (factories.token(domain_member), "cluster-wide acme-wide of-work of-other"),
            (factories.token(admin, project=at), "cluster-wide acme-wide of-work"),
            (factories.token(factories.user()), "cluster-wide"),
            (factories.token(factories.user(project=far)), "cluster-wide globex-wide"),
        ):
            assert names(Api(token)) == expected.split()
        assert names(api, "?domain=acme") == ["acme-wide"]
        assert names(api, "?project=acme/other") == ["of-other"]
        assert len(names(api)) == 5

    def test_a_list_comes_in_pages(self, api: Api) -> None:
        made = [factories.named_policy().name for _ in range(5)]
        found, path = [], f"{PATH}?page_size=2"
        while path:
            page = api.read(path)
            found += [each["metadata"]["name"] for each in page["results"]]
            path = page["next"]
        assert found == made

    def test_a_list_takes_as_many_queries_for_many_as_for_one(
        self, api: Api, at: Project, django_assert_num_queries: Any
    ) -> None:
        token = factories.token(factories.user(project=at))
        reader = Api(token)
        factories.named_policy("first")
        attach(default_queue(at), "first")
        reader.read(PATH)
        with django_assert_num_queries(5) as few:
            reader.read(PATH)
        for number in range(20):
            factories.named_policy(f"more-{number}", project=at if number % 2 else None)
        attach(default_queue(at), "first", *[f"more-{number}" for number in range(10)])
        with django_assert_num_queries(len(few)):
            assert len(reader.read(PATH)["results"]) == 21

    def test_of_the_queues_that_name_it_only_those_one_may_see_are_told(self, at: Project) -> None:
        far = factories.project("far", domain="globex")
        factories.named_policy("shared")
        for project in (at, far):
            attach(default_queue(project), "shared")
        member = Api(factories.token(factories.user(project=at)))
        users = member.read(f"{PATH}shared/")["status"]["used_by"]
        assert users == {"queues": ["acme/work/default"], "default": False}
        assert member.read(PATH)["results"][0]["status"]["used_by"] == users


def names(api: Api, query: str = "") -> list[str]:
    return [each["metadata"]["name"] for each in api.read(f"{PATH}{query}")["results"]]


class TestAttached:
    def test_a_session_adds_policies(self, api: Api, at: Project) -> None:
        put(api, ML, document(), 201)
        body = {"project": "acme/work", "command": ["x"], "retry_policies": ["ml-training"]}
        made = api.post("sessions/", body).json()
        assert made["retry_policies"] == ["ml-training"]
        body["retry_policies"] = ["one", "ml-training", "two"]
        response = api.post("sessions/", body)
        assert response.status_code == 400
        assert response.json()["errors"] == {"retry_policies": ["unknown retry policies: one, two"]}
        assert Session.objects.count() == 1

    def test_in_bulk_each_has_its_own(self, api: Api, at: Project) -> None:
        put(api, ML, document(), 201)
        base = {"project": "acme/work", "command": ["x"]}
        items = [
            base,
            {**base, "retry_policies": ["ml-training"]},
            {**base, "retry_policies": ["x"]},
        ]
        outcomes = api.post("sessions/bulk/", {"sessions": items}).json()["results"]
        assert [each["outcome"] for each in outcomes] == ["created", "created", "refused"]
        assert list(outcomes[2]["problem"]["errors"]) == ["retry_policies"]
        stored = Session.objects.order_by("id").values_list("retry_policies", flat=True)
        assert list(stored) == [[], ["ml-training"]]

    @pytest.mark.parametrize("names", [["a"] * 17, "a", [3], [""], ["a" * 64]])
    def test_names_of_a_session_are_checked(self, api: Api, at: Project, names: Any) -> None:
        body = {"project": "acme/work", "command": ["x"], "retry_policies": names}
        response = api.post("sessions/", body)
        assert response.status_code == 400
        assert all(field.startswith("retry_policies") for field in response.json()["errors"])


class TestSettings:
    path = "retry-settings/cluster/"

    def test_the_clusters_have_a_default_policy_and_storm_limits(self, api: Api) -> None:
        nothing = {
            "default_policy": None,
            "retries_per_minute": None,
            "queue_retries_per_minute": None,
        }
        assert api.read(self.path).items() >= nothing.items()
        factories.named_policy("usual")
        wanted = {
            "default_policy": "usual",
            "retries_per_minute": 600,
            "queue_retries_per_minute": 1,
        }
        assert put(api, self.path, wanted).items() >= wanted.items()
        assert api.call("PATCH", self.path, {"mode": "paused"}).json().items() >= wanted.items()
        changed = api.call("PATCH", self.path, {"default_policy": None}).json()
        assert changed["default_policy"] is None
        assert changed["retries_per_minute"] == 600
        assert api.call("DELETE", self.path).status_code == 204
        assert api.read(self.path).items() >= nothing.items()

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("default_policy", "missing"),
            ("default_policy", ""),
            ("default_policy", 3),
            ("retries_per_minute", 0),
            ("retries_per_minute", 1.5),
            ("queue_retries_per_minute", -1),
            ("queue_retries_per_minute", True),
        ],
    )
    def test_each_is_checked(self, api: Api, field: str, value: Any) -> None:
        response = api.call("PATCH", self.path, {field: value})
        assert response.status_code == 400
        assert list(response.json()["errors"]) == [field]

    def test_they_are_the_clusters_only(self, api: Api, at: Project) -> None:
        factories.named_policy("usual")
        sent = {"default_policy": "usual", "retries_per_minute": 1, "queue_retries_per_minute": 1}
        for path in ("retry-settings/domains/acme/", "retry-settings/projects/acme/work/"):
            response = api.call("PUT", path, sent)
            assert response.status_code == 400
            assert set(response.json()["errors"]) == set(sent)
            assert not api.read(path).keys() & sent.keys()


def test_the_example_of_the_documentation_can_be_applied(api: Api) -> None:
    page = (Path(__file__).parents[2] / "docs/policies.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    documents = [each for block in blocks for each in yaml.safe_load_all(block)]
    policies = [each for each in documents if each.get("kind") == "RetryPolicy"]
    assert policies
    for policy in policies:
        path = f"{PATH}{policy['metadata']['name']}/"
        made = put(api, path, yaml.safe_dump(policy).encode(), 201, content_type=YAML)
        assert made["status"]["warnings"] == []


def test_a_deleted_scope_takes_its_policies_along(api: Api) -> None:
    empty = factories.domain("empty")
    factories.named_policy("gone", domain=empty)
    empty.delete()
    assert names(api) == []
    policy_delete(factories.named_policy("gone").name, ConfigScope(), by="root")
