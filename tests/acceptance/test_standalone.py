"""The standalone server as people start and stop it."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.running import ROOT, Program, Standalone, ended, processes_of, reached, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = pytest.mark.slow

START_SECONDS, RESTART_SECONDS, STOP_SECONDS = 20.0, 6.0, 10.0
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
PACKAGES = os.pathsep.join([str(ROOT / "client"), *(p for p in sys.path if "packages" in p)])
STUBBORN = "trap '' TERM; while :; do sleep 1; done"
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory into which every user can walk; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="reprise-acceptance-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _gone(data_dir: Path) -> None:
    """Check that no process of it is running at this moment."""
    assert processes_of(data_dir) == []


@pytest.mark.timed
def test_starts_stops_and_starts_again_in_time(tmp_path: Path) -> None:
    long_name = ("and blanks " * 15).strip()
    # The best of some: what else the machine does is not the server's fault.
    assert any(_starts_in_time(tmp_path / f"directory {n}" / long_name) for n in range(3))


def _starts_in_time(data_dir: Path) -> bool:
    with Standalone(data_dir) as server:
        # No PostgreSQL, nor anything else that a machine may have, is on the way.
        started = server.start(PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
        assert shutil.which("postgres", path="/usr/bin:/bin") is None
        first = server.credentials
        session = submit(server.client, "echo kept")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        assert any(_restarts_in_time(server) for _ in range(4))
        second = server.credentials
        assert {**second, "url": ""} == {**first, "url": ""}
        assert server.client.session(session).status == "TERMINATED"
        assert server.client.logs(session) == b"kept\n"
        server.stop(signal.SIGTERM)
        _gone(data_dir)
    return started < START_SECONDS


def _restarts_in_time(server: Standalone) -> bool:
    stopped = server.stop(signal.SIGINT, group=True)
    _gone(server.data_dir)
    started = server.start()
    return stopped < STOP_SECONDS and started < RESTART_SECONDS


def test_credentials_are_private_and_an_admins(standalone: Standalone) -> None:
    path = standalone.data_dir / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    credentials = standalone.credentials
    assert credentials.keys() == {"url", "username", "password", "token", "project"}
    assert credentials["project"] == "default/default"
    me = standalone.client.whoami()
    assert me.username == credentials["username"]
    assert me.cluster_admin


@pytest.fixture
def ordinary_python() -> list[str]:
    """Return a command with which an ordinary user runs Python with this environment's packages."""
    if not IS_ROOT:
        return [sys.executable]
    # The environment's own interpreter may lie in a home that others cannot enter.
    for program in (sys.executable, "/usr/bin/python3.11"):
        command = [*AS_NOBODY, "env", f"PYTHONPATH={PACKAGES}", program]
        nested = (
            "import django, subprocess, sys; subprocess.run([sys.executable, '-V'], check=True)"
        )
        if subprocess.run([*command, "-c", nested], capture_output=True).returncode == 0:
            return command
    pytest.skip("user nobody can run no Python 3.11 here: install one outside of root's home")


def test_runs_for_an_ordinary_user(open_dir: Path, ordinary_python: list[str]) -> None:
    home = open_dir / "a home"
    home.mkdir()
    if IS_ROOT:
        os.chown(home, NOBODY, NOBODY)
    with Standalone(home / "data", server=[*ordinary_python, "manage.py"]) as server:
        server.start()
        session = submit(server.client, "id -u")
        ended(server.client, session)
        assert server.client.logs(session) == b"%d\n" % (NOBODY if IS_ROOT else os.geteuid())
        server.stop()
        _gone(server.data_dir)


def test_stops_in_time_with_a_stubborn_session(prepared: Path, tmp_path: Path) -> None:
    with Standalone(copy_database(prepared, tmp_path / "data")) as server:
        server.start()
        session = submit(server.client, STUBBORN, termination_grace_period=60)
        reached(server.client, session, "RUNNING")
        server.program.signal(signal.SIGINT, group=True)  # the impatient press it twice
        assert server.stop(signal.SIGINT, group=True) < 3 * STOP_SECONDS  # half of its grace
        _gone(server.data_dir)


def test_a_second_one_on_the_same_directory_is_refused(standalone: Standalone) -> None:
    second = Standalone(standalone.data_dir).spawn()
    line = _one_line(second)
    assert str(standalone.data_dir) in line
    assert "another" in line
    session = submit(standalone.client, "true")
    assert [each.status for each in ended(standalone.client, session)] == ["TERMINATED"]


