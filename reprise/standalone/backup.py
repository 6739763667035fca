"""A backup of standalone: all that is needed to continue elsewhere, in one file.

PostgreSQL's dump shows one moment, whatever runs meanwhile. The executor's own files are left out:
its runs do not survive into the backup, and its reports may be newer than the dump.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import psycopg

from reprise.environment import given
from reprise.standalone.backup_file import CHUNK, DUMP, KEYS, MANIFEST, SECRETS, Manifest, writing
from reprise.standalone.errors import StandaloneError, TakenError
from reprise.standalone.postgres import EmbeddedPostgres
from reprise.standalone.postgres_account import account_for, environment
from reprise.standalone.postgres_binaries import Binaries, find_binaries
from reprise.standalone.postgres_cluster import cluster_major
from reprise.standalone.postgres_failure import failure
from reprise.standalone.server import claim

LOCK_WAIT = "10s"
"""Time for pg_dump to wait for locks; a migration that holds them longer ends the backup."""


def backup(data_dir: Path, path: Path) -> None:
    """Write a backup of `data_dir` to `path`, completely or not at all.

    The server may run or not. An existing file is replaced by the complete new one. Raises
    `StandaloneError`, `PostgresError` and `OSError`.
    """
    refuse_other_database()
    cluster = data_dir / "postgres"
    if cluster_major(cluster) is None:
        raise StandaloneError(f"there is no Reprise in {data_dir}")
    with _database(data_dir) as url, writing(path) as archive:
        binaries = find_binaries(account_for(data_dir, cluster), cluster_major(cluster))
        archive.writestr(MANIFEST, _manifest(url, binaries.major).to_json())
        for name in SECRETS:
            archive.write(data_dir / name, name)
        if (data_dir / KEYS).exists():
            archive.write(data_dir / KEYS, KEYS)
        with archive.open(DUMP, "w", force_zip64=True) as member:
            _dump(url, binaries, member, data_dir)


def refuse_other_database() -> None:
    """Raise `StandaloneError` if `DATABASE_URL` is set: that server is not ours to dump."""
    if given().database_url is not None:
        raise StandaloneError(
            "DATABASE_URL is set: back up and restore that PostgreSQL with its own tools "
            "(docs/production.md)"
        )


@contextmanager
def _database(data_dir: Path) -> Iterator[str]:
    """Yield the URL of the running server, or of one that runs as long as the block."""
    try:
        lock = claim(data_dir)
    except TakenError:
        yield EmbeddedPostgres(data_dir).url
        return
    with lock:
        server = EmbeddedPostgres(data_dir)
        try:
            yield server.start()
        finally:
            server.stop()


def _manifest(url: str, major: int) -> Manifest:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            found = connection.execute("SELECT app, name FROM django_migrations").fetchall()
    except psycopg.errors.UndefinedTable as error:
        raise StandaloneError("Reprise is still being set up: wait until it is ready") from error
    except psycopg.Error as error:
        raise StandaloneError(f"PostgreSQL does not answer: {error}".splitlines()[0]) from error
    return Manifest(datetime.now(UTC).isoformat(timespec="seconds"), major, frozenset(found))


def _dump(url: str, binaries: Binaries, target: IO[bytes], data_dir: Path) -> None:
    options = ["--format=custom", f"--lock-wait-timeout={LOCK_WAIT}", f"--dbname={url}"]
    with TemporaryFile() as errors:
        process = subprocess.Popen(
            [binaries.program("pg_dump"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
        )
        with ended_with_block(process):
            assert process.stdout is not None  # noqa: S101  # a pipe was asked for
            shutil.copyfileobj(process.stdout, target, CHUNK)
        if process.returncode:
            raise failure(data_dir, written(errors))


@contextmanager
def ended_with_block(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Wait for a program to end; kill it if the block fails."""
    with process:
        try:
            yield
        except BaseException:
            process.kill()
            raise


def written(file: IO[bytes]) -> str:
    """Return what a program has written to a file since it was opened."""
    file.seek(0)
    return file.read().decode(errors="replace")


def describe(path: Path) -> str:
    """Return size and place of a finished backup, for people."""
    return f"{path} ({path.stat().st_size / 1024:,.0f} KiB)"
