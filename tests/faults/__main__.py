"""`python -m tests.faults`: load and faults by a seed; exit status 1 if anything came of them."""

import argparse
import shutil
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

from tests.acceptance.broker import NODE_PROGRAMS
from tests.faults.run import DEFAULT_RATE, run, table
from tests.prepared import made_with

SHOWN = 50


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (default 1)")
    parser.add_argument("--seconds", type=float, default=60, help="of load and faults (default 60)")
    parser.add_argument(
        "--rate", type=float, default=DEFAULT_RATE, help="sessions submitted a second"
    )
    parser.add_argument("--keep", type=Path, help="leave database and logs in this directory")
    parser.add_argument("--prepared", type=Path, help="begin with a copy of this database")
    parser.add_argument(
        "--postgresql", type=Path, help="directory of its programs (default: the embedded one's)"
    )
    parser.add_argument("--first", action="store_true", help="end at the first thing that is wrong")
    given = parser.parse_args()
    if not any(map(shutil.which, NODE_PROGRAMS)):
        sys.stderr.write("no rabbitmq-server: apt-get install rabbitmq-server\n")
        return 2
    # So that whoever ends this early leaves nothing running.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    with made_with(given.postgresql) if given.postgresql else nullcontext():
        result = run(
            given.seed,
            given.seconds,
            given.rate,
            keep=given.keep,
            prepared=given.prepared,
            first=given.first,
        )
    sys.stdout.write(table(result) + "\n")
    for violation in result.violations[:SHOWN]:
        sys.stdout.write(f"VIOLATION {violation}\n")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
