"""Defaults, bounds and switches over REST, and what they do to sessions."""

from typing import Any

import pytest

from retry.evidence.causes import NEVER_CAUSES
from sessions_app.models import Project, RetryDefaults, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts

CLUSTER = "retry-defaults/cluster/"
DOMAIN = "retry-defaults/domains/acme/"
PROJECT = "retry-defaults/projects/acme/work/"


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("root", superuser=True)))


def put(api: Api, path: str, **body: Any) -> Any:
    response = api.call("PUT", path, body)
    assert response.status_code == 200, response.content
    return response.json()


def create(api: Api, **policy: Any) -> Any:
    return api.post("sessions/", {"project": "acme/work", "command": ["x"], "retry_policy": policy})


def test_defaults_begin_empty(api: Api) -> None:
    for path, scope in ((CLUSTER, "cluster"), (DOMAIN, "acme"), (PROJECT, "acme/work")):
        assert api.read(path) == {"scope": scope, "policy": {}, "bounds": {}, "updated_at": None}


def test_put_replaces_and_patch_changes(api: Api) -> None:
    put(api, PROJECT, policy={"max_retries": 3, "retry_delay": 5}, bounds={"max_retries": 9})
    patched = api.call("PATCH", PROJECT, {"policy": {"retry_delay": 7}}).json()
    assert patched["policy"] == {"max_retries": 3, "retry_delay": 7.0}
    assert patched["bounds"] == {"max_retries": 9}
    replaced = put(api, PROJECT, policy={"jitter": "NONE"})
    assert (replaced["policy"], replaced["bounds"]) == ({"jitter": "none"}, {})
    assert api.read(PROJECT)["policy"] == {"jitter": "none"}
    assert RetryDefaults.objects.count() == 1


def test_patch_unsets_a_field(api: Api) -> None:
    put(api, PROJECT, policy={"max_retries": 3, "retry_delay": 5}, bounds={"max_retries": 9})
    body = {"policy": {"max_retries": 4}, "unset": ["retry_delay", "jitter"]}
    patched = api.call("PATCH", PROJECT, body).json()
    assert (patched["policy"], patched["bounds"]) == ({"max_retries": 4}, {"max_retries": 9})
    merged = api.read(f"{PROJECT}?effective=true")["effective"]
    assert merged["retry_delay"] == {"value": 60.0, "layer": "shipped"}
    for unset, field in ((["delay"], "unset[0]"), (["max_retries"], "unset"), ("x", "unset")):
        refused = api.call("PATCH", PROJECT, {"policy": {"max_retries": 5}, "unset": unset})
        assert (refused.status_code, list(refused.json()["errors"])) == (400, [field])
    assert api.call("PUT", PROJECT, {"unset": []}).status_code == 400
    assert api.read(PROJECT)["policy"] == {"max_retries": 4}


def test_large_numbers_come_back_as_they_were_sent(api: Api) -> None:
    sent = {"retry_delay": 1e308, "backoff_multiplier": 1e300, "max_chain_duration": 1e308}
    put(api, PROJECT, policy=sent)
    session = create(api, max_retries=1).json()
    response = api.get(PROJECT)
    texts = [response.content, api.get(f"sessions/{session['id']}/").content]
    factories.settle(Session.objects.get(pk=session["id"]))
    texts.append(api.get(f"sessions/{session['id']}/retry-decision/").content)
    texts.append(api.get("audit/").content)
    assert all(b"0" * 30 not in text for text in texts)
    assert response.json()["policy"] == sent
    assert api.read(f"sessions/{session['id']}/")["retry_policy"]["retry_delay"] == 1e308


def test_an_unknown_cause_is_told_the_ones_that_can_be_retried(api: Api) -> None:
    (text,) = create(api, eligible_causes=["oom"]).json()["errors"]["retry_policy.eligible_causes"]
    assert "oom_killed" in text
    assert not [each for each in NEVER_CAUSES if each in text]


