import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.client import answers
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply, problem
from tests.unit.client.test_run import START, environment
from tests.waiting import PATIENCE_SECONDS

IN_DOMAIN = answers.policy("dp", metadata={"domain": "research"})
ELSEWHERE = answers.policy("xp", metadata={"domain": "sales", "project": "web"})
LAYER = {
    "scope": "research/vision",
    "policy": {"max_retries": 2},
    "bounds": {"max_retries": 10},
    "updated_at": answers.START.isoformat(),
    "effective": {
        "max_retries": {"value": 2, "layer": "project"},
        "eligible_causes": {"value": ["preempted", "unknown"], "layer": "shipped"},
        "max_chain_duration": {"value": None, "layer": "shipped"},
        "emit_retry_events": {"value": True, "layer": "cluster"},
    },
    "effective_bounds": {"max_retries": {"value": 10.0, "layer": "project"}},
}


@pytest.fixture(autouse=True)
def project(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_PROJECT", "research/vision")


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def missing(server: FakeServer, *routes: str) -> None:
    for route in routes:
        server.on(f"GET {route}", problem(404, "Not found"))


def test_policies_of_the_projects_scope_are_listed(command: Command, server: FakeServer) -> None:
    used = answers.policy(status={"used_by": {"queues": ["research/vision/q"], "default": True}})
    server.on("GET /retry-policies/", answers.page(used, IN_DOMAIN, ELSEWHERE))
    assert rows(command("get", "policies").stdout)[1:] == [
        ["ml", "cluster", "1", "1", "2"],
        ["dp", "research", "1", "1", "0"],
    ]
    assert command("get", "rp", "-A", "-o", "name").stdout == "ml\nresearch/dp\nsales/web/xp\n"
    wide = command("get", "Policies", "-o", "wide", "--domain", "sales").stdout
    assert "queue research/vision/q, the cluster's default_policy" in wide
    assert "dp" not in wide


@pytest.mark.parametrize(
    ("kind", "route", "item"),
    [
        ("policies", "/retry-policies/", answers.policy()),
        ("queues", "/queues/", answers.queue()),
        ("categories", "/failure-categories/", answers.category()),
    ],
)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_output_of_get_can_be_applied(
    command: Command, server: FakeServer, kind: str, route: str, item: dict[str, Any], form: str
) -> None:
    server.on(f"GET {route}", answers.page(item, item))
    text = command("get", kind, "-o", form).stdout
    found = json.loads(text) if form == "json" else list(yaml.safe_load_all(text))
    assert [each["apiVersion"] for each in found] == ["reprise/v1"] * 2
    place = f"{route}{'research/vision/' if kind == 'queues' else ''}{item.get('name', 'ml')}/"
    server.on(f"GET {place}", item)
    server.on(f"PUT {place}", item)
    result = command("apply", "-f", "-", stdin=text)
    assert result.exit_code == 0, result.stderr
    assert [line.split(",")[0].endswith(" unchanged") for line in result.stdout.splitlines()] == [
        True,
        True,
    ]
    sent = next(call.body for call in server.calls if call.method == "PUT")
    assert "status" not in sent
    for key in sent:
        assert sent[key] == item[key]


def test_layers_are_listed_from_the_cluster_down(command: Command, server: FakeServer) -> None:
    server.on("GET /retry-defaults/cluster/", {"scope": "cluster"})
    server.on("GET /retry-defaults/domains/research/", {"scope": "research"})
    server.on("GET /retry-defaults/projects/research/vision/", LAYER)
    assert rows(command("get", "defaults").stdout)[1:] == [
        ["cluster"],
        ["research"],
        ["research/vision", "max_retries=2", "max_retries=10"],
    ]
    one = command("get", "defaults/research/vision", "-o", "yaml").stdout
    document = yaml.safe_load(one)
    assert document["metadata"] == {"domain": "research", "project": "vision"}
    assert document["spec"] == {"policy": {"max_retries": 2}, "bounds": {"max_retries": 10}}
    assert command("apply", "-f", "-", stdin=one).stdout == (
        "retrydefaults/research/vision unchanged\n"
    )


def test_a_layer_that_the_token_does_not_see_is_left_out(
    command: Command, server: FakeServer
) -> None:
    server.on("GET /retry-defaults/cluster/", {"scope": "cluster"})
    missing(server, "/retry-defaults/domains/research/")
    server.on("GET /retry-defaults/projects/research/vision/", LAYER)
    assert [row[0] for row in rows(command("get", "rd").stdout)[1:]] == [
        "cluster",
        "research/vision",
    ]
    missing(server, "/retry-defaults/projects/research/vision/")
    assert command("get", "rd").exit_code == 3


def test_a_name_is_looked_for_in_the_project_and_above(
    command: Command, server: FakeServer
) -> None:
    server.on(
        "GET /retry-policies/ml/",
        problem(404, "Not found"),
        answers.policy(status={"archived_at": answers.START.isoformat()}),
        answers.policy(revision=7),
    )
    found = command("get", "policy", "ml", "-o", "json").stdout
    assert json.loads(found)["status"]["revision"] == 7
    scopes = [{"project": "research/vision"}, {"domain": "research"}, {}]
    assert [call.query for call in server.calls] == scopes
    server.calls.clear()
    command("get", "policy/sales/web/ml")
    assert [call.query for call in server.calls] == [{"project": "sales/web"}]


def test_a_missing_item_names_the_scope_of_the_search(command: Command, server: FakeServer) -> None:
    result = command("get", "policy", "nope")
    assert result.exit_code == 3
    assert result.stderr == (
        "reprise: there is no retry policy 'nope' in project research/vision, domain research or "
        "the cluster; see: reprise get policies\n"
    )
    for kind, where in (("queue", " in project research/vision"), ("category", "")):
        result = command("describe", kind, "nope")
        assert result.exit_code == 3
        assert f"'nope'{where}; see: reprise get" in result.stderr
    assert command("delete", "defaults", "nowhere").exit_code == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["get", "widgets"], "the kinds are: domains, projects, memberships"),
        (["get", "polices"], "there is no kind 'polices' (did you mean policies?)"),
        (["describe", "policy"], "give a NAME; to list them: reprise get policies"),
        (["delete", "defaults"], "give cluster, DOMAIN or DOMAIN/NAME"),
        (["get", "policy/a", "b"], "not both"),
        (["get", "policies", "--project", "vision"], "--project takes DOMAIN/NAME"),
        (["get", "policies", "--project", "a/b", "--domain", "c"], "not in the domain c"),
    ],
)
def test_wrong_usage_is_2(command: Command, args: list[str], message: str) -> None:
    result = command(*args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_an_empty_list_says_what_to_do(command: Command, server: FakeServer) -> None:
    server.on("GET /queues/", answers.page())
    result = command("get", "queues")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        result.stderr
        == "No queues in project research/vision; to create one: reprise apply -f FILE\n"
    )
    assert command("get", "queues", "-o", "json").stdout == "[]\n"


