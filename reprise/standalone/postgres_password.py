"""The password of the embedded PostgreSQL.

Whoever is let into the socket's directory may try, and a run of the server's own user always is:
it knows the directory, but cannot read the password's file where runs are isolated.
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
# Whatever the cluster's own settings say, the password is not to be in a log.
_SETTINGS = (
    "password_encryption=scram-sha-256",
    "log_statement=none",
    "log_min_error_statement=panic",
)


def password_file(data_dir: Path) -> Path:
    """The file from which libpq takes the password: its `passfile`."""
    return data_dir / "postgres.pgpass"


def ensure_password(data_dir: Path, cluster: Path, binaries: Binaries, account: Account) -> str:
    """See that the stopped cluster asks for the password; what went wrong, or nothing.

    A cluster that trusted everybody is changed. That is done without a server that could be asked,
    and the rules come last: an interrupted change is made again.
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
    """libpq takes no password from a file that others may read."""
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
