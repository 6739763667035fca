"""Tests of what sessions of a standalone server can reach: everything its user can, or nothing."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprise.standalone.postgres_socket import SOCKET
from tests.acceptance.running import Standalone, ended, processes_of, reached, submit
from tests.prepared import copy_database
from tests.unit.executor.isolated_agent import (
    IS_ROOT,
    NOBODY,
    as_root,
    of_landlock,
    ordinary_python,
)

pytestmark = pytest.mark.slow

# What PostgreSQL's protocol begins with; the answer asks for a password (10: SASL) or does not (0).
ASK = """
import socket, struct, sys
asked = b"user\\0reprise\\0database\\0reprise\\0\\0"
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    connection.sendall(struct.pack("!ii", 8 + len(asked), 196608) + asked)
    answer = connection.recv(9)
print("asked", answer[:1].decode(), struct.unpack("!i", answer[5:9])[0])
"""
SECRETS = ("credentials.json", "secret_key", "executor.token", "postgres.pgpass")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory into which every user can walk; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="reprise-isolated-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _socket_dir(server: Standalone) -> str:
    """As anybody sees it in the list of processes."""
    commands = (each.command.decode() for each in processes_of(server.data_dir))
    return next(found[1] for each in commands if (found := re.search(r'directories="(.*?)"', each)))


def attack(server: Standalone, other: str) -> str:
    """A script that says of each secret whether it could be had."""
    data, agent, own = server.data_dir, server.agent_pid(), server.program.process.pid
    socket = f"{_socket_dir(server)}/{SOCKET}"
    work = f"{data}/executor/runs/{other}-*/work"
    lines = [f'cat {data}/{name} > /dev/null 2>&1 && echo "{name}"' for name in SECRETS]
    lines += [
        f'cat {work}/file > /dev/null 2>&1 && echo "other run"',
        f'ls {data}/postgres/base > /dev/null 2>&1 && echo "the database"',
        f'cat /proc/{agent}/environ > /dev/null 2>&1 && echo "agent\'s environment"',
        f'cat /proc/{own}/environ > /dev/null 2>&1 && echo "server\'s environment"',
        f'kill -0 {agent} 2> /dev/null && echo "agent"',
        f'kill -0 {own} 2> /dev/null && echo "server"',
        f"/usr/bin/python3 -c '{ASK}' {socket} 2> /dev/null",
        "echo that was all",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(0, marks=as_root, id="root"),
        pytest.param(NOBODY if IS_ROOT else os.geteuid(), marks=of_landlock, id="an ordinary user"),
    ],
)
def test_isolated_sessions_reach_no_secret(prepared: Path, place: Path, user: int) -> None:
    data_dir = copy_database(prepared, place / "data")
    how = {}
    if user != os.geteuid():
        for each in (data_dir, *data_dir.rglob("*")):
            os.chown(each, user, user)
        how = {"server": [*ordinary_python(), "manage.py"]}
    options = ("--port", "0", "--isolate-runs")
    with Standalone(data_dir, options=options, **how) as server:
        server.start()
        assert "Sessions run here as" not in server.program.stdout
        other = submit(server.client, "echo precious > file; exec sleep 600")
        reached(server.client, other, "RUNNING")
        session = submit(server.client, attack(server, other))
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        *had, end = server.client.logs(session).decode().splitlines()
        assert end == "that was all"
        # To the socket of the same user no Landlock bars the way: the password does.
        assert had == ([] if user == 0 else ["asked R 10"])
        server.stop()


def test_other_sessions_reach_all_but_the_database(standalone: Standalone) -> None:
    """The note at the start is true, and the attempts above can succeed."""
    assert "\nNote: Sessions run here as " in standalone.program.stdout
    other = submit(standalone.client, "echo precious > file; exec sleep 600")
    reached(standalone.client, other, "RUNNING")
    session = submit(standalone.client, attack(standalone, other))
    ended(standalone.client, session)
    had = standalone.client.logs(session).decode().splitlines()
    standalone.client.cancel(other)
    assert had[: len(SECRETS)] == list(SECRETS)
    assert had[len(SECRETS) : -2] == [
        "other run",
        "the database",
        "agent's environment",
        "server's environment",
        "agent",
        "server",
    ]
    assert had[-2:] == ["asked R 10", "that was all"]
    ended(standalone.client, other)


def test_a_data_directory_that_runs_may_read_is_refused(place: Path) -> None:
    server = Standalone(place / "data", options=("--port", "0", "--isolate-runs"))
    program = server.spawn(REPRISE_LOCAL_PATHS=str(place), REPRISE_LOG_FORMAT="json")
    assert program.reap() == 1
    output = program.stderr
    begins = "CommandError: the executor local cannot start: isolate_runs: runs may read "
    assert output.startswith(begins)
    assert output.count("\n") == 1
    assert "choose another directory" in output
    assert not (place / "data" / "postgres").exists()


def test_root_opens_its_data_directory_for_walking_only(place: Path) -> None:
    if not IS_ROOT:
        pytest.skip("only root gives runs users of their own")
    server = Standalone(place / "data", options=("--port", "0", "--isolate-runs", "maybe"))
    program = server.spawn()
    assert program.reap() != 0
    assert "'maybe' is not one of on, partly, off" in program.stderr
    shutil.rmtree(place / "data", ignore_errors=True)
    place.chmod(0o700)
    program = Standalone(place / "data", options=("--port", "0", "--isolate-runs")).spawn()
    assert program.reap() == 1
    assert f"cannot enter {place}" in program.stderr
    assert stat.S_IMODE((place / "data").stat().st_mode) == 0o701
