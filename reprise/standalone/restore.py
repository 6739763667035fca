"""Restores standalone from a backup.

Everything is created beside the data and moved into place when it is complete, so that the old data
survive any failure.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp

import psycopg
from django.db.migrations.loader import MigrationLoader

from reprise.standalone.backup import (
    ended_with_block,
    refuse_other_database,
    written,
)
from reprise.standalone.backup_file import CHUNK, Backup, Manifest, reading
from reprise.standalone.errors import StandaloneError, TakenError
from reprise.standalone.postgres import EmbeddedPostgres
from reprise.standalone.postgres_account import account_for, environment
from reprise.standalone.postgres_binaries import Binaries, find_binaries
from reprise.standalone.postgres_failure import failure
from reprise.standalone.postgres_socket import socket_dir
from reprise.standalone.private_file import sync_directory, write_private
from reprise.standalone.server import claim
from reprise.upkeep.restored import mark_restored

CLUSTER = "postgres"
LOCK = "lock"
OURS = frozenset({"sessions_app", "scheduler", "reprise"})
STOP_SECONDS = 600.0
"""Seconds for a fast stop, which writes all new data to disk: slow after a large restore."""
_UNFINISHED = "restore.new-"
_REPLACED = "replaced-"


def restore(data_dir: Path, path: Path, *, force: bool) -> Path | None:
    """Make `data_dir` what it was at the time of the backup `path`.

    With `force`, existing content is moved into a directory below it, which is returned. Raises
    `StandaloneError`, `PostgresError` and `OSError`, after which nothing has changed.
    """
    refuse_other_database()
    with reading(path) as backup:
        _refuse_newer_code(backup.manifest)
        try:
            lock = claim(data_dir)
        except TakenError as error:
            raise StandaloneError(f"Reprise runs on {data_dir}: stop it first") from error
        with lock:
            _clear_unfinished(data_dir)
            _refuse_to_overwrite(data_dir, force=force)
            return _restore(data_dir, backup)


def _restore(data_dir: Path, backup: Backup) -> Path | None:
    account = account_for(data_dir, data_dir / CLUSTER)
    binaries = find_binaries(account, None)
    if backup.manifest.postgres > binaries.major:
        raise StandaloneError(
            f"the backup was made by PostgreSQL {backup.manifest.postgres}, and only "
            f"{binaries.major} can run here"
        )
    account.open_way(data_dir)
    unfinished = Path(mkdtemp(prefix=_UNFINISHED, dir=data_dir))
    try:
        _load(unfinished, backup, binaries)
        return _move_in(unfinished, data_dir)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _refuse_newer_code(manifest: Manifest) -> None:
    known = MigrationLoader(None).disk_migrations or {}
    unknown = sorted(each for each in manifest.migrations if each[0] in OURS and each not in known)
    if unknown:
        raise StandaloneError(
            f"the backup was made by a newer Reprise (it has migration {'.'.join(unknown[0])}): "
            "install that version first"
        )


def _refuse_to_overwrite(data_dir: Path, *, force: bool) -> None:
    owner = data_dir.stat().st_uid
    if os.geteuid() == 0 and owner != 0:
        raise StandaloneError(f"{data_dir} belongs to user {owner}: run this as that user")
    if not force and any(_content(data_dir)):
        raise StandaloneError(
            f"{data_dir} is not empty: choose another directory, or move its content aside with "
            "--force"
        )


def _content(data_dir: Path) -> Iterator[Path]:
    for entry in data_dir.iterdir():
        if entry.name != LOCK and not entry.name.startswith((_UNFINISHED, _REPLACED)):
            yield entry


def _clear_unfinished(data_dir: Path) -> None:
    """Remove what a killed restore left."""
    for torn in data_dir.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(socket_dir(torn.resolve()), ignore_errors=True)
        shutil.rmtree(torn, ignore_errors=True)


def _load(directory: Path, backup: Backup, binaries: Binaries) -> None:
    """Create a complete data directory."""
    for name, content in backup.secrets():
        write_private(directory / name, content)
    server = EmbeddedPostgres(directory)
    try:
        url = server.start()
        _load_dump(url, backup, binaries, directory)
        with psycopg.connect(url, autocommit=True) as connection:
            mark_restored(connection, by="manage.py restore")
    except psycopg.Error as error:
        raise failure(directory, f"ERROR: {error}") from error
    finally:
        server.stop(STOP_SECONDS)


def _load_dump(url: str, backup: Backup, binaries: Binaries, directory: Path) -> None:
    options = ["--exit-on-error", "--single-transaction", "--no-owner", f"--dbname={url}"]
    with TemporaryFile() as errors, backup.dump() as dump:
        process = subprocess.Popen(
            [binaries.program("pg_restore"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(),
        )
        with ended_with_block(process):
            assert process.stdin is not None  # noqa: S101  # a pipe was asked for
            try:
                shutil.copyfileobj(dump, process.stdin, CHUNK)
                process.stdin.close()
            except BrokenPipeError:
                process.wait()  # its output says why
        if process.returncode:
            raise failure(directory, written(errors))


def _move_in(complete: Path, data_dir: Path) -> Path | None:
    """Replace the old content by the new; the cluster last, since without it there is no server."""
    replaced = None
    old = sorted(_content(data_dir), key=lambda entry: entry.name == CLUSTER)
    if old:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        replaced = Path(mkdtemp(prefix=f"{_REPLACED}{now}-", dir=data_dir))
    moves = [(entry, replaced / entry.name) for entry in old if replaced is not None]
    new = sorted(complete.iterdir(), key=lambda entry: entry.name == CLUSTER)
    moves += [(entry, data_dir / entry.name) for entry in new]
    for source, target in sorted(moves, key=lambda move: move[0].name == CLUSTER):
        source.rename(target)
    sync_directory(data_dir)
    return replaced
