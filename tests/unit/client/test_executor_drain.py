from typing import Any

import pytest
from reprise_client.cli import executor

from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer

DRAIN, ONE = "POST /executors/gpu-1/drain/", "GET /executors/gpu-1/"


@pytest.fixture
def drained(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.0)
    server.on(DRAIN, {"name": "gpu-1", "asked": 7, "returned": 2, "left": 8, "kept": 1})
    return server


def test_it_says_what_it_did(command: Command, drained: FakeServer) -> None:
    result = command("executor", "drain", "gpu-1", "--reason", "new kernel")
    assert result.exit_code == 0
    line = "executor/gpu-1 draining: 7 runs asked to stop, 2 leases taken back, 8 left\n"
    assert result.stdout == line
    assert "1 of them are never retried and continue; --force ends them" in result.stderr
    assert drained.calls[0].body == {"reason": "new kernel", "force": False}


def test_it_waits_until_nothing_is_left(command: Command, drained: FakeServer) -> None:
    drained.on(ONE, *[_with(left) for left in (8, 8, 3, 0)])
    result = command("executor", "drain", "gpu-1", "--force", "--wait")
    assert result.exit_code == 0
    assert result.stdout.endswith("executor/gpu-1 drained\n")
    assert result.stderr.splitlines()[-2:] == ["8 left", "3 left"]
    assert drained.calls[0].body["force"] is True


def test_it_waits_no_longer_than_it_is_told(command: Command, drained: FakeServer) -> None:
    drained.on(ONE, _with(8))
    result = command("executor", "drain", "gpu-1", "--wait", "--timeout", "0")
    assert result.exit_code == 124
    assert "executor gpu-1 still has 8 leases" in result.stderr


def _with(left: int) -> dict[str, Any]:
    return {"name": "gpu-1", "lease_count": left}


def test_an_executor_in_trouble_says_so(command: Command, server: FakeServer) -> None:
    executor = {**_with(0), "health": "alive", "trouble": "no namespace reprise-acme--ml"}
    server.on(ONE, executor, executor)
    server.on("GET /executors/gpu-1/leases/", {"results": [], "next": None})
    server.on("GET /whoami/", {"username": "root", "is_superuser": True, "grants": []})
    result = command("get", "executor", "gpu-1")
    assert "alive, in trouble" in result.stdout, result.stderr
    assert "no namespace reprise-acme--ml" in command("describe", "executor", "gpu-1").stdout


def test_the_warnings_of_an_executor_are_shown(command: Command, server: FakeServer) -> None:
    server.on(ONE, {**_with(0), "health": "alive", "warnings": ["no PriorityClass high", "second"]})
    server.on("GET /executors/gpu-1/leases/", {"results": [], "next": None})
    server.on("GET /whoami/", {"username": "root", "is_superuser": True, "grants": []})
    shown = command("describe", "executor", "gpu-1").stdout
    lines = [line.split() for line in shown.splitlines() if "Warning" in line]
    assert lines == [["Warning", "no", "PriorityClass", "high"], ["Warning", "second"]]


def test_it_shows_the_nodes_that_its_cluster_can_add(command: Command, server: FakeServer) -> None:
    taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
    gpu = {"name": "gpu", "resources": {"cpu": "8"}, "labels": {"pool": "a"}, "taints": [taint]}
    server.on(ONE, {**_with(0), "health": "alive", "node_templates": [{**gpu, "max": 3}]})
    server.on("GET /executors/gpu-1/leases/", {"results": [], "next": None})
    server.on("GET /whoami/", {"username": "root", "is_superuser": True, "grants": []})
    words = command("describe", "executor", "gpu-1").stdout.split()
    assert " ".join(words[words.index("TEMPLATE") :]).startswith(
        "TEMPLATE HAS LABELS TAINTS AT MOST gpu cpu=8 pool=a gpu=a100:NoSchedule 3"
    )


def test_it_lists_what_is_kept_free(command: Command, server: FakeServer) -> None:
    row = {
        "executor": "gpu-1",
        "session_id": "0198c0de-0000-7000-8000-000000000001",
        "session_name": "large",
        "project": "acme/work",
        "queue": "default",
        "nodes": ["a", "b"],
        "since": "2026-11-23T08:00:00Z",
    }
    server.on("GET /reservations/", {"next": None, "previous": None, "results": [row]})
    result = command("executor", "reservations", "gpu-1")
    assert result.exit_code == 0, result.stderr
    assert server.calls[0].query == {"executor": "gpu-1"}
    assert "acme/work" in result.stdout
    assert "a, b" in result.stdout
    names = command("executor", "reservations", "-o", "name").stdout
    assert names.split() == [row["session_id"]]


def test_it_says_who_chooses_nodes_and_whether_room_is_made(
    command: Command, server: FakeServer
) -> None:
    lease = {
        "session_id": "s",
        "session_name": "train",
        "project": "acme/work",
        "status": "RUNNING",
    }
    leases = [
        {**lease, "node": "a", "nodes": ["a", "b", "a"]},
        {**lease, "node": "c"},
        {**lease, "template": "gpu"},
    ]
    server.on("GET /whoami/", {"username": "root", "is_superuser": True, "grants": []})
    server.on("GET /executors/gpu-1/leases/", {"results": leases, "next": None})
    server.on(ONE, {**_with(3), "placement": "node", "preemption": "dry_run"})
    words = " ".join(command("describe", "executor", "gpu-1").stdout.split())
    assert "Placement the server plans the nodes Preemption only recorded, nothing stops" in words
    assert words.endswith(
        "STATUS NODES s train acme/work RUNNING a, b s train acme/work RUNNING c"
        " s train acme/work RUNNING a new gpu"
    )


@pytest.mark.parametrize(("options", "sent"), [((), ""), (("--preemption", "dry_run"), "dry_run")])
def test_a_new_one_is_told_whether_it_preempts(
    command: Command, server: FakeServer, options: tuple[str, ...], sent: str
) -> None:
    server.on("POST /executors/", {"name": "gpu-1", "token": "rpr_x"})
    result = command("executor", "create", "gpu-1", *options)
    assert (result.stdout, server.calls[0].body["preemption"]) == ("rpr_x\n", sent)
    assert command("executor", "create", "gpu-1", "--preemption", "maybe").exit_code == 2
