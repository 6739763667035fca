import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.client import answers
from tests.unit.client.server import FakeServer, problem
from tests.unit.client.test_run import environment
from tests.waiting import PATIENCE_SECONDS

REPRISE = str(Path(sys.executable).with_name("reprise"))


@pytest.fixture(autouse=True)
def policies(server: FakeServer) -> None:
    server.on("GET /whoami/", {"username": "ada", "project": "research/vision"})
    in_domain = answers.policy("mpi", metadata={"domain": "research"})
    server.on("GET /retry-policies/", answers.page(answers.policy(), in_domain))
    server.on("GET /queues/", answers.page(answers.queue()))


def completed(server: FakeServer, tmp_path: Path, *words: str) -> list[str]:
    """Return what bash is offered in place of the last word."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    environ = {**environment(server, tmp_path), **asked, "_REPRISE_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [REPRISE], env=environ, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["de"], ["describe", "delete"]),
        (["get", "q"], ["queues", "queue", "q"]),
        (["get", "policy", "m"], ["ml", "mpi"]),
        (["describe", "queue", "b"], ["batch"]),
        (["get", "nonsense", "b"], []),
        (["run", "--policy", "mp"], ["mpi"]),
        (["session", "create", "--queue", "ba"], ["batch"]),
    ],
)
def test_names_are_completed(
    server: FakeServer, tmp_path: Path, words: list[str], offered: list[str]
) -> None:
    assert completed(server, tmp_path, "reprise", *words) == offered


def test_kinds_are_offered_where_nothing_is_typed(server: FakeServer, tmp_path: Path) -> None:
    tenants = ["domains", "projects", "memberships"]
    offered = [
        *(*tenants, "categories", "priorityclasses", "policies", "defaults", "queues"),
        *("schedules", "executors", "tokens", "webhooks"),
    ]
    assert completed(server, tmp_path, "reprise", "get", "") == offered


def test_a_server_that_fails_offers_nothing(server: FakeServer, tmp_path: Path) -> None:
    server.on("GET /retry-policies/", problem(500, "Broken"))
    assert completed(server, tmp_path, "reprise", "get", "policy", "m") == []
    server.close()
    assert completed(server, tmp_path, "reprise", "get", "policy", "m") == []
