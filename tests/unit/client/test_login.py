import json
import stat
from pathlib import Path

import pytest

from tests.unit.client.conftest import Command
from tests.unit.client.server import TOKEN, FakeServer

ME = {"username": "ada", "cluster_admin": True, "project": "default/default", "read_only": False}


@pytest.fixture(autouse=True)
def known(server: FakeServer) -> None:
    server.on("GET /whoami/", ME)


def test_login_keeps_what_the_server_accepted(
    reprise: Command, server: FakeServer, config_file: Path
) -> None:
    result = reprise("login", server.url, "--token", TOKEN, "--name", "lab", "--project", "a/b")
    assert result.exit_code == 0
    assert f"Logged in to {server.url} as ada (cluster admin)" in result.stdout
    assert stat.S_IMODE(config_file.stat().st_mode) == 0o600
    shown = json.loads(reprise("context", "show", "-o", "json").stdout)
    assert shown == {
        "name": "lab",
        "url": server.url,
        "project": "a/b",
        "file": str(config_file),
    }


def test_login_takes_the_token_from_standard_input(reprise: Command, server: FakeServer) -> None:
    assert reprise("login", server.url, stdin=f"{TOKEN}\n").exit_code == 0
    assert reprise("login", server.url, stdin="").exit_code == 2


def test_login_with_the_file_of_a_standalone_server(
    reprise: Command, server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps({"url": server.url, "token": TOKEN, "project": "default/default"}))
    assert reprise("login", "--credentials", str(path)).exit_code == 0
    listed = json.loads(reprise("context", "list", "-o", "json").stdout)
    assert [(item["url"], item["project"], item["current"]) for item in listed] == [
        (server.url, "default/default", True)
    ]


@pytest.mark.parametrize("text", ["[]", "{", ""])
def test_junk_credentials_are_named(reprise: Command, tmp_path: Path, text: str) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(text)
    result = reprise("login", "--credentials", str(path))
    assert result.exit_code == 2
    assert "credentials.json" in result.stderr


def test_a_refused_token_is_not_kept(
    reprise: Command, server: FakeServer, config_file: Path
) -> None:
    result = reprise("login", server.url, "--token", "wrong")
    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
    assert not config_file.exists()


def test_contexts_are_chosen_by_name(reprise: Command, server: FakeServer) -> None:
    for name in ("one", "two"):
        reprise("login", server.url, "--token", TOKEN, "--name", name, "--project", f"d/{name}")
    assert "d/two" in reprise("context", "show").stdout
    assert "d/one" in reprise("--context", "one", "context", "show").stdout
    assert reprise("context", "use", "one").exit_code == 0
    assert reprise("context").stdout.splitlines()[1].split()[:2] == ["*", "one"]
    missing = reprise("context", "use", "three")
    assert missing.exit_code == 2
    assert "known: one, two" in missing.stderr
    assert TOKEN not in reprise("context", "show", "-o", "yaml").stdout