def _one_line(program: Program) -> str:
    """The only line that a refused start writes to standard error."""
    code = program.reap()
    lines = program.stderr.splitlines()
    assert code not in {0, -signal.SIGABRT}
    assert len(lines) == 1, program.stderr
    return lines[0]


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = _one_line(Standalone(tmp_path / "data", options=("--port", port)).spawn())
    assert port in line
    assert "in use" in line
    _gone(tmp_path / "data")


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_an_impossible_port_is_refused(tmp_path: Path, port: str) -> None:
    program = Standalone(tmp_path / "data", options=(f"--port={port}",)).spawn()
    assert program.reap() != 0
    assert "Traceback" not in program.stderr
    assert port in program.stderr
    _gone(tmp_path / "data")


def test_a_file_in_place_of_the_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("here first")
    line = _one_line(Standalone(tmp_path / "data").spawn())
    assert str(tmp_path / "data") in line
    assert (tmp_path / "data").read_text() == "here first"


def test_an_unwritable_directory_is_one_line(open_dir: Path, ordinary_python: list[str]) -> None:
    closed = open_dir / "closed"
    closed.mkdir(mode=0o555)
    for data_dir in (closed, closed / "data"):
        line = _one_line(Standalone(data_dir, server=[*ordinary_python, "manage.py"]).spawn())
        assert str(data_dir) in line
        assert "ermission denied" in line
        _gone(data_dir)


@pytest.fixture(params=["24m", "48m"])
def small_disk(open_dir: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system with room for part of a first start: of the cluster, of the tables."""
    disk = open_dir / "small disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "reprise-test", str(disk)]
    if not IS_ROOT or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here; run as root with CAP_SYS_ADMIN")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_one_line(small_disk: Path) -> None:
    line = _one_line(Standalone(small_disk / "data").spawn())
    assert "disk" in line or "space" in line
    assert str(small_disk) in line
    _gone(small_disk)


def _locked(data_dir: Path) -> bool:
    return (data_dir / "secret_key").exists()


def _making_the_cluster(data_dir: Path) -> bool:
    return any(data_dir.glob("postgres*/**/base"))


def _migrating(data_dir: Path) -> bool:
    return (data_dir / "postgres" / "postmaster.pid").exists()


@pytest.mark.timed
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_can_be_ended_at_any_moment_of_its_start(tmp_path: Path, number: signal.Signals) -> None:
    patience = 3.0 if number is signal.SIGTERM else STOP_SECONDS
    with Standalone(tmp_path / "data") as server:
        for moment in (_locked, _making_the_cluster, _migrating):
            program = server.spawn()
            until(lambda moment=moment: moment(server.data_dir))  # type: ignore[misc]
            program.signal(number, group=number is signal.SIGKILL)
            program.reap()
            assert "Traceback" not in program.stderr
            until(lambda: not processes_of(server.data_dir), "nothing is left", patience)
        server.start()
        session = submit(server.client, "true")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]


def test_who_is_told_that_it_is_ready_is_told_what_fits_nowhere(
    prepared: Path, tmp_path: Path
) -> None:
    with Standalone(copy_database(prepared, tmp_path / "data")) as server:
        for _ in range(2):
            server.start()
            large = server.client.session_create(command=["true"], resources={"cpu": "9999"})
            (told,) = large.warnings
            assert told.startswith("it fits on no executor: local: cpu, of which it needs 9999")
            assert server.client.session_create(command=["true"]).warnings == []
            assert "Note: the local executor" not in server.program.stdout
            server.stop()


def test_a_killed_agent_is_started_again(prepared: Path, tmp_path: Path) -> None:
    with Standalone(copy_database(prepared, tmp_path / "data")) as server:
        server.start()
        for _ in range(2):
            before = until(server.agent_pid, "an agent runs")
            os.kill(before, signal.SIGKILL)
            until(lambda old=before: server.agent_pid() not in {None, old}, "a new one")  # type: ignore[misc]
            assert "the executor local ended with code -9" in server.program.stderr
            session = submit(server.client, "true")
            assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]


HANGING = """
import fcntl, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = pathlib.Path(sys.argv[1]).open("a")
fcntl.flock(lock, fcntl.LOCK_EX)
print("holds it", flush=True)
time.sleep(1000)
"""


def test_an_agent_that_outlived_its_server_is_ended(prepared: Path, tmp_path: Path) -> None:
    """It hangs, or a child of it that never became a run does: the state directory stays taken."""
    data_dir = copy_database(prepared, tmp_path / "data")
    (data_dir / "executor").mkdir(mode=0o700)
    hanging = Program((sys.executable, "-c", HANGING, str(data_dir / "executor" / "lock")))
    until(lambda: "holds it" in hanging.stdout, "it holds the lock")
    with Standalone(data_dir) as server:
        server.start()
        session = submit(server.client, "true")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        assert hanging.reap() == -signal.SIGKILL
        message = (
            f"ending an agent that an earlier start left behind: process [{hanging.process.pid}]"
        )
        assert message in server.program.stderr
        server.stop()
        _gone(data_dir)
