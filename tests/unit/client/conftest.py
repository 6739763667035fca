from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reprise_client import Client
from reprise_client.cli.main import app
from typer.testing import CliRunner, Result

from tests.unit.client.server import TOKEN, FakeServer

Command = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    made = FakeServer()
    yield made
    made.close()


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(server.url, TOKEN) as made:
        yield made


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the command's configuration in this test; nothing else is known."""
    path = tmp_path / "config" / "reprise.yaml"
    for name in ("REPRISE_URL", "REPRISE_TOKEN", "REPRISE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REPRISE_CONFIG", str(path))
    monkeypatch.setenv("TZ", "UTC")
    return path


@pytest.fixture
def reprise(config_file: Path) -> Command:
    """The command, without a server."""

    def run(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(args), input=stdin, prog_name="reprise")

    return run


@pytest.fixture
def command(reprise: Command, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, with the test's server in the environment."""
    monkeypatch.setenv("REPRISE_URL", server.url)
    monkeypatch.setenv("REPRISE_TOKEN", TOKEN)
    return reprise
