"""Failure categories over REST: in order, checked, and read by the engine at once."""

from functools import partial
from typing import Any

import pytest
import yaml

from retry.policies.categories import FailureCategory as CategoryDocument
from sessions_app.core.errors import Conflict
from sessions_app.in_force.named_policies import failure_categories
from sessions_app.models import FailureCategory
from sessions_app.services.resources.categories import category_create
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.racing import race

PATH = "failure-categories/"
CUDA = f"{PATH}cuda_error/"
MATCHERS: list[dict[str, Any]] = [
    {"onTerminationMessage": {"pattern": "CUDA"}, "containerName": "main"},
    {"onExitCodes": {"operator": "NotIn", "values": [1, 77]}, "onConditions": ["OOMKilled"]},
    {"onPodMessage": {"pattern": "gpu"}},
    {"onSignatureTitle": {"pattern": "^RuntimeError: NCCL"}},
]


@pytest.fixture
def api() -> Api:
    return Api(factories.token(factories.user("root", superuser=True)))


def make(api: Api, name: str, **fields: Any) -> Any:
    response = api.post(PATH, {"name": name, "matchers": MATCHERS, **fields})
    assert response.status_code == 201, response.content
    return response.json()


def names(api: Api) -> list[str]:
    return [each["name"] for each in api.read(PATH)["results"]]


def test_a_category_is_made_and_read(api: Api) -> None:
    response = api.post(PATH, {"name": "cuda_error", "matchers": MATCHERS})
    assert response.status_code == 201
    made = response.json()
    assert api.read(response["Location"]) == made == api.read(CUDA)
    assert (made["name"], made["position"], made["matchers"]) == ("cuda_error", 0, MATCHERS)
    twice = api.post(PATH, {"name": "cuda_error", "matchers": MATCHERS})
    assert (twice.status_code, twice.json()["errors"]) == (409, {"name": ["is taken"]})


def test_names_may_be_any_text_without_a_slash(api: Api) -> None:
    response = api.post(PATH, {"name": "Größe: 100 %?", "matchers": MATCHERS})
    assert response.status_code == 201
    assert api.read(response["Location"])["name"] == "Größe: 100 %?"


def test_they_are_listed_and_tried_in_the_order_of_their_positions(api: Api) -> None:
    for name in ("one", "two", "three"):
        make(api, name)
    assert names(api) == ["one", "two", "three"]
    api.call("PATCH", f"{PATH}three/", {"position": -1})
    make(api, "first", position=-1)
    assert names(api) == ["first", "three", "one", "two"]
    assert [each.name for each in failure_categories()] == names(api)
    api.call("DELETE", f"{PATH}first/")
    assert [each.name for each in failure_categories()] == ["three", "one", "two"]


def test_put_makes_and_replaces(api: Api) -> None:
    assert api.call("PUT", CUDA, {"matchers": MATCHERS, "position": 4}).status_code == 201
    replaced = api.call("PUT", CUDA, {"name": "cuda_error", "matchers": MATCHERS[:1]})
    assert (replaced.status_code, replaced.json()["position"]) == (200, 4)
    assert replaced.json()["matchers"] == MATCHERS[:1]
    other = api.call("PUT", CUDA, {"name": "other", "matchers": MATCHERS})
    assert list(other.json()["errors"]) == ["name"]


def test_patch_changes_what_is_named(api: Api) -> None:
    make(api, "cuda_error")
    patched = api.call("PATCH", CUDA, {"matchers": MATCHERS[1:]}).json()
    assert (patched["matchers"], patched["position"]) == (MATCHERS[1:], 0)
    assert api.call("PATCH", CUDA, {"position": 9}).json()["matchers"] == MATCHERS[1:]
    assert api.call("PATCH", CUDA, {}).json()["position"] == 9
    assert list(api.call("PATCH", CUDA, {"name": "x"}).json()["errors"]) == ["name"]


