"""Write what follows from the server's declarations and stands elsewhere, too.

    python tools/write_tables.py           # write
    python tools/write_tables.py --check   # print what is out of date, and fail if anything is

The client must not import the server: it gets copies. `make schema` runs this, and `make lint` the
check.
"""
# ruff: noqa: INP001, T201, S603  # a script for people, of ruff alone

import argparse
import difflib
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from retry.engine.reasons import EXHAUSTED, REASONS, RETRIED, Reason

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "client/reprise_client/cli"


def reasons(_old: str) -> str:
    """Return the reasons of decisions as the command tells them."""
    granted = [each for each in REASONS.values() if each.state == RETRIED]
    refused = [each for each in REASONS.values() if each.state != RETRIED]
    spent = [each.name for each in refused if each.state == EXHAUSTED]
    return _python(
        f'''"""Why a session is retried, or is not: each reason of a decision as a clause.

Written by `make schema` after retry/engine/reasons.py.
"""

GRANTS = {_clauses(granted)}
REFUSALS = {_clauses(refused)}
SPENT = frozenset({spent})
"""The refusals that come after retries."""
'''
    )


def _clauses(reasons: Iterable[Reason]) -> str:
    lines = (f"    {each.name!r}: {each.clause!r},\n" for each in reasons)
    return f"{{\n{''.join(lines)}}}"


def _python(text: str) -> str:
    """Return a module as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "written.py", "-"]
    done = subprocess.run(ruff, input=text, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


WRITTEN: dict[str, Callable[[str], str]] = {
    f"{COMMAND}/reasons.py": reasons,
}
"""Each file with what makes its text out of the one that it has."""


def main() -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = False
    for name, made in WRITTEN.items():
        path = ROOT / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = made(old)
        if old == new:
            continue
        if check:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, lineterm="")
            print(*lines, sep="\n")
            stale = True
        else:
            path.write_text(new, encoding="utf-8")
    if stale:
        print("Declarations changed: run 'make schema' and commit the files above")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
