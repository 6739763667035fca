"""Tests of a standalone server with damaged files, wrong settings and odd surroundings."""

import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.running import Program, Standalone, ended, processes_of, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("repairs"),  # one used directory for all
]

PROMPT_SECONDS = 30.0
"""For a refusal: nothing is waited for that will never come."""


def refusal(program: Program) -> str:
    """The one line in which a start is refused."""
    assert program.reap(PROMPT_SECONDS) == 1
    line = program.stderr
    assert line.startswith("CommandError: ")
    assert line.count("\n") == 1, line
    return line


@pytest.fixture(scope="module")
def used_dir(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a server that has run and was stopped."""
    data_dir = copy_database(prepared, tmp_path_factory.mktemp("used") / "data")
    with Standalone(data_dir) as server:
        server.start()
        server.stop()
    return data_dir


@pytest.fixture
def copied_dir(used_dir: Path, tmp_path: Path) -> Iterator[Path]:
    copied = tmp_path / "data"
    shutil.copytree(used_dir, copied, symlinks=True)
    yield copied
    assert processes_of(copied) == []


@pytest.mark.parametrize(
    "damage", [b"", b"\xff\xfe\0", b"[1]", b'{"token": 5, "password": "\\ud800"}']
)
def test_files_that_hold_nothing_usable_are_made_again(copied_dir: Path, damage: bytes) -> None:
    for name in ("credentials.json", "secret_key", "executor.token"):
        (copied_dir / name).write_bytes(damage)
    with Standalone(copied_dir) as server:
        server.start()
        session = submit(server.client, "true")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        assert server.program.stderr == ""
        server.stop()


def test_a_damaged_cluster_is_one_line(copied_dir: Path) -> None:
    version = copied_dir / "postgres" / "PG_VERSION"
    whole = version.read_bytes()
    version.write_bytes(b"garbage")
    assert str(version) in refusal(Standalone(copied_dir).spawn())
    version.write_bytes(whole)
    shutil.rmtree(copied_dir / "postgres" / "base")
    assert str(copied_dir) in refusal(Standalone(copied_dir).spawn())


def test_a_database_out_of_reach_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"postgres://nobody@127.0.0.1:{port}/nothing"
    line = refusal(Standalone(tmp_path / "data").spawn(DATABASE_URL=url))
    assert "DATABASE_URL" in line
    assert "Connection refused" in line


def test_a_broker_out_of_reach_is_one_line(copied_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"amqp://nobody:secret@127.0.0.1:{port}//"
    line = refusal(Standalone(copied_dir).spawn(BROKER_URL=url))
    assert "BROKER_URL" in line
    assert "secret" not in line


@pytest.mark.parametrize("url", ["", "garbage", "mysql://me:secret@host/x", "postgres://h:port/x"])
def test_another_database_is_one_line(tmp_path: Path, url: str) -> None:
    program = Standalone(tmp_path / "data").spawn(DATABASE_URL=url)
    assert program.reap(PROMPT_SECONDS) == 1
    assert program.stderr.startswith("DATABASE_URL: Reprise needs a PostgreSQL")
    assert program.stderr.count("\n") == 1
    assert "secret" not in program.stderr


def test_variables_for_another_postgresql_do_no_harm(copied_dir: Path) -> None:
    with Standalone(copied_dir) as server:
        server.start(PGOPTIONS="-c no.such=1 -c nothing=1", PGSERVICE="none", PGPORT="1")
        server.stop()


@pytest.mark.parametrize("host", ["::", "0.0.0.0"])
def test_listening_on_all_addresses(copied_dir: Path, host: str) -> None:
    loopback = {"::": "::1"}.get(host, "127.0.0.1")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((loopback, 0), family=family).close()
    except OSError:
        pytest.skip(f"this machine has no {loopback}: switch IPv6 on")
    with Standalone(copied_dir, options=("--port", "0", "--host", host)) as server:
        server.start()
        assert loopback in server.credentials["url"]
        session = submit(server.client, "true")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        assert server.program.stderr == ""
        server.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "no-such-host.invalid"), "choose another one with --host"),
        (("--max-sessions", "0"), "--max-sessions: '0' is not a whole number above 0"),
        (("--max-sessions", "many"), "--max-sessions: 'many' is not a whole number above 0"),
        (("--data-dir", ""), "--data-dir: the name of the directory is empty"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: tuple[str, str], message: str) -> None:
    program = Standalone(tmp_path / "data", options=("--port", "0", *options)).spawn()
    assert program.reap(PROMPT_SECONDS) in {1, 2}
    assert program.stderr.splitlines()[-1].endswith(message)


def test_an_interrupt_before_anything_is_loaded_is_quiet(tmp_path: Path) -> None:
    program = Standalone(tmp_path / "data").spawn()
    maps = Path(f"/proc/{program.process.pid}/maps")
    until(lambda: "psycopg" in maps.read_text(), "it loads its libraries")
    program.signal(signal.SIGINT, group=True)
    program.reap(PROMPT_SECONDS)
    assert program.stderr == ""


def test_a_module_of_the_same_name_in_the_users_directory_is_not_run(
    copied_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "executor.py").write_text("raise SystemExit('not this one')")
    start = f"""if True:
        import os, runpy, sys
        sys.argv = [os.path.abspath(sys.argv[1]), *sys.argv[2:]]
        sys.path[0] = os.path.dirname(sys.argv[0])
        os.chdir({str(tmp_path)!r})
        runpy.run_path(sys.argv[0], run_name="__main__")
    """
    with Standalone(copied_dir, server=(sys.executable, "-c", start, "manage.py")) as server:
        server.start()
        session = submit(server.client, "true")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        server.stop()