def test_missing_categories_are_a_404(api: Api) -> None:
    for method, body in (("GET", None), ("PATCH", {"position": 1}), ("DELETE", None)):
        assert api.call(method, CUDA, body).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": None}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "a" * 64}, "name"),
        ({"matchers": []}, "matchers"),
        ({"matchers": None}, "matchers"),
        ({"matchers": [{}]}, "matchers[0]"),
        ({"matchers": [{"containerName": "main"}]}, "matchers[0]"),
        ({"matchers": MATCHERS * 26}, "matchers"),
        ({"matchers": [MATCHERS[0], {"onCauses": ["unknown"]}]}, "matchers[1].onCauses"),
        ({"matchers": [{"onConditions": ["Bad"]}]}, "matchers[0].onConditions[0]"),
        (
            {"matchers": [{"onExitCodes": {"operator": "In", "values": [0]}}]},
            "matchers[0].onExitCodes.values[0]",
        ),
        ({"matchers": [{"onPodMessage": {"pattern": "("}}]}, "matchers[0].onPodMessage.pattern"),
        ({"matchers": [{"onSignatureTitle": "NCCL"}]}, "matchers[0].onSignatureTitle"),
        ({"position": 2**31}, "position"),
        ({"position": 1.5}, "position"),
        ({"position": True}, "position"),
        ({"weight": 1}, "weight"),
    ],
)
def test_each_field_is_checked(api: Api, body: dict[str, Any], field: str) -> None:
    sent = {"name": "cuda_error", "matchers": MATCHERS, **body}
    response = api.post(PATH, sent)
    assert response.status_code == 400, response.content
    assert field in response.json()["errors"]
    assert not FailureCategory.objects.exists()


def test_yaml_is_read_and_answered(api: Api) -> None:
    text = yaml.safe_dump({"name": "cuda_error", "matchers": MATCHERS}).encode()
    assert api.post(PATH, text, content_type="application/yaml").status_code == 201
    headers = {"Authorization": f"Bearer {api.token}", "Accept": "application/yaml"}
    page = yaml.safe_load(api.http.get(f"/api/v2/{PATH}", headers=headers).content)
    assert page["results"][0]["matchers"] == MATCHERS


def test_pages_hold_all_once_also_where_positions_are_equal(
    api: Api, django_assert_num_queries: Any
) -> None:
    made = [
        make(api, f"category-{number:02}", position=number // 7)["name"] for number in range(25)
    ]
    found: list[str] = []
    path = f"{PATH}?page_size=4"
    while path:
        with django_assert_num_queries(2):
            page = api.read(path)
        found += [each["name"] for each in page["results"]]
        path = page["next"]
    assert found == made


def test_every_change_is_audited(api: Api) -> None:
    make(api, "cuda_error")
    api.call("PATCH", CUDA, {"position": 3})
    api.call("PATCH", CUDA, {"position": 3})
    api.call("DELETE", CUDA)
    entries = audited_acts().filter(object_type="failure_category").order_by("id")
    recorded = [(each.actor, each.action, each.object_id) for each in entries]
    verbs = ("create", "change", "delete")
    assert recorded == [("root", f"failure_category.{verb}", "cuda_error") for verb in verbs]
    assert entries[1].data["before"]["position"] == 0
    assert entries[1].data["after"]["position"] == 3


def test_the_engine_compiles_what_did_not_change_once(
    api: Api, django_assert_num_queries: Any
) -> None:
    make(api, "cuda_error")
    with django_assert_num_queries(1):
        first = failure_categories()
    assert failure_categories() is first
    api.call("PATCH", CUDA, {"matchers": MATCHERS[:1]})
    assert len(failure_categories()[0].matchers) == 1


@pytest.mark.django_db(transaction=True)
def test_one_name_made_twice_at_the_same_time() -> None:
    for number in range(6):
        document = CategoryDocument.model_validate(
            {"name": f"category-{number}", "matchers": MATCHERS}
        )
        calls = [partial(category_create, document, position=None, by="a")] * 2
        outcomes = race(*calls)
        assert sum(isinstance(each, Conflict) for each in outcomes) == 1
    assert FailureCategory.objects.count() == 6
