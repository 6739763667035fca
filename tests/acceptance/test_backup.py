"""Backup and restore of standalone, as people do it: by the command, while work runs."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psycopg
import pytest
from reprise_client.errors import ApiError

from reprise.standalone.backup_file import MANIFEST
from reprise.standalone.postgres_socket import socket_dir
from reprise.upkeep.restored import JUMP
from tests.acceptance.running import (
    Program,
    Standalone,
    ended,
    processes_of,
    reached,
    retry_waits,
    submit,
)
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = pytest.mark.slow

IS_ROOT = os.geteuid() == 0


def _manage(*command: object, **environ: str) -> Program:
    return Program([sys.executable, "manage.py", *map(str, command)], **environ)


def _backup(data_dir: Path, path: Path) -> Path:
    program = _manage("backup", "--data-dir", data_dir, path)
    assert program.reap() == 0, program.stderr
    return path


def _restore(data_dir: Path, path: Path, *options: str) -> None:
    program = _manage("restore", "--data-dir", data_dir, path, *options)
    assert program.reap() == 0, program.stderr


def _refused(program: Program) -> str:
    """The only line on standard error."""
    assert program.reap() not in {0, -signal.SIGABRT}
    lines = program.stderr.splitlines()
    assert len(lines) == 1, program.stderr
    return lines[0]


def _statuses(server: Standalone, session: str) -> list[tuple[str, str]]:
    return [(each.status, each.cause or "") for each in ended(server.client, session)]


@pytest.fixture(scope="module")
def backup(standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of a server that runs."""
    ended(standalone.client, submit(standalone.client, "echo kept"))
    return _backup(standalone.data_dir, tmp_path_factory.mktemp("backups") / "backup")


def test_after_a_restore_everything_goes_on(prepared: Path, tmp_path: Path) -> None:
    """The machine is lost after the backup: what ran ends and comes back, what waits happens."""
    with Standalone(copy_database(prepared, tmp_path / "lost")) as lost:
        lost.start()
        done = submit(lost.client, "echo kept")
        ended(lost.client, done)
        script = 'test "$REPRISE_ATTEMPT" -gt 0 || sleep 600'
        running = submit(lost.client, script, policy={"max_retries": 1})
        final = submit(lost.client, "sleep 600", policy={"max_retries": 0})
        reached(lost.client, running, "RUNNING")
        reached(lost.client, final, "RUNNING")
        waiting = submit(
            lost.client,
            'test "$REPRISE_ATTEMPT" -gt 0 && test "$KEPT" = secret',
            policy={"max_retries": 1, "retry_delay": 4},
            secret_environ={"KEPT": "secret"},
        )
        retry_waits(lost.client, waiting)
        path = _backup(lost.data_dir, tmp_path / "backup")
        later = submit(lost.client, "true")
        before = lost.credentials
        lost.kill()

    with Standalone(tmp_path / "found") as found:
        _restore(found.data_dir, path)
        found.start()
        assert {**found.credentials, "url": ""} == {**before, "url": ""}
        assert found.client.logs(done) == b"kept\n"
        with pytest.raises(ApiError, match="no session"):
            found.client.session(later)
        assert _statuses(found, waiting) == [("ERROR", "kernel_nonzero_exit"), ("TERMINATED", "")]
        assert _statuses(found, running) == [("ERROR", "agent_transient"), ("TERMINATED", "")]
        assert _statuses(found, final) == [("ERROR", "agent_transient")]
        assert found.client.session(final).retry_state.state == "not_retried"
        assert _numbers_jumped(found.database_url)
        assert found.violations() == []
        found.stop()


def _numbers_jumped(url: str) -> bool:
    """Return whether no token and no event that was given out after the backup is given out
    again."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT (SELECT max(fencing_token) FROM sessions_app_session), "
            "(SELECT max(id) FROM sessions_app_sessionevent), "
            "(SELECT count(*) FROM sessions_app_auditentry WHERE action = 'database.restore')"
        ).fetchone()
    assert found is not None
    return bool(found[0] > JUMP and found[1] > JUMP and found[2] == 1)


def test_a_server_that_is_down_is_backed_up(prepared: Path, tmp_path: Path) -> None:
    """Also one that was killed: the backup goes through PostgreSQL's recovery."""
    with Standalone(copy_database(prepared, tmp_path / "data")) as server:
        server.start()
        session = submit(server.client, "echo kept")
        ended(server.client, session)
        server.kill()
        path = _backup(server.data_dir, tmp_path / "backup")
        assert processes_of(server.data_dir) == []
        _restore(server.data_dir, path, "--force")
        (replaced,) = server.data_dir.glob("replaced-*")
        assert (replaced / "postgres" / "PG_VERSION").exists()
        assert (replaced / "executor").is_dir()
        server.start()
        assert server.client.logs(session) == b"kept\n"
        server.stop()


