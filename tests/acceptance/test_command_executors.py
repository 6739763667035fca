"""`reprise executor`, and an agent that runs with the token that it printed."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reprise_client import Client

from tests.acceptance.running import Program, Standalone, clean_environ, ended, submit
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

REPRISE = str(Path(sys.executable).with_name("reprise"))
AT_ONCE = {"REPRISE_SIMULATE": '{"exit_codes": [0], "seconds": 0.1}'}
Run = subprocess.CompletedProcess[str]
Reprise = Callable[..., Run]


@pytest.fixture
def reprise(standalone: Standalone) -> Reprise:
    credentials = standalone.credentials
    environ = clean_environ(REPRISE_URL=credentials["url"], REPRISE_TOKEN=credentials["token"])

    def run(*arguments: str) -> Run:
        return subprocess.run(
            [REPRISE, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    return run


@pytest.fixture
def name(reprise: Reprise, client: Client) -> Iterator[str]:
    """Of an executor that is to be made, and is gone afterwards."""
    yield "rack-7"
    until(lambda: client.executor("rack-7").lease_count == 0, "it holds nothing")
    done = reprise("executor", "delete", "rack-7", "--yes")
    assert (done.stdout, done.returncode) == ("executor/rack-7 deleted\n", 0), done.stderr


def agent(standalone: Standalone, name: str, token: str, state: Path, *options: str) -> Program:
    command = [sys.executable, "-m", "executor", "--name", name, "--driver", "simulated"]
    command += ["--url", standalone.credentials["url"], "--state-dir", str(state), *options]
    return Program(command, REPRISE_EXECUTOR_TOKEN=token)


def test_an_executor_from_its_token_to_its_cordon(
    standalone: Standalone, reprise: Reprise, client: Client, name: str, tmp_path: Path
) -> None:
    made = reprise("executor", "create", name, "--unconfirmed-after", "60")
    assert re.fullmatch(r"rpr_\S{43}\n", made.stdout), made
    assert made.stderr == f"executor/{name} created; its token is shown only once\n"
    again = reprise("executor", "create", name)
    assert (again.returncode, again.stdout) == (5, "")
    assert "already; a new token: reprise executor token rack-7" in again.stderr

    program = agent(standalone, name, made.stdout.strip(), tmp_path / "state")
    try:
        until(lambda: client.executor(name).health == "alive", "its agent has called in")
        assert reprise("executor", "cordon", "local", "--reason", "test").returncode == 0
        first = submit(client, "true", environ=AT_ONCE)
        assert ended(client, first)[0].executor == name
        output = reprise("describe", "executor", name).stdout
        assert re.search(r"Health\s+alive", output)
        assert re.search(r"Driver\s+simulated", output)
        assert re.search(r"NODE\s+HAS\s+FREE", output)

        closed = reprise("executor", "cordon", name, "--reason", "new racks")
        assert closed.stdout == f"executor/{name} cordoned\n"
        listed = reprise("get", "executors").stdout
        assert re.search(rf"^{name}\s+alive\s.*ago\s+yes\s", listed, re.MULTILINE), listed
        waits = submit(client, "true", environ=AT_ONCE)
        reason = until(lambda: client.session(waits).pending_reason, "it says why it waits")
        assert (
            "the executors that could run it are cordoned: local: test; rack-7: new racks" in reason
        )
        opened = reprise("executor", "uncordon", name)
        assert opened.stdout == f"executor/{name} uncordoned\n"
        assert ended(client, waits)[0].executor == name

        renewed = _json(reprise, "executor", "token", name, "-o", "json")
        assert renewed["name"] == name
        until(lambda: "or revoked" in program.stderr, "its agent is refused")
    finally:
        assert reprise("executor", "uncordon", "local").returncode == 0
        program.kill()


def test_a_cluster_grows_for_what_fits_no_node(
    standalone: Standalone, reprise: Reprise, client: Client, name: str, tmp_path: Path
) -> None:
    token = reprise("executor", "create", name).stdout.strip()
    gpu = {"name": "gpu", "resources": {"cpu": "64"}, "labels": {"pool": "gpu"}, "max": 1}
    file = tmp_path / "templates.json"
    file.write_text(json.dumps([gpu]))
    options = ("--nodes", "1", "--speed", "10", "--node-templates", str(file))
    program = agent(standalone, name, token, tmp_path / "state", *options)
    try:
        until(lambda: client.executor(name).health == "alive", "its agent has called in")
        (listed,) = client.executor(name).node_templates
        assert (listed.name, listed.max, listed.taints) == ("gpu", 1, [])
        # More than the nodes that are there have; one after the other on the only new node.
        large = {"resources": {"cpu": "64"}, "environ": AT_ONCE}
        tasks = [submit(client, "true", **large) for _ in range(2)]
        nodes = [ended(client, task)[0].node for task in tasks]
        assert nodes == ["gpu-0", "gpu-0"]
        assert re.search(r"gpu\s+cpu=64\s+pool=gpu", reprise("describe", "executor", name).stdout)
    finally:
        program.kill()


def test_applying_the_output_of_get_changes_nothing(
    reprise: Reprise, name: str, tmp_path: Path
) -> None:
    reprise("executor", "create", name, "--project", "default/default")
    assert reprise("get", "executors", "-o", "name").stdout == f"local\n{name}\n"
    document = _json(reprise, "get", "executor", name, "-o", "json")
    spec: dict[str, Any] = {
        "projects": ["default/default"],
        "unconfirmed_after": None,
        "placement": "node",
    }
    spec |= {"avoid_suspects": "off", "auto_quarantine": False, "preemption": "", "labels": {}}
    assert document["spec"] == spec
    path = tmp_path / "executor.json"
    path.write_text(json.dumps(document))
    assert reprise("apply", "-f", str(path)).stdout == f"executor/{name} unchanged\n"
    path.write_text(json.dumps({**document, "spec": {"unconfirmed_after": 60}}))
    assert reprise("apply", "-f", str(path)).stdout == f"executor/{name} configured\n"
    assert _json(reprise, "get", "executor", name, "-o", "json")["spec"]["projects"] == []
    path.write_text(json.dumps({**document, "metadata": {"name": "ghost"}}))
    refused = reprise("apply", "-f", str(path))
    assert refused.returncode == 3
    assert "metadata.name: there is no executor ghost; make it: reprise executor" in refused.stderr


def _json(reprise: Reprise, *arguments: str) -> Any:
    done = reprise(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
