"""How many web processes standalone has. Imports no framework: it is asked before Django is."""

import os
from argparse import ArgumentParser
from collections.abc import Sequence

from reprise import shared_metrics

OPTION = "--web-processes"
MOST = 4
"""PostgreSQL and the executor need the other half of the cores, and one PostgreSQL is busy then."""


def default_count(cores: int) -> int:
    """Return the number of web processes for so many cores.

    One Python process uses one core. Up to two cores, PostgreSQL and the executor need the other.
    """
    return max(1, min(cores // 2, MOST))


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def share_metrics(arguments: Sequence[str]) -> None:
    """Let several web processes and the worker count together; before metrics are imported.

    Django checks the arguments later: what is wrong here counts as one process.
    """
    parser = ArgumentParser(add_help=False)
    parser.add_argument(OPTION, default=str(default_count(usable_cores())))
    given, _ = parser.parse_known_args(arguments)
    if given.web_processes != "1":
        shared_metrics.share()