def test_a_backup_is_private_and_disturbs_nothing(standalone: Standalone, backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [each.name for each in backup.parent.iterdir()] == ["backup"]
    session = submit(standalone.client, "true")
    assert _statuses(standalone, session) == [("TERMINATED", "")]


def test_a_running_server_is_not_restored_over(standalone: Standalone, backup: Path) -> None:
    line = _refused(_manage("restore", "--data-dir", standalone.data_dir, backup, "--force"))
    assert "stop it first" in line
    session = submit(standalone.client, "true")
    assert _statuses(standalone, session) == [("TERMINATED", "")]


def test_data_are_not_restored_over(tmp_path: Path, backup: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "thesis").write_text("here first")
    assert "is not empty" in _refused(_manage("restore", "--data-dir", data_dir, backup))
    assert (data_dir / "thesis").read_text() == "here first"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_restore_that_was_ended_is_done_again(
    tmp_path: Path, backup: Path, number: signal.Signals
) -> None:
    data_dir = tmp_path / "data"
    while _ended_midway(data_dir, backup, number) == 0:
        shutil.rmtree(data_dir)  # it was quicker than the signal
    assert (data_dir / "secret_key").read_text() == "here first"
    until(lambda: not processes_of(data_dir), "its PostgreSQL has ended")
    (torn,) = (each.parents[1] for each in _restoring(data_dir))
    _restore(data_dir, backup, "--force")
    assert not torn.exists()
    assert not socket_dir(torn).exists()
    with Standalone(data_dir) as server:
        server.start()
        assert server.client.whoami().cluster_admin
        server.stop()


def _ended_midway(data_dir: Path, backup: Path, number: signal.Signals) -> int:
    """The exit code of a restore over something else that got a signal on its way."""
    data_dir.mkdir()
    (data_dir / "secret_key").write_text("here first")
    program = _manage("restore", "--data-dir", data_dir, backup, "--force")
    until(lambda: _restoring(data_dir) or not program.alive, "it restores")
    program.signal(number, group=True)
    code = program.reap()
    assert "Traceback" not in program.stderr
    return code


def _restoring(data_dir: Path) -> list[Path]:
    return list(data_dir.glob("restore.new-*/postgres/global"))


def _changed(manifest: dict[str, Any], **more: object) -> dict[str, Any]:
    return {**manifest, **more}


WRONG_VERSIONS: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (lambda manifest: _changed(manifest, format=2), "its format is 2"),
    (lambda manifest: _changed(manifest, postgres=99), "made by PostgreSQL 99"),
    (
        lambda manifest: _changed(
            manifest, migrations=[*manifest["migrations"], ["sessions_app", "9999_new"]]
        ),
        "a newer Reprise (it has migration sessions_app.9999_new)",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG_VERSIONS)
def test_a_wrong_version_is_one_line(
    tmp_path: Path, backup: Path, change: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    path = tmp_path / "changed"
    with ZipFile(backup) as source, ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == MANIFEST:
                content = json.dumps(change(json.loads(content))).encode()
            target.writestr(name, content)
    _restores_nothing(tmp_path, path, message)


def _restores_nothing(tmp_path: Path, path: Path, message: str) -> None:
    data_dir = tmp_path / "data"
    line = _refused(_manage("restore", "--data-dir", data_dir, path))
    assert message in line
    left = [each.name for each in data_dir.iterdir()] if data_dir.exists() else []
    assert left in ([], ["lock"])


def test_a_damaged_dump_is_one_line(tmp_path: Path, backup: Path) -> None:
    content = bytearray(backup.read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "damaged").write_bytes(content)
    _restores_nothing(tmp_path, tmp_path / "damaged", "the checksum of database.dump is wrong")


def test_a_dump_that_postgresql_refuses_is_one_line(tmp_path: Path, backup: Path) -> None:
    """Whole by its checksums, but not what PostgreSQL wrote."""
    path = tmp_path / "strange"
    with ZipFile(backup) as source, ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, content[:-2000] if name == "database.dump" else content)
    _restores_nothing(tmp_path, path, "cannot run in")


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    _restores_nothing(tmp_path, tmp_path / "nowhere", "No such file")


def test_another_database_is_left_to_its_own_tools(tmp_path: Path, backup: Path) -> None:
    for command in ("backup", "restore"):
        program = _manage(
            command, "--data-dir", tmp_path / "data", backup, DATABASE_URL="postgres:///x"
        )
        assert "DATABASE_URL is set" in _refused(program)


def test_a_directory_without_a_server_is_one_line(tmp_path: Path) -> None:
    line = _refused(_manage("backup", "--data-dir", tmp_path / "data", tmp_path / "backup"))
    assert "there is no Reprise in" in line
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with room for a part of what is to be written to it."""
    disk = Path(tempfile.mkdtemp(prefix="reprise-small-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "reprise-test", str(disk)]
    if not IS_ROOT or subprocess.run(mount, capture_output=True).returncode:
        disk.rmdir()
        pytest.skip("cannot mount a small file system here; run as root with CAP_SYS_ADMIN")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)
    disk.rmdir()


def test_a_full_disk_keeps_the_last_backup(standalone: Standalone, small_disk: Path) -> None:
    path = small_disk / "backup"
    path.write_text("the last one")
    with (small_disk / "filler").open("wb") as filler:
        filler.write(bytes(shutil.disk_usage(small_disk).free - 40 * 1024))
    line = _refused(_manage("backup", "--data-dir", standalone.data_dir, path))
    assert "No space left on device" in line
    assert str(small_disk) in line
    assert path.read_text() == "the last one"
    assert {each.name for each in small_disk.iterdir()} == {"backup", "filler"}


def test_a_restore_onto_a_full_disk_is_one_line(small_disk: Path, backup: Path) -> None:
    line = _refused(_manage("restore", "--data-dir", small_disk / "data", backup))
    assert "the disk is full" in line
    assert [each.name for each in (small_disk / "data").iterdir()] == ["lock"]
