"""`python -m tests.mutants`: plant known bugs, one at a time; exit status 1 if any survives."""

import argparse
import re
import shutil
import signal
import sys

from tests.acceptance.broker import NODE_PROGRAMS
from tests.mutants.catalogue import MUTANTS
from tests.mutants.run import HEAD, Broken, Finding, Judge, line, run


def _tell(finding: Finding) -> None:
    sys.stdout.write(line(finding) + "\n")
    sys.stdout.flush()


def main() -> int:
    """The exit status: 2 if nobody could look."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="of those whose names this pattern is found in")
    parser.add_argument("--seed", type=int, default=1, help="of the faults (default 1)")
    parser.add_argument("--seconds", type=float, default=30, help="of the faults (default 30)")
    parser.add_argument("--no-judge", action="store_true", help="ask the tests alone")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if re.search(given.only, mutant.name)]
    if not chosen:
        sys.stderr.write(f"no mutant is called {given.only}\n")
        return 2
    judged = not given.no_judge and any(mutant.judge for mutant in chosen)
    if judged and not any(map(shutil.which, NODE_PROGRAMS)):
        sys.stderr.write("no rabbitmq-server: apt-get install rabbitmq-server\n")
        return 2
    # So that whoever ends this early leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    sys.stdout.write(HEAD + "\n")
    try:
        judge = Judge(given.seed, given.seconds) if judged else None
        findings = run(chosen, judge=judge, tell=_tell)
    except Broken as error:
        sys.stderr.write(f"{error}\n")
        return 2
    survivors = [finding.mutant.name for finding in findings if finding.survived]
    sys.stdout.write(f"{len(findings)} planted, {len(survivors)} survived\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
