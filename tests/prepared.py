"""A database with all tables, made once for a whole test run and copied to whoever wants one.

A first start takes as long as all the rest of most tests; those that are about it copy nothing.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from reprise.standalone import postgres_binaries
from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from reprise.standalone.postgres_password import password_file

ROOT = Path(__file__).parents[1]
GIVEN = "REPRISE_TEST_PREPARED"
"""Names a prepared directory of a run of tests that has started this one."""


def shared_directory(factory: pytest.TempPathFactory) -> Path:
    """The directory that all workers of this run have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def prepare(directory: Path) -> Path:
    """A data directory in `directory` whose PostgreSQL is migrated and does not run."""
    if given := os.environ.get(GIVEN):
        return Path(given)
    finished = directory / "prepared"
    with (directory / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            draft = directory / "preparing"
            _make(draft)
            draft.rename(finished)
    return finished


@contextmanager
def made_with(directory: Path) -> Iterator[None]:
    """Make new clusters with PostgreSQL's programs in `directory`, which compile as by default."""
    others = list(postgres_binaries.directories())
    with (
        patch.object(postgres_binaries, "directories", lambda: iter([directory, *others])),
        patch.dict(SETTINGS, jit="on"),
    ):
        yield


def copy_database(prepared: Path, data_dir: Path) -> Path:
    """Begin a data directory with a copy of the prepared database; the directory."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(prepared / "postgres", data_dir / "postgres", symlinks=True)
    shutil.copy2(password_file(prepared), password_file(data_dir))
    return data_dir


def _make(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    # Nobody asks this one what it kept through a loss of power.
    with patch.dict(SETTINGS, fsync="off"):
        url = server.start()
    try:
        command = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity=0"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": url}, check=True)
    finally:
        server.stop()
