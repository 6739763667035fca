"""A short, private directory for the server's socket, whose path may have at most 107 bytes."""

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from reprise.standalone.postgres_account import Account
from reprise.standalone.postgres_failure import PostgresError

PORT = 5432
SOCKET = f".s.PGSQL.{PORT}"
_LONGEST_SOCKET_PATH = 107


def socket_dir(data_dir: Path) -> Path:
    """Return the directory for this user and this (resolved) data directory."""
    key = b"%d:%s" % (os.geteuid(), os.fsencode(data_dir))
    name = f"reprise-{hashlib.sha256(key).hexdigest()[:16]}"
    wanted = Path(tempfile.gettempdir(), name)
    if len(os.fsencode(wanted / SOCKET)) <= _LONGEST_SOCKET_PATH:
        return wanted
    return Path("/tmp", name)  # noqa: S108  # ensure_socket_dir refuses what is not ours


def ensure_socket_dir(directory: Path, account: Account) -> None:
    """Create the directory, or check that it is ours: in /tmp anybody may create it first."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    ours = found.st_uid in {os.geteuid(), account.uid}
    if not (ours and stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700):
        raise PostgresError(
            f"{directory} is needed for PostgreSQL's socket and is not a private directory of "
            "this user: remove it"
        )
    account.own(directory)
