"""Counts of several processes: scrapes that come at the same moment."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from reprise.shared_metrics import forget_dead

SCRAPES = 8
NOBODY = 2**22 + 1
"""Linux gives no process a number so high."""


@pytest.mark.parametrize("_again", range(5))
def test_scrapes_at_the_same_moment_find_the_same_dead(tmp_path: Path, _again: int) -> None:
    for pid in range(NOBODY, NOBODY + 1000):
        (tmp_path / f"gauge_livesum_{pid}.db").touch()
    counted = tmp_path / f"counter_{NOBODY}.db"
    counted.touch()
    together = Barrier(SCRAPES)

    def scrape(_: int) -> None:
        together.wait(60)
        forget_dead(tmp_path)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # as processes would, they get in each other's way at any line
    try:
        with ThreadPoolExecutor(SCRAPES) as threads:
            list(threads.map(scrape, range(SCRAPES)))
    finally:
        sys.setswitchinterval(interval)
    assert list(tmp_path.iterdir()) == [counted]
