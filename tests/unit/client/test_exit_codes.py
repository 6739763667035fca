import pytest

from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply, problem


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (problem(400, "Invalid", errors={"image": ["missing"]}), 5),
        (problem(401, "Not authenticated"), 4),
        (problem(403, "Forbidden"), 4),
        (problem(404, "Not found"), 3),
        (problem(409, "Conflict"), 5),
        (problem(413, "Too large"), 5),
        (problem(500, "Broken", "one\ntwo"), 6),
        (Reply(b"<html>", kind="text/html"), 6),
        (Reply({"id": 5}), 6),
    ],
)
def test_an_error_is_one_line_and_a_code(
    command: Command, server: FakeServer, reply: Reply, code: int
) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", reply)
    result = command("session", "info", IDS[0])
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("reprise: ")
    assert result.stderr.count("\n") == 1


def test_a_dead_server_is_6(command: Command, server: FakeServer) -> None:
    server.close()
    result = command("session", "list")
    assert result.exit_code == 6
    assert result.stderr.startswith(f"reprise: cannot reach the server at {server.url}: ")
    assert result.stderr.count("\n") == 1


def test_no_server_at_all_is_2(reprise: Command) -> None:
    result = reprise("session", "list")
    assert result.exit_code == 2
    assert "reprise login URL" in result.stderr


@pytest.mark.parametrize(
    ("command_line", "told"),
    [
        (
            ["run", "img", "--name", "a\udcff", "--", "true"],
            "reprise: name: cannot be sent as JSON",
        ),
        (["session", "list", "--status", "a\udcff"], "reprise: an argument is not valid UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_2(command: Command, command_line: list[str], told: str) -> None:
    result = command(*command_line)
    assert result.exit_code == 2
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1
