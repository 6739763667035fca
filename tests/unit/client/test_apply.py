import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client import answers
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply, problem

POLICY = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: ml}
spec:
  rules:
    - action: Retry
      onExitCodes: {operator: In, values: [300]}
"""
QUEUE = """\
apiVersion: reprise/v1
kind: Queue
metadata: {name: batch}
spec: {retry_policies: [ml]}
"""
CATEGORY = """\
apiVersion: reprise/v1
kind: FailureCategory
metadata: {name: cuda_error}
spec:
  matchers: [{onTerminationMessage: {pattern: CUDA error}}]
"""
DEFAULTS = """\
apiVersion: reprise/v1
kind: RetryDefaults
metadata: {domain: research, project: vision}
spec: {policy: {max_retries: 2}}
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes documents into a file; its name."""

    def written(*documents: str, name: str = "team.yaml") -> str:
        path = tmp_path / name
        path.write_text("---\n".join(documents))
        return str(path)

    return written


@pytest.fixture
def project(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_PROJECT", "research/vision")


def test_a_policy_is_created_configured_and_unchanged(
    command: Command, server: FakeServer, write: Write
) -> None:
    file = write(POLICY)
    server.on("GET /retry-policies/ml/", problem(404, "Not found"), answers.policy())
    server.on("POST /retry-policies/", Reply(answers.policy(), 201))
    server.on("PUT /retry-policies/ml/", answers.policy(revision=2), answers.policy())
    output = [command("apply", "-f", file).stdout for _ in range(3)]
    assert output == [
        "retrypolicy/ml created, revision 1\n",
        "retrypolicy/ml configured, revision 2\n",
        "retrypolicy/ml unchanged, revision 1\n",
    ]
    assert server.calls[1].body["spec"]["rules"][0]["onExitCodes"]["values"] == [300]


def test_an_archived_policy_is_created_anew(
    command: Command, server: FakeServer, write: Write
) -> None:
    gone = answers.policy(status={"archived_at": answers.START.isoformat()})
    server.on("GET /retry-policies/ml/", gone)
    server.on("POST /retry-policies/", Reply(answers.policy(revision=2), 201))
    for word in ("apply", "create"):
        output = command(word, "-f", write(POLICY)).stdout
        assert output == "retrypolicy/ml created, revision 2\n"
    assert command("update", "-f", write(POLICY)).exit_code == 3


def test_create_makes_and_update_changes(
    command: Command, server: FakeServer, write: Write
) -> None:
    file = write(POLICY)
    server.on("GET /retry-policies/ml/", answers.policy())
    server.on("PUT /retry-policies/ml/", answers.policy(revision=2))
    assert command("update", "-f", file).stdout == "retrypolicy/ml configured, revision 2\n"
    refused = command("create", "-f", file)
    assert refused.exit_code == 5
    assert "it exists; to change it: reprise update -f FILE" in refused.stderr
    server.on("GET /retry-policies/ml/", problem(404, "Not found"))
    server.on("POST /retry-policies/", Reply(answers.policy(), 201))
    refused = command("update", "-f", file)
    assert refused.exit_code == 3
    assert "it does not exist; to create it: reprise create -f FILE" in refused.stderr
    assert command("create", "-f", file).stdout == "retrypolicy/ml created, revision 1\n"
    # Somebody else has made it between the look and the call.
    server.on("POST /retry-policies/", problem(409, "Conflict", "it is there"))
    assert command("create", "-f", file).exit_code == 5


def test_create_needs_a_file_or_a_command(command: Command, server: FakeServer) -> None:
    for arguments in (("--project", "a/b"), ("-f", "x.yaml", "domain", "research")):
        refused = command("create", *arguments)
        assert refused.exit_code == 2
    assert server.calls == []


def test_a_document_of_armada_is_sent_as_it_is(
    command: Command, server: FakeServer, write: Write
) -> None:
    text = POLICY.replace("reprise/v1", "armadaproject.io/v1beta1")
    file = write(f"comment: theirs\n{text}")
    server.on("GET /retry-policies/ml/", problem(404, "Not found"))
    made = answers.policy()
    made["status"]["warnings"] = ["comment is not known here and is ignored"]
    server.on("POST /retry-policies/", Reply(made, 201))
    applied = command("apply", "-f", file)
    assert applied.exit_code == 0
    assert server.calls[-1].body["apiVersion"] == "armadaproject.io/v1beta1"
    assert server.calls[-1].body["comment"] == "theirs"
    assert "line 1, comment: is not known here and is ignored" in applied.stderr
    # No other kind of ours has Armada's form.
    refused = command("apply", "-f", write(QUEUE.replace("reprise/v1", "armadaproject.io/v1")))
    assert "apiVersion: must be reprise/v1" in refused.stderr


def test_a_queue_is_made_with_the_policies_that_it_follows(
    command: Command, server: FakeServer, project: None
) -> None:
    server.on("POST /queues/", Reply(answers.queue(), 201))
    typed = ("--retry-policy", "infra, ml", "--retry-policy", "last", "--priority-factor", "0.5")
    assert command("create", "queue", "batch", *typed).exit_code == 0
    assert server.calls[-1].body == {
        "project": "research/vision",
        "name": "batch",
        "retry_policies": ["infra", "ml", "last"],
        "priority_factor": 0.5,
    }
    assert command("create", "queue", "lab/other/night").exit_code == 0
    assert server.calls[-1].body == {"project": "lab/other", "name": "night"}
    refused = command("create", "queue", "batch", "--retry-policy", "a,,b")
    assert refused.exit_code == 2
    assert command("create", "queue", "lab/x/night", "--project", "lab/y").exit_code == 2


def test_a_record_made_meanwhile_is_changed(
    command: Command, server: FakeServer, write: Write
) -> None:
    route = "/failure-categories/cuda_error/"
    server.on(f"GET {route}", problem(404, "Not found"), answers.category(position=1))
    server.on("POST /failure-categories/", problem(409, "Conflict", "it is there"))
    server.on(f"PUT {route}", answers.category())
    output = command("apply", "-f", write(CATEGORY)).stdout
    assert output == "failurecategory/cuda_error configured\n"


def test_a_shadowed_rule_is_a_warning_with_its_line(
    command: Command, server: FakeServer, write: Write
) -> None:
    warned = answers.policy(status={"warnings": ["spec.rules[0] (a) is never reached: why"]})
    server.on("GET /retry-policies/ml/", warned)
    server.on("PUT /retry-policies/ml/", warned)
    file = write(POLICY)
    assert command("apply", "-f", file).stderr == (
        f"warning: {file}, document 1, line 6, spec.rules[0]: (a) is never reached: why\n"
    )


def test_dependencies_go_first(
    command: Command, server: FakeServer, write: Write, project: None
) -> None:
    for route in ("retry-policies/ml", "failure-categories/cuda_error"):
        server.on(f"GET /{route}/", problem(404, "Not found"))
    server.on("GET /queues/research/vision/batch/", problem(404, "Not found"))
    server.on("GET /retry-defaults/projects/research/vision/", {"scope": "research/vision"})
    server.on("POST /retry-policies/", Reply(answers.policy(), 201))
    server.on("POST /failure-categories/", Reply(answers.category(), 201))
    server.on("POST /queues/", Reply(answers.queue(), 201))
    server.on("PUT /retry-defaults/projects/research/vision/", {"scope": "research/vision"})
    result = command("apply", "-f", write(QUEUE, DEFAULTS, POLICY, CATEGORY))
    assert result.stdout.splitlines() == [
        "failurecategory/cuda_error created",
        "retrypolicy/ml created, revision 1",
        "retrydefaults/research/vision created",
        "queue/research/vision/batch created",
    ]
    bodies = {call.path: call.body for call in server.calls if call.method in {"POST", "PUT"}}
    assert bodies["/queues/"] == {
        "project": "research/vision",
        "name": "batch",
        "retry_policies": ["ml"],
    }
    assert bodies["/failure-categories/"]["name"] == "cuda_error"
    assert bodies["/retry-defaults/projects/research/vision/"] == {
        "policy": {"max_retries": 2},
        "bounds": {},
    }


def test_queues_and_categories_that_are_there_are_compared(
    command: Command, server: FakeServer, write: Write, project: None
) -> None:
    server.on("GET /queues/research/vision/batch/", answers.queue())
    server.on("PUT /queues/research/vision/batch/", answers.queue(retry_policies=["ml"]))
    server.on("GET /failure-categories/cuda_error/", answers.category())
    server.on("PUT /failure-categories/cuda_error/", answers.category())
    assert command("apply", "-f", write(QUEUE, CATEGORY)).stdout.splitlines() == [
        "failurecategory/cuda_error unchanged",
        "queue/research/vision/batch configured",
    ]


def test_defaults_that_say_the_same_are_not_sent(
    command: Command, server: FakeServer, write: Write
) -> None:
    layer = {"scope": "research/vision", "policy": {"max_retries": 2.0}, "bounds": {}}
    server.on("GET /retry-defaults/projects/research/vision/", layer)
    output = command("apply", "-f", write(DEFAULTS)).stdout
    assert output == "retrydefaults/research/vision unchanged\n"


def test_settings_of_a_scope_are_set_if_they_differ(
    command: Command, server: FakeServer, write: Write
) -> None:
    layer = {"scope": "research/vision", "policy": {"max_retries": 2.0}, "bounds": {}}
    settings = "/retry-settings/projects/research/vision/"
    server.on("GET /retry-defaults/projects/research/vision/", layer)
    server.on(f"GET {settings}", {"refuse_unfittable": None}, {"refuse_unfittable": True})
    server.on(f"PATCH {settings}", {"refuse_unfittable": True})

    def with_settings(text: str) -> str:
        return DEFAULTS.replace("}}\n", f"}}, settings: {{{text}}}}}\n")

    for outcome in ("configured", "unchanged"):
        output = command("apply", "-f", write(with_settings("refuse_unfittable: true"))).stdout
        assert output == f"retrydefaults/research/vision {outcome}\n"
    bodies = [call.body for call in server.calls if call.method == "PATCH"]
    assert bodies == [{"refuse_unfittable": True}]
    wrong = command("apply", "-f", write(with_settings("mode: off")))
    assert "spec.settings.mode" in wrong.stderr


def test_a_null_setting_is_sent(command: Command, server: FakeServer, write: Write) -> None:
    server.on("GET /retry-defaults/cluster/", {"scope": "cluster"})
    server.on("GET /retry-settings/cluster/", {"global_max_retries": 150})
    server.on("PATCH /retry-settings/cluster/", {"global_max_retries": None})
    text = "apiVersion: reprise/v1\nkind: RetryDefaults\nmetadata: {}\n"
    document = write(f"{text}spec: {{settings: {{global_max_retries: null}}}}\n")
    assert command("apply", "-f", document).stdout == "retrydefaults/cluster configured\n"
    assert [call.body for call in server.calls if call.method == "PATCH"] == [
        {"global_max_retries": None}
    ]


def test_options_say_the_scope_of_documents_that_say_none(
    command: Command, server: FakeServer, write: Write
) -> None:
    server.on("GET /retry-policies/ml/", problem(404, "Not found"))
    made = answers.policy(metadata={"domain": "research"})
    server.on("POST /retry-policies/", Reply(made, 201))
    result = command("apply", "-f", write(POLICY), "--domain", "research")
    assert result.stdout == "retrypolicy/research/ml created, revision 1\n"
    assert [call.query for call in server.calls] == [{"domain": "research"}] * 2
    other = command("apply", "-f", write(DEFAULTS), "--domain", "research")
    assert other.exit_code == 2
    assert "metadata.project: must match the options, which name domain research" in other.stderr


def test_a_refusal_names_file_document_line_and_field(
    command: Command, server: FakeServer, write: Write, project: None
) -> None:
    file = write(QUEUE, POLICY)
    server.on("GET /retry-policies/ml/", problem(404, "Not found"))
    path = "spec.rules[0].onExitCodes.values[0]"
    errors = {path: ["must be between 1 and 255"], "body": ["is odd"]}
    server.on("POST /retry-policies/", problem(400, "Invalid", errors=errors))
    server.on("GET /queues/research/vision/batch/", answers.queue())
    unknown = {"retry_policies": ["unknown retry policies: ml"]}
    message = "unknown retry policies: ml (see: reprise get policies)"
    server.on("PUT /queues/research/vision/batch/", problem(400, "Invalid", errors=unknown))
    result = command("apply", "-f", file)
    assert result.exit_code == 5
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"reprise: {file}, document 2, line 12, {path}: must be between 1 and 255",
        f"reprise: {file}, document 2, line 6: is odd",
        f"reprise: {file}, document 1, line 4, spec.retry_policies: {message}",
    ]


def test_one_that_is_refused_does_not_stop_the_others(
    command: Command, server: FakeServer, write: Write
) -> None:
    server.on("GET /failure-categories/cuda_error/", problem(404, "Not found"))
    server.on("POST /failure-categories/", problem(403, "Not permitted", "cluster admins only"))
    server.on("GET /retry-policies/ml/", answers.policy())
    server.on("PUT /retry-policies/ml/", problem(409, "Conflict", "it would hide another one"))
    server.on("GET /retry-defaults/projects/research/vision/", {"scope": "research/vision"})
    server.on("PUT /retry-defaults/projects/research/vision/", {"scope": "research/vision"})
    result = command("apply", "-f", write(CATEGORY, POLICY, DEFAULTS))
    assert result.exit_code == 4
    assert "cluster admins only (the token may not do this: reprise context show)" in result.stderr
    assert "document 2, line 7: it would hide another one\n" in result.stderr
    assert result.stdout == "retrydefaults/research/vision created\n"


def test_a_dead_server_is_said_once(command: Command, server: FakeServer, write: Write) -> None:
    server.close()
    result = command("apply", "-f", write(CATEGORY, POLICY))
    assert result.exit_code == 6
    assert result.stderr.count("reprise: ") == 1


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        ("- 1", [", line 1: must be a mapping with apiVersion, kind, metadata and spec"]),
        (
            "{}",
            [
                ", apiVersion: must be reprise/v1",
                (
                    ", kind: must be one of: Domain, Executor, FailureCategory, Membership, "
                    "PriorityClass, Project, Queue, RetryDefaults, RetryPolicy, Schedule, Token"
                ),
            ],
        ),
        (POLICY.replace("spec", "spce"), ["spce: is not a known field", "spec: must be a mapping"]),
        (POLICY.replace("{name: ml}", "{}"), ["metadata.name: is required"]),
        (POLICY.replace("{name: ml}", "[]"), ["metadata: must be a mapping"]),
        (
            POLICY.replace("name: ml", "name: 5, labels: x"),
            ["metadata.name: must be text", "of a R"],
        ),
        (CATEGORY.replace("name:", "domain: d, name:"), ["metadata.domain: is not a known field"]),
        (CATEGORY.replace("spec:", "spec:\n  name: x"), ["spec.name: belongs in metadata"]),
        (QUEUE.replace("{retry", "{project: d/p, retry"), ["spec.project: belongs in metadata"]),
        (
            QUEUE.replace("name:", "project: d/p, name:"),
            ["metadata.project: must be written as domain: d and project: p"],
        ),
        (QUEUE.replace("name:", "project: p, name:"), ["metadata.project: requires the domain"]),
        (QUEUE, ["a queue belongs to a project: give --project DOMAIN/NAME"]),
        (DEFAULTS.replace("policy:", "polcy:"), ["spec.polcy: is not a known field"]),
        (DEFAULTS.replace("{max_retries: 2}", "5"), ["spec.policy: must be a mapping"]),
    ],
)
def test_a_malformed_document_is_not_sent(
    command: Command, server: FakeServer, write: Write, document: str, faults: list[str]
) -> None:
    server.on("GET /whoami/", {"username": "ada"})
    result = command("apply", "-f", write(document))
    assert result.exit_code == 2
    assert {call.method for call in server.calls} <= {"GET"}
    for fault, line in zip(faults, result.stderr.splitlines(), strict=False):
        assert line.startswith("reprise: ")
        assert ", document 1" in line
        assert fault in line


def test_nothing_is_sent_unless_all_of_it_can_be_read(
    command: Command, server: FakeServer, write: Write
) -> None:
    result = command("apply", "-f", write(POLICY, "kind: Policy\n", "spec: []\n"))
    assert result.exit_code == 2
    assert server.calls == []
    assert [line.count("document ") for line in result.stderr.splitlines()] == [1] * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: the key 'a' is repeated"),
        ('{"a": 1, "a": 2}', "the key 'a' is repeated"),
        ("1: 2\n", "line 1, column 1: a key must be text"),
        ("a: !!python/none\n", "line 1, column 4: could not determine a constructor"),
        ("a: .nan\n", "neither YAML nor JSON"),
        ("a: [1\n", "line 2, column 1: expected"),
        ("a: &a [*a]\n", "neither YAML nor JSON"),
        ("a: " + "[" * 9999, "nested too deeply"),
        ("", "there is no document in standard input"),
        ("---\n---\n", "there is no document in standard input"),
    ],
)
def test_an_unreadable_file_is_wrong_usage(
    command: Command, server: FakeServer, text: str, message: str
) -> None:
    result = command("apply", "-f", "-", stdin=text)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("reprise: ")
    assert server.calls == []


def test_files_come_from_directories_lists_and_further_arguments(
    command: Command, server: FakeServer, write: Write, tmp_path: Path
) -> None:
    server.on("GET /failure-categories/cuda_error/", answers.category())
    server.on("PUT /failure-categories/cuda_error/", answers.category())
    write(CATEGORY, name="a.yaml")
    write(CATEGORY, name="notes.txt")
    one: dict[str, Any] = {
        "apiVersion": "reprise/v1",
        "kind": "FailureCategory",
        "metadata": {"name": "cuda_error"},
        "spec": {"matchers": [], "position": 1e3},
    }
    write(json.dumps([one, one], indent="\t"), name="b.json")
    more = write(CATEGORY, name="c.txt")
    result = command("apply", "-f", str(tmp_path), more)
    assert result.stdout.count("unchanged") == 4
    sent = [call.body.get("position") for call in server.calls if call.method == "PUT"]
    assert sent == [None, 1000.0, 1000.0, None]


def test_a_file_that_is_not_there_is_said(command: Command, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    for name, why in (("none.yaml", "No such file"), ("latin.yaml", "it is not UTF-8 text")):
        result = command("apply", "-f", str(tmp_path / name))
        assert result.exit_code == 2
        assert f"cannot read {tmp_path / name}: {why}" in result.stderr
