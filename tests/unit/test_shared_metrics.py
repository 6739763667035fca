"""Counts of several processes: scrapes that come at the same moment."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from reprise.shared_metrics import forget_dead
from tests.waiting import PATIENCE_SECONDS

SCRAPES = 8
NOBODY = 2**22 + 1
"""Linux gives no process a number so high."""

FORKED = """
import os
from reprise import shared_metrics
shared_metrics.share()
from sessions_app import instruments
instruments.BODIES_ENDED.labels("408").inc()
if os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
os.closerange(3, 100)  # as Celery's embedded beat does
pipes = [os.pipe() for _ in range(20)]
instruments.BODIES_ENDED.labels("408").inc()
for reader, writer in pipes:
    os.write(writer, b"1")
    assert os.read(reader, 1) == b"1"
os._exit(0)
"""


def test_who_was_forked_closes_no_descriptors_of_others() -> None:
    environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run(
        [sys.executable, "-c", FORKED], env=environ, check=True, timeout=PATIENCE_SECONDS
    )


@pytest.mark.parametrize("_again", range(5))
def test_scrapes_at_the_same_moment_find_the_same_dead(tmp_path: Path, _again: int) -> None:
    for pid in range(NOBODY, NOBODY + 1000):
        (tmp_path / f"gauge_livesum_{pid}.db").touch()
    counted = tmp_path / f"counter_{NOBODY}.db"
    counted.touch()
    together = Barrier(SCRAPES)

    def scrape(_: int) -> None:
        together.wait(PATIENCE_SECONDS)
        forget_dead(tmp_path)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # as processes would, they get in each other's way at any line
    try:
        with ThreadPoolExecutor(SCRAPES) as threads:
            list(threads.map(scrape, range(SCRAPES)))
    finally:
        sys.setswitchinterval(interval)
    assert list(tmp_path.iterdir()) == [counted]
