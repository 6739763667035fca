"""`reprise retries`: the switch of a scope."""

import pytest

from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer

PROJECT = "/retry-settings/projects/research/vision/"


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setenv("REPRISE_PROJECT", "research/vision")


def answer(mode: str, effective: str = "") -> dict[str, object]:
    return {"scope": "research/vision", "mode": mode, "effective_mode": effective or mode}


def test_the_switch_of_the_project_is_shown(command: Command, server: FakeServer) -> None:
    server.on(f"GET {PROJECT}", answer("on", "paused"))
    shown = " ".join(command("retries").stdout.split())
    assert "Retries of project research/vision" in shown
    assert "paused, by a scope above (here they are on): retries are decided, and held" in shown
    assert [call.method for call in server.calls] == ["GET"]


@pytest.mark.parametrize("mode", ["on", "paused", "off"])
def test_it_is_set_with_one_word(command: Command, server: FakeServer, mode: str) -> None:
    server.on(f"PATCH {PROJECT}", answer(mode))
    done = command("retries", mode)
    assert done.exit_code == 0, done.output
    assert server.calls[-1].body == {"mode": mode}


def test_the_cluster_has_to_be_named(
    command: Command, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPRISE_PROJECT")
    server.on("GET /whoami/", {"username": "ada"})
    refused = command("retries", "paused")
    assert refused.exit_code == 2
    assert "name the scope: --project, --domain or --cluster" in refused.stderr
    server.on("PATCH /retry-settings/cluster/", answer("paused"))
    assert command("retries", "paused", "--cluster").exit_code == 0
    assert command("retries", "--cluster", "--domain", "research").exit_code == 2
    assert command("retries", "stopped").exit_code == 2
