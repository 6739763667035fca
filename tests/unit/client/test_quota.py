"""`reprise quota`: what is sent, and what people see."""

import json

import pytest

from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer

PATH = "/quotas/projects/research/vision/"
ANSWER = {
    "scope": "research/vision",
    "sessions": 4,
    "pending_sessions": None,
    "resources": {"memory": "64Gi"},
    "usage": [
        {"scope": "research/vision", "name": "resources.memory", "limit": "64Gi", "used": "3Gi"},
        {"scope": "research", "name": "sessions", "limit": "40", "used": "7"},
    ],
}


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch, server: FakeServer, command: Command) -> None:
    monkeypatch.setenv("REPRISE_PROJECT", "research/vision")
    server.on(f"GET {PATH}", ANSWER)
    server.on(f"PATCH {PATH}", ANSWER)


def test_limits_are_shown_with_their_use(command: Command) -> None:
    lines = [line.split() for line in command("quota", "show").stdout.splitlines()]
    assert lines == [
        ["QUOTA", "USED", "LIMIT", "OF"],
        ["memory", "3Gi", "64Gi", "research/vision"],
        ["sessions", "7", "40", "research"],
    ]
    assert json.loads(command("quota", "show", "-o", "json").stdout) == ANSWER


def test_only_what_is_named_is_sent(command: Command, server: FakeServer) -> None:
    done = command("quota", "set", "sessions=4", "pending_sessions=none", "memory=64Gi", "gpu=none")
    assert done.exit_code == 0, done.output
    assert server.calls[-1].body == {
        "sessions": 4,
        "pending_sessions": None,
        "resources": {"memory": "64Gi", "gpu": None},
    }


def test_of_a_domain(command: Command, server: FakeServer) -> None:
    server.on("GET /quotas/domains/research/", {**ANSWER, "scope": "research"})
    assert command("quota", "show", "--domain", "research").exit_code == 0


@pytest.mark.parametrize("limit", ["sessions", "=4", "sessions=", "sessions=many", "sessions=-1"])
def test_impossible_limits_are_a_usage_error(
    command: Command, server: FakeServer, limit: str
) -> None:
    done = command("quota", "set", limit)
    assert done.exit_code == 2
    assert not server.calls