def test_patch_changes_one_setting_and_keeps_the_other(api: Api) -> None:
    path = "retry-settings/cluster/"
    put(api, path, mode="paused", global_max_retries=7)
    assert api.call("PATCH", path, {"mode": "on"}).json()["global_max_retries"] == 7
    assert api.call("PATCH", path, {"global_max_retries": None}).json()["mode"] == "on"
    assert api.call("PATCH", path, {}).json()["global_max_retries"] is None


def test_delete_inherits_again(api: Api) -> None:
    put(api, PROJECT, policy={"max_retries": 3})
    for _ in range(2):
        assert api.call("DELETE", PROJECT).status_code == 204
    assert api.read(PROJECT)["policy"] == {}


def test_every_change_is_audited(api: Api) -> None:
    put(api, PROJECT, policy={"max_retries": 3})
    api.call("DELETE", PROJECT)
    put(api, "retry-settings/domains/acme/", mode="paused")
    entries = audited_acts().order_by("id").values_list("actor", "action", "object_id")
    assert list(entries) == [
        ("root", "retry_defaults.create", "acme/work"),
        ("root", "retry_defaults.delete", "acme/work"),
        ("root", "retry_settings.create", "acme"),
    ]


def test_the_effective_policy_names_the_layer_of_each_field(api: Api) -> None:
    put(api, CLUSTER, policy={"max_retries": 1, "retry_delay": 1}, bounds={"max_retries": 9})
    put(api, DOMAIN, policy={"max_retries": 2, "max_retry_delay": None})
    put(api, PROJECT, policy={"max_retries": 3}, bounds={"max_retries": 5, "min_retry_delay": 0})
    merged = api.read(f"{PROJECT}?effective=true")
    effective = merged["effective"]
    assert effective["max_retries"] == {"value": 3, "layer": "project"}
    assert effective["max_retry_delay"] == {"value": None, "layer": "domain"}
    assert effective["retry_delay"] == {"value": 1.0, "layer": "cluster"}
    assert effective["jitter"] == {"value": "deterministic", "layer": "shipped"}
    assert merged["effective_bounds"] == {
        "max_retries": {"value": 5, "layer": "project"},
        "min_retry_delay": {"value": 0.0, "layer": "project"},
    }
    assert api.read(f"{DOMAIN}?effective=true")["effective"]["max_retries"]["value"] == 2
    assert "effective" not in api.read(PROJECT)


def test_a_session_freezes_the_merge_of_its_layers(api: Api) -> None:
    put(api, CLUSTER, policy={"max_retries": 1, "retry_delay": 1e-6, "jitter": "none"})
    put(api, DOMAIN, policy={"max_retries": 2})
    put(api, PROJECT, policy={"max_retries": 3, "max_retry_delay": None})
    made = create(api, backoff="exponential").json()
    assert made["max_retries"] == made["retry_policy"]["max_retries"] == 3
    assert made["retry_policy"]["backoff"] == "exponential"
    assert made["retry_policy"]["max_retry_delay"] is None
    put(api, PROJECT, policy={"max_retries": 9})
    session = factories.settle(Session.objects.get())
    retries_dispatch()
    child = factories.tip(session)
    assert child.max_retries == child.retry_policy["max_retries"] == 3


@pytest.mark.parametrize(
    ("bound", "limit", "field", "asked"),
    [
        ("max_retries", 3, "max_retries", 4),
        ("max_retries", 3, "max_retries", "unlimited"),
        ("max_preemption_retries", 3, "max_preemption_retries", 4),
        ("max_preemption_retries", 3, "max_preemption_retries", "unlimited"),
        ("max_chain_duration", 60, "max_chain_duration", 61),
        ("max_chain_duration", 60, "max_chain_duration", None),
        ("min_retry_delay", 10, "retry_delay", 9.5),
    ],
)
@pytest.mark.parametrize(("path", "layer"), [(CLUSTER, "cluster"), (DOMAIN, "domain"),
                                             (PROJECT, "project")])  # fmt: skip