def test_describe_a_policy(command: Command, server: FakeServer) -> None:
    spec = {
        "retryLimit": 5,
        "rules": [
            {"name": "lost", "action": "Retry", "onConditions": ["Preempted"]},
            {"action": "Fail", "onCauses": ["start_failure"]},
        ],
    }
    status = {"used_by": {"queues": ["research/vision/q"]}, "warnings": ["spec.rules[1] is odd"]}
    policy = answers.policy(revision=2, spec=spec, status=status)
    server.on("GET /retry-policies/ml/", policy)
    revisions = [{"revision": n, "created_by": "bob", "document": policy} for n in range(12, 0, -1)]
    server.on("GET /retry-policies/ml/revisions/", answers.page(*revisions))
    text = command("describe", "policy", "ml").stdout
    lines = {line[:17].strip(): line[17:].strip() for line in text.splitlines()[:9]}
    assert lines["Scope"] == "the cluster"
    assert lines["Revision"].startswith("2, ")
    assert lines["Used by"] == "queue research/vision/q"
    assert lines["Warning"] == "spec.rules[1] is odd"
    assert lines["No rule matches"].startswith("left to the session's own settings")
    assert "\n  1. lost: Retry on condition Preempted, at most 5 times" in text
    assert "*: Fail on cause start_failure " in text
    assert [row[0] for row in rows(text)[-11:]] == [str(n) for n in range(12, 2, -1)] + ["..."]


