"""`ETag` and `If-Match`: of two admins who change the same thing one is told, and loses nothing."""

from functools import partial
from typing import Any

import pytest

from sessions_app.core.errors import Outdated
from sessions_app.core.versions import Expected
from sessions_app.models import Project, Queue
from sessions_app.services.resources.queues import queue_save, queue_version
from tests import factories
from tests.agent import Api, admin
from tests.audit import audited_acts
from tests.racing import race

MATCHERS = [{"onConditions": ["OOMKilled"]}]


def document(limit: int) -> dict[str, Any]:
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": "one"}}
    return {**head, "spec": {"retryLimit": limit}}


def layers(kind: str) -> list[str]:
    places = ("cluster/", "domains/acme/", "projects/acme/work/")
    return [f"{kind}/{place}" for place in places]


THINGS: dict[str, tuple[str, Any, Any]] = {
    "retry-policies/one/": ("PUT", document(1), document(2)),
    "queues/acme/work/one/": ("PATCH", {"priority_factor": 2.0}, {"priority_factor": 3.0}),
    "failure-categories/one/": ("PATCH", {"position": 7}, {"position": 8}),
    "priority-classes/one/": ("PATCH", {"preemptible": False}, {"preemptible": True}),
    **{
        path: ("PATCH", {"policy": {"max_retries": 1}}, {"policy": {"max_retries": 2}})
        for path in layers("retry-defaults")
    },
    **{path: ("PATCH", {"mode": "paused"}, {"mode": "off"}) for path in layers("retry-settings")},
}
FULL: dict[str, Any] = {
    "failure-categories/one/": {"matchers": MATCHERS},
    "priority-classes/one/": {"value": 7},
}


@pytest.fixture
def api(at: Project) -> Api:
    factories.queue(at, "one")
    factories.named_policy("one")
    api = admin()
    made = api.post("failure-categories/", {"name": "one", "matchers": MATCHERS})
    assert made.status_code == 201
    assert api.post("priority-classes/", {"name": "one", "value": 7}).status_code == 201
    return api


def send(api: Api, method: str, path: str, body: Any, match: str) -> Any:
    headers = {"Authorization": f"Bearer {api.token}", "If-Match": match}
    return api.call(method, path, body, headers=headers)


def tag(api: Api, path: str) -> str:
    found: str = api.get(path)["ETag"]
    assert found.startswith('"')
    return found


@pytest.mark.parametrize("path", THINGS)
def test_the_second_writer_is_refused_and_changes_nothing(api: Api, path: str) -> None:
    method, first, second = THINGS[path]
    read = tag(api, path)
    assert tag(api, path) == read
    done = send(api, method, path, first, read)
    assert done.status_code == 200, done.content
    assert done["ETag"] == tag(api, path) != read
    before, audited = api.get(path).content, audited_acts().count()
    attempts = [(method, second), ("DELETE", None)]
    if method != "PUT":
        attempts.append(("PUT", {**FULL.get(path, {}), **second}))
    for verb, body in attempts:
        refused = send(api, verb, path, body, read)
        assert refused.status_code == 412, (verb, refused.content)
        assert refused["Content-Type"] == "application/problem+json"
        assert "changed it since" in refused.json()["detail"]
        assert api.get(path).content == before
    assert audited_acts().count() == audited
    # As before without it, and with what is there now, or anything.
    assert api.call(method, path, second).status_code == 200
    assert send(api, method, path, first, f'"other", {tag(api, path)}').status_code == 200
    assert send(api, "DELETE", path, None, "*").status_code in {200, 204}


@pytest.mark.parametrize("path", list(THINGS)[:3])
def test_a_missing_record_matches_nothing(api: Api, path: str) -> None:
    gone = path.replace("one", "two")
    body: Any = {"retry-policies/one/": {**document(1), "metadata": {"name": "two"}}}.get(
        path, FULL.get(path, {})
    )
    for match in ("*", '"abc"'):
        assert send(api, "PUT", gone, body, match).status_code == 412
        assert api.get(gone).status_code == 404
    assert api.call("PUT", gone, body).status_code == 201


@pytest.mark.parametrize("path", layers("retry-defaults") + layers("retry-settings"))
def test_a_layer_that_says_nothing_has_a_version_too(api: Api, path: str) -> None:
    method, first, second = THINGS[path]
    read = tag(api, path)
    assert send(api, method, path, first, read).status_code == 200
    assert send(api, method, path, second, read).status_code == 412


def test_a_policy_that_was_made_again_is_another(api: Api) -> None:
    path = "retry-policies/one/"
    read = tag(api, path)
    api.call("DELETE", path)
    api.call("PUT", path, document(5))
    assert send(api, "PUT", path, document(6), read).status_code == 412


@pytest.mark.parametrize("match", ["abc", "", '"a" "b"', '"a",', 'W/"a"x', "* , *"])
def test_a_malformed_etag_is_refused(api: Api, match: str) -> None:
    response = send(api, "PATCH", "queues/acme/work/one/", {"priority_factor": 9.0}, match)
    assert response.status_code == 400
    assert list(response.json()["errors"]) == ["If-Match"]


def test_a_weak_tag_matches_nothing(api: Api) -> None:
    path = "queues/acme/work/one/"
    weak = f"W/{tag(api, path)}"
    assert send(api, "PATCH", path, {"priority_factor": 9.0}, weak).status_code == 412


def test_a_version_tells_nothing_to_those_who_may_not_change_it(api: Api) -> None:
    stranger = Api(factories.token(factories.user()))
    path = "queues/acme/work/one/"
    for match in (tag(api, path), '"abc"'):
        assert send(stranger, "PATCH", path, {}, match).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_of_two_writers_at_once_one_wins() -> None:
    at = factories.project("work", domain="acme")
    factories.queue(at, "one")
    for number in range(10):
        copies = [Queue.objects.select_related("project__domain").get(name="one") for _ in "ab"]
        read = Expected(frozenset({queue_version(copies[0])}))
        for which, copy in enumerate(copies):
            copy.priority_factor = 10.0 + 2 * number + which
        writes = [
            partial(queue_save, copy, by="ann", fields={"priority_factor"}, expected=read)
            for copy in copies
        ]
        outcomes = race(*writes)
        lost = [isinstance(each, Outdated) for each in outcomes]
        assert sorted(lost) == [False, True]
        stored = Queue.objects.get(name="one").priority_factor
        assert stored == copies[lost.index(False)].priority_factor
