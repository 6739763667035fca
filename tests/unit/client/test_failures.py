import json

from tests.unit.client import answers
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer

KEY = "90de43c4010e"
FAILURE = {
    "key": KEY,
    "project": "d/p",
    "title": "error: disk is full",
    "cause": "kernel_nonzero_exit",
    "muted": False,
    "first_seen": "2026-03-02T13:00:00Z",
    "last_seen": "2026-03-02T14:00:00Z",
    "example": answers.IDS[0],
    "sessions": 7,
    "chains": 5,
    "recovered_chains": 3,
    "lost_run_seconds": 90.0,
    "images": [{"value": "busybox:1", "sessions": 7}],
}


def test_failures_are_listed(command: Command, server: FakeServer) -> None:
    server.on("GET /failures/", answers.page(FAILURE))
    shown = command("failures", "--project", "d/p", "--queue", "batch", "--order", "chains").stdout
    assert server.calls[0].query == {
        "project": "d/p", "queue": "batch", "ordering": "-chains", "page_size": "20",
        "muted": "false",
    }  # fmt: skip
    for text in (KEY, "7", "5", "3", "error: disk is full"):
        assert text in shown
    assert json.loads(command("failures", "-o", "json").stdout) == [FAILURE]
    assert command("failures", "--all", "-o", "name").stdout == f"{KEY}\n"


def test_one_failure_is_shown_and_muted(command: Command, server: FakeServer) -> None:
    server.on(f"GET /failures/{KEY}/", FAILURE)
    shown = command("failures", KEY, "--project", "d/p").stdout
    assert server.calls[0].query == {"project": "d/p"}
    for text in ("7 attempts of 5 chains", "busybox:1 (7)", "3 chains", "kernel_nonzero_exit"):
        assert text in shown
    server.on(f"PATCH /failures/{KEY}/", FAILURE | {"muted": True})
    command("failures", KEY, "--mute")
    assert server.calls[-1].body == {"muted": True}
    assert "KEY" in command("failures", "--mute").stderr