def test_describe_a_queue(command: Command, server: FakeServer) -> None:
    queue = answers.queue(retry_policies=["ml", "gone"], cordoned=True, cordon_reason="upgrade")
    server.on("GET /queues/research/vision/batch/", queue)
    server.on("GET /retry-policies/", answers.page(answers.policy()))
    text = command("describe", "queue", "batch").stdout
    assert "no session starts from it: upgrade" in text
    assert rows(text)[-2:] == [["1", "ml", "cluster", "1", "1", "0"], ["2", "gone"]]
    server.on("GET /queues/research/vision/batch/", answers.queue())
    server.on("GET /retry-settings/cluster/", {"default_policy": "ml"})
    text = command("describe", "queue", "research/vision/batch").stdout
    assert "none of its own: chains get the cluster's default, ml" in text


def test_describe_says_what_a_queue_holds(command: Command, server: FakeServer) -> None:
    usage = {"used": {"cpu": "20"}, "share": 0.25}
    queue = answers.queue(resource_limits={"cpu": "80"}, usage=usage, retry_policies=["ml"])
    server.on("GET /queues/research/vision/batch/", queue)
    server.on("GET /retry-policies/", answers.page(answers.policy()))
    text = command("describe", "queue", "batch").stdout
    assert "cpu 80" in text
    assert "25.0% of the pool" in text
    assert "cpu 20" in text


def test_describe_a_category(command: Command, server: FakeServer) -> None:
    rules = [{"action": "Retry", "onFailureCategory": ["cuda_error"], "name": "gpu"}]
    server.on("GET /retry-policies/", answers.page(answers.policy(spec={"rules": rules})))
    server.on("GET /failure-categories/cuda_error/", answers.category())
    text = command("describe", "category", "cuda_error").stdout
    assert "Asked for by  ml/gpu" in text
    assert "  1. a termination message with /CUDA error/" in text


def test_describe_defaults(command: Command, server: FakeServer) -> None:
    server.on("GET /retry-defaults/projects/research/vision/", LAYER)
    settings = {"mode": "on", "effective_mode": "paused"}
    server.on("GET /retry-settings/projects/research/vision/", settings)
    text = command("describe", "defaults").stdout
    assert server.calls[0].query == {"effective": "true"}
    assert "paused, by a scope above (here they are on)" in text
    assert ["max_retries", "project,", "here", "2"] in rows(text)
    assert ["eligible_causes", "shipped", "preempted,", "unknown"] in rows(text)
    assert ["max_chain_duration", "shipped", "none"] in rows(text)
    assert ["max_retries", "project,", "here", "10"] in rows(text)
    server.on("GET /retry-defaults/cluster/", {"scope": "cluster"})
    server.on("GET /retry-settings/cluster/", {"global_max_retries": 150, "retries_per_minute": 9})
    text = command("describe", "rd", "cluster").stdout
    assert ["Most", "retries", "of", "a", "chain", "150"] in rows(text)
    assert ["Retries", "a", "minute", "9"] in rows(text)