def test_a_request_over_a_bound_names_field_bound_and_layer(
    api: Api, path: str, layer: str, bound: str, limit: int, field: str, asked: Any
) -> None:
    put(api, path, bounds={bound: limit})
    response = create(api, **{field: asked})
    assert response.status_code == 400
    ((name, (text,)),) = response.json()["errors"].items()
    assert name == f"retry_policy.{field}"
    assert str(limit) in text
    assert layer in text
    assert create(api, **{field: limit}).status_code == 201
    assert Session.objects.count() == 1


def test_of_the_bounds_the_strictest_wins(api: Api) -> None:
    put(api, CLUSTER, bounds={"max_retries": 2})
    put(api, PROJECT, bounds={"max_retries": 5})
    assert "cluster" in str(create(api, max_retries=3).json()["errors"])
    put(api, CLUSTER, bounds={"max_retries": 5})
    put(api, PROJECT, bounds={"max_retries": 2})
    assert "project" in str(create(api, max_retries=3).json()["errors"])


def test_defaults_over_a_bound_are_refused_and_nothing_is_changed(api: Api) -> None:
    put(api, CLUSTER, bounds={"max_retries": 2})
    for method in ("PUT", "PATCH"):
        response = api.call(method, PROJECT, {"policy": {"max_retries": 3}})
        assert response.status_code == 400
        assert list(response.json()["errors"]) == ["policy.max_retries"]
    assert api.read(PROJECT)["updated_at"] is None


def test_a_bound_that_is_lowered_later_is_applied_and_told(api: Api) -> None:
    made = create(api, max_retries=5, retry_delay=1e-6).json()
    put(api, DOMAIN, bounds={"max_retries": 0})
    session = factories.settle(Session.objects.get())
    assert session.retry_state == "not_retried"
    answer = api.read(f"sessions/{made['id']}/retry-decision/")
    bound = {"step": "bound", "field": "max_retries", "was": 5, "now": 0, "layer": "domain"}
    assert bound in answer["trace"]
    assert any("domain" in sentence for sentence in answer["explanation"])


def test_a_lowered_global_limit_ends_chains(api: Api) -> None:
    create(api, max_retries=5, retry_delay=1e-6, jitter="none")
    session = factories.settle(Session.objects.get())
    retries_dispatch()
    put(api, "retry-settings/cluster/", global_max_retries=1)
    last = factories.settle(factories.tip(session))
    assert last.retry_state == "exhausted"
    assert last.decision.reason == "global_limit"
    shown = api.read(f"sessions/{last.pk}/")["retry_state"]
    assert (shown["state"], shown["max_attempts"], shown["attempt"]) == ("exhausted", 2, 1)


def test_switches_are_read_and_set(api: Api) -> None:
    paths = {
        "cluster": "retry-settings/cluster/",
        "acme": "retry-settings/domains/acme/",
        "acme/work": "retry-settings/projects/acme/work/",
    }
    for scope, path in paths.items():
        shown = api.read(path)
        assert (shown["scope"], shown["mode"], shown["effective_mode"]) == (scope, "on", "on")
    assert api.read(paths["cluster"])["global_max_retries"] == 150
    put(api, paths["acme"], mode="OFF")
    project = put(api, paths["acme/work"], mode="paused")
    assert (project["mode"], project["effective_mode"]) == ("paused", "off")
    assert api.read(paths["cluster"])["effective_mode"] == "on"
    assert api.call("DELETE", paths["acme"]).status_code == 204
    assert api.read(paths["acme/work"])["effective_mode"] == "paused"


def test_a_patch_of_the_settings_keeps_the_rest(api: Api) -> None:
    path = "retry-settings/cluster/"
    put(api, path, mode="paused", global_max_retries=7)
    assert api.call("PATCH", path, {"mode": "on"}).json()["global_max_retries"] == 7
    assert api.call("PATCH", path, {"global_max_retries": 8}).json()["mode"] == "on"
    assert put(api, path)["global_max_retries"] == 150
