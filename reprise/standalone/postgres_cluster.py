"""The cluster's directory: created completely or not at all."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from reprise.standalone.postgres_account import Account
from reprise.standalone.postgres_binaries import Binaries
from reprise.standalone.postgres_failure import PostgresError, failure
from reprise.standalone.private_file import sync_directory

SUPERUSER = "reprise"
_UNFINISHED = "postgres.new-"
_INITDB_SECONDS = 120.0
DAMAGED = "move it away or choose another data directory"


def cluster_major(cluster: Path) -> int | None:
    """Return the major version of a complete cluster; None if there is none yet.

    Raises `PostgresError` for a directory that holds something else, which is left alone.
    """
    version = cluster / "PG_VERSION"
    if version.is_file() and (cluster / "global" / "pg_control").is_file():
        try:
            return int(version.read_text())
        except ValueError as error:
            raise PostgresError(f"{version} names no version of PostgreSQL: {DAMAGED}") from error
    if cluster.exists() and any(cluster.iterdir()):
        raise PostgresError(f"{cluster} holds files but no complete PostgreSQL cluster: {DAMAGED}")
    return None


def clear_unfinished(data_dir: Path) -> None:
    """Remove the unfinished cluster of a start that was killed.

    Every start does this, because files can remain while the killed program is still dying.
    """
    for torn in data_dir.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(torn, ignore_errors=True)


def make_cluster(cluster: Path, binaries: Binaries, account: Account) -> None:
    """Create a new cluster beside `cluster`, and move it there when it is complete."""
    data_dir = cluster.parent
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=data_dir))
    try:
        account.own(unfinished)
        _initdb(unfinished, binaries, account)
        unfinished.rename(cluster)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    # The new name must survive a power cut, or the next start would remove the data.
    sync_directory(data_dir)


def _initdb(directory: Path, binaries: Binaries, account: Account) -> None:
    command = [
        binaries.program("initdb"),
        f"--pgdata={directory}",
        f"--username={SUPERUSER}",
        "--auth=trust",
        "--locale=C.UTF-8",
        "--encoding=UTF8",
        "--no-instructions",
    ]
    try:
        code, output = account.run(command, seconds=_INITDB_SECONDS)
    except subprocess.TimeoutExpired:
        code, output = 1, f"error: initdb took more than {_INITDB_SECONDS:.0f} s"
    if code != 0:
        raise failure(directory.parent, output)
