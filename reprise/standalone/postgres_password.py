"""The password of the embedded PostgreSQL.

Runs under the server's own user can reach the socket's directory. Isolated runs cannot read the
password's file.
"""

import secrets
import stat
import subprocess
from pathlib import Path

from reprise.standalone.postgres_account import Account
from reprise.standalone.postgres_binaries import Binaries
from reprise.standalone.postgres_cluster import SUPERUSER
from reprise.standalone.private_file import read_text, write_private

RULES = "# Written by Reprise at each start where it is another.\nlocal all all scram-sha-256\n"
_EVERYWHERE = "*:*:*:*:"
_SECONDS = 120.0
# Whatever the cluster's own settings are, the password must not appear in a log.
_SETTINGS = (
    "password_encryption=scram-sha-256",
    "log_statement=none",
    "log_min_error_statement=panic",
)


def password_file(data_dir: Path) -> Path:
    """Return the file from which libpq reads the password: its `passfile`."""
    return data_dir / "postgres.pgpass"


def ensure_password(data_dir: Path, cluster: Path, binaries: Binaries, account: Account) -> str:
    """Ensure that the stopped cluster asks for the password. Return what went wrong, or "".

    A cluster that trusted everybody is changed without a running server. The rules come last, so
    that an interrupted change is repeated.
    """
    file, rules = password_file(data_dir), cluster / "pg_hba.conf"
    known = read_text(file).removeprefix(_EVERYWHERE)
    if known and read_text(rules) == RULES.strip():
        _close(file)
        return ""
    password = known or secrets.token_hex(32)
    write_private(file, f"{_EVERYWHERE}{password}\n")
    account.own(file)
    trouble = _set_password(password, cluster, binaries, account)
    if not trouble:
        write_private(rules, RULES)
        account.own(rules)
    return trouble


def _close(file: Path) -> None:
    """Restrict the file to its owner: libpq ignores a password file that others may read."""
    if stat.S_IMODE(file.stat().st_mode) != 0o600:
        file.chmod(0o600)


def _set_password(password: str, cluster: Path, binaries: Binaries, account: Account) -> str:
    command = [binaries.program("postgres"), "--single", "-D", str(cluster)]
    for setting in _SETTINGS:
        command += ["-c", setting]
    statement = f"ALTER ROLE {SUPERUSER} PASSWORD '{password}'\n"
    try:
        code, output = account.run([*command, "postgres"], seconds=_SECONDS, given=statement)
    except subprocess.TimeoutExpired:
        return f"ERROR: setting the password took more than {_SECONDS:.0f} s\n"
    return output if code or "ERROR: " in output else ""