def test_delete_says_what_became_of_it(command: Command, server: FakeServer) -> None:
    server.on("GET /retry-policies/ml/", answers.policy())
    server.on("DELETE /retry-policies/ml/", {"outcome": "deleted"}, {"outcome": "archived"})
    assert command("delete", "policy", "ml").stdout == "retrypolicy/ml deleted\n"
    assert command("delete", "policy/ml", "--yes").stdout.startswith("retrypolicy/ml archived: ")
    server.on("GET /queues/research/vision/batch/", answers.queue())
    server.on("DELETE /queues/research/vision/batch/", Reply(b"", 204))
    assert command("delete", "q", "batch").stdout == "queue/research/vision/batch deleted\n"
    server.on("GET /failure-categories/cuda_error/", answers.category())
    server.on("DELETE /failure-categories/cuda_error/", Reply(b"", 204))
    assert command("delete", "fc/cuda_error").stdout == "failurecategory/cuda_error deleted\n"
    server.on("GET /retry-defaults/projects/research/vision/", LAYER)
    server.on("DELETE /retry-defaults/projects/research/vision/", Reply(b"", 204))
    output = command("delete", "defaults", "research/vision").stdout
    assert output.startswith("retrydefaults/research/vision deleted: it inherits")


def test_delete_tells_the_places_that_name_it(command: Command, server: FakeServer) -> None:
    server.on("GET /retry-policies/ml/", answers.policy())
    uses = {"queues": ["research/vision/batch"], "default": True}
    server.on("DELETE /retry-policies/ml/", problem(409, "Conflict", "named", used_by=uses))
    result = command("delete", "policy", "ml")
    assert result.exit_code == 5
    assert result.stderr.splitlines() == [
        "reprise: retrypolicy/ml is named by 2 places; take it out there first:",
        "reprise: - queue research/vision/batch: reprise get queue research/vision/batch -o yaml",
        "reprise: - the cluster's default_policy: PATCH /api/v2/retry-settings/cluster/",
    ]
    server.on("GET /queues/research/vision/batch/", answers.queue())
    full = problem(409, "Conflict", "the queue has sessions")
    server.on("DELETE /queues/research/vision/batch/", full)
    result = command("delete", "queue", "batch")
    assert result.stderr == "reprise: queue/research/vision/batch: the queue has sessions\n"


@pytest.mark.parametrize(("answer", "deleted"), [("y\n", 1), ("n\n", 0)])
def test_delete_asks_who_is_there(
    server: FakeServer, tmp_path: Path, answer: str, deleted: int
) -> None:
    rules = [{"action": "Retry", "onFailureCategory": ["cuda_error"], "name": "gpu"}]
    server.on("GET /retry-policies/", answers.page(answers.policy(spec={"rules": rules})))
    server.on("GET /failure-categories/cuda_error/", answers.category())
    server.on("DELETE /failure-categories/cuda_error/", Reply(b"", 204))
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as terminal, os.fdopen(theirs, "rb") as stdin:
        terminal.write(answer.encode())
        done = subprocess.run(
            [*START, "delete", "category", "cuda_error"],
            stdin=stdin,
            env=environment(server, tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 1 - deleted
    assert "rules that ask for it will not match any more: ml/gpu" in done.stderr
    assert "Delete failurecategory/cuda_error? [y/N]" in done.stderr
    assert server.count("DELETE", "/failure-categories/cuda_error/") == deleted


def test_a_queue_is_cordoned_and_uncordoned(command: Command, server: FakeServer) -> None:
    path = "/queues/research/vision/batch/"
    server.on(f"GET {path}", answers.queue())
    server.on(f"POST {path}cordon/", answers.queue(cordoned=True))
    server.on(f"POST {path}uncordon/", answers.queue())
    output = command("queue", "cordon", "batch", "--reason", "upgrade").stdout
    assert output == "queue/research/vision/batch cordoned\n"
    assert server.calls[-1].body == {"reason": "upgrade"}
    output = command("queue", "uncordon", "research/vision/batch").stdout
    assert output == "queue/research/vision/batch uncordoned\n"
    assert command("queue", "cordon", "batch").exit_code == 2
    assert command("queue", "uncordon", "other").exit_code == 3
