"""`reprise apply`, `get`, `describe` and `delete` against a running server, and their manual."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reprise_client import Client

from tests.acceptance.running import ROOT, Standalone, clean_environ

pytestmark = pytest.mark.slow

MANUAL = ROOT / "docs" / "command.md"
POLICY = """\
apiVersion: reprise/v1
kind: Queue
metadata: {name: gpu}
spec: {retry_policies: [training]}
---
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: training}
spec:
  retryLimit: 2
  backoff: {initialDelay: 100ms}
  rules:
    - {name: killed, action: Retry, onExitCodes: {operator: In, values: [75]}}
    - {action: Fail, onExitCodes: {operator: In, values: [75]}}
"""
CATEGORY = """\
apiVersion: reprise/v1
kind: FailureCategory
metadata: {name: oops}
spec: {matchers: [{onTerminationMessage: {pattern: "1e3|\\u2028"}}]}
"""

Run = subprocess.CompletedProcess[str]
Shell = Callable[..., Run]


@pytest.fixture
def shell(standalone: Standalone, tmp_path: Path) -> Shell:
    """A shell in a directory of its own, where `reprise` is logged in."""
    programs = str(Path(sys.executable).parent)
    environ = clean_environ(REPRISE_CONFIG=str(tmp_path / "config.yaml"))
    environ["PATH"] = f"{programs}:{environ['PATH']}"

    def run(line: str, *, stdin: str = "") -> Run:
        return subprocess.run(
            ["sh", "-c", line],
            cwd=tmp_path,
            env=environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    done = run(f"reprise login --credentials '{standalone.data_dir}/credentials.json'")
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture
def training(shell: Shell) -> Iterator[None]:
    """A policy on a queue, for as long as the test runs."""
    applied = shell("reprise apply -f -", stdin=POLICY)
    made = r"retrypolicy/training created, revision 1\nqueue/default/default/gpu \w+ed\n"
    assert re.fullmatch(made, applied.stdout), applied
    assert "line 14, spec.rules[1]: (unnamed" in applied.stderr
    yield
    without = POLICY.replace("[training]", "[]")
    assert shell("reprise apply -f -", stdin=without).returncode == 0
    assert shell("reprise delete policy training").stdout == "retrypolicy/training deleted\n"


def test_a_session_comes_back_by_the_rule_of_its_queue(
    shell: Shell, training: None, client: Client
) -> None:
    done = shell("reprise run any --queue gpu -- sh -c 'exit 75'")
    assert done.returncode == 75
    assert "no retry, because the rule's retries are used up (training/killed)" in done.stderr
    first, second, third = client.sessions(queue="gpu", ordering="created_at")
    assert first.retry_state.rule == "training/killed"
    output = shell(f"reprise session explain {first.id}").stdout
    assert "Rule training/killed" in output
    assert "training/killed 1 of 2" in output
    assert "training/killed: 2 of 2 used" in shell(f"reprise session info {third.id}").stdout
    assert "pays training/killed 2 of 2" in shell(f"reprise session attempts {second.id}").stdout


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_applying_the_output_of_get_changes_nothing(
    shell: Shell, training: None, form: str
) -> None:
    assert shell("reprise apply -f -", stdin=CATEGORY).returncode == 0
    for kind in ("policies", "queues", "categories", "defaults"):
        done = shell(f"reprise get {kind} -o {form} | reprise apply -f - 2>&1")
        assert done.returncode == 0
        lines = [line for line in done.stdout.splitlines() if not line.startswith("warning: ")]
        assert all(re.search(r" unchanged(, revision 1)?$", line) for line in lines), lines
    assert shell("reprise delete category oops").returncode == 0


def test_an_attached_policy_is_not_deleted(shell: Shell, training: None, client: Client) -> None:
    client.retry_settings_update(default_policy="training")
    refused = shell("reprise delete policy training")
    client.retry_settings_update(default_policy=None)
    assert (refused.returncode, refused.stdout) == (5, "")
    assert refused.stderr.splitlines() == [
        "reprise: retrypolicy/training is named by 2 places; take it out there first:",
        "reprise: - queue default/default/gpu: reprise get queue default/default/gpu -o yaml",
        "reprise: - the cluster's default_policy: PATCH /api/v2/retry-settings/cluster/",
    ]
    assert shell("reprise get policy training -o name").stdout == "training\n"


def test_a_policy_of_a_project_is_found_from_within_it(shell: Shell, training: None) -> None:
    own = POLICY.partition("---\n")[2].replace("name: training", "name: own")
    applied = shell("reprise apply -f - --project default/default", stdin=own)
    assert applied.stdout == "retrypolicy/default/default/own created, revision 1\n"
    assert "project default/default" in shell("reprise describe policy own").stdout
    taken = own.replace("name: own", "name: training")
    refused = shell("reprise apply -f - --project default/default", stdin=taken)
    assert refused.returncode == 5
    assert "which this one would shadow" in refused.stderr
    assert shell("reprise delete policy own").stdout == "retrypolicy/default/default/own deleted\n"


def test_armadas_commands_work_as_its_users_type_them(shell: Shell, tmp_path: Path) -> None:
    text = (ROOT / "tests" / "integration" / "armada-retry-policy.yaml").read_text()
    infra = text.replace("name: ml-training", "name: infrastructure")
    (tmp_path / "retry-policy.yaml").write_text(f"{infra}---\n{text}")
    typed = (
        (0, "create -f ./retry-policy.yaml", "retrypolicy/infrastructure created, revision 1"),
        (5, "create -f ./retry-policy.yaml", "it exists"),
        (0, "get retrypolicy infrastructure", "infrastructure  cluster"),
        (0, "get retry-policy infrastructure -o yaml", "apiVersion: reprise/v1"),
        (0, "update -f ./retry-policy.yaml", "retrypolicy/ml-training unchanged, revision 1"),
        (0, "apply -f ./retry-policy.yaml", "retrypolicy/ml-training unchanged, revision 1"),
        (
            0,
            "simulate -f retry-policy.yaml --chains chains.yaml",
            "",
        ),
        (
            0,
            "create queue ml-queue --retry-policy infrastructure,ml-training",
            "queue/default/default/ml-queue created",
        ),
        (0, "get queue ml-queue", "infrastructure, ml-training"),
        (0, "delete queue ml-queue", "queue/default/default/ml-queue deleted"),
        (0, "delete retrypolicy infrastructure", "retrypolicy/infrastructure deleted"),
        (0, "delete retry-policy ml-training", "retrypolicy/ml-training deleted"),
        (3, "update -f ./retry-policy.yaml", "it does not exist"),
    )
    (tmp_path / "chains.yaml").write_text("terminations: [{conditions: [Preempted]}]\n")
    for code, command, printed in typed:
        done = shell(f"reprise {command} 2>&1")
        assert done.returncode == code, (command, done.stdout)
        assert printed in done.stdout, (command, done.stdout)


README = re.compile(r"## A first session of your own\n(.*?)\n## ", re.DOTALL)


def test_the_readme_works_when_it_is_typed_in_order(
    shell: Shell, standalone: Standalone, client: Client
) -> None:
    found = README.search((ROOT / "README.md").read_text())
    assert found is not None
    blocks = re.findall(r"```sh\n(.*?)```", found[1], re.DOTALL)
    typed = "".join(blocks)
    assert "make run " in typed
    script = re.sub(r"make run .*\n", "", typed)
    script = script.replace("http://127.0.0.1:8000", client.url)
    script = script.replace(
        "var/data/credentials.json", str(standalone.data_dir / "credentials.json")
    )
    script = script.replace(".venv/bin/", "").replace("curl ", "curl -fsS ")
    done = shell(f"set -e\n{script}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit code 3" in done.stdout
    assert "its retries are used up" in done.stdout
    assert "it failed, as it should" in done.stdout


_FENCE = re.compile(r"```(yaml|console)\n(.*?)```", re.DOTALL)


def test_the_manual_says_what_happens(shell: Shell, tmp_path: Path) -> None:
    for form, text in _FENCE.findall(MANUAL.read_text()):
        if form == "yaml":
            first, _, _ = text.partition("\n")
            (tmp_path / first.removeprefix("# ")).write_text(text)
            continue
        for command, shown in _commands(text):
            done = shell(f"{{ {command}\n}} 2>&1")
            assert done.returncode == 0, (command, done.stdout)
            _require(shown, done.stdout.splitlines(), command)


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, and the lines that it shows below."""
    for part in text.removeprefix("$ ").split("\n$ "):
        command, *shown = part.splitlines()
        yield command, shown


def _require(shown: list[str], printed: list[str], command: str) -> None:
    """The lines come in this order; others may stand between them. `...` is anything."""
    left = iter(printed)
    for line in shown:
        words = r"\s+".join(re.escape(word).replace(r"\.\.\.", ".*") for word in line.split())
        wanted = re.compile(rf"\s*{words}\s*")
        assert any(wanted.fullmatch(each) for each in left), (command, line, printed)
