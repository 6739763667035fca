"""Metrics that several processes share, so that a scrape of any of them shows the sum.

gunicorn's workers, and the processes of a Celery worker's pool, count in files of one directory;
the process that is scraped adds them up. This module is imported before `prometheus_client`, which
looks for the directory only once.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from reprise.environment import given

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of prometheus_client."""
_mine: list[Path] = []


def share() -> None:
    """Make this process and its forks share their metrics, starting at 0.

    The files are in `REPRISE_METRICS_DIR`, which is emptied and must not be used by others, or in a
    temporary directory that is removed with this process.
    """
    if _mine:
        return  # gunicorn reads its settings again at each SIGHUP
    if "prometheus_client" in sys.modules:
        raise AssertionError("prometheus_client has already looked for its directory")
    if directory := given().metrics_dir:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in directory.glob("*.db"):
            left.unlink()
    else:
        directory = Path(tempfile.mkdtemp(prefix="reprise-metrics-"))
        atexit.register(_remove, directory, os.getpid())
    _mine.append(directory)
    os.environ[DIRECTORY] = str(directory)
    os.register_at_fork(after_in_child=_take_files)


def _take_files() -> None:
    """Open the files of a process that was just forked, and close its parent's.

    prometheus_client does so when the process counts first. By then, an embedded beat has closed
    all descriptors and has opened connections under the same numbers, which would be closed.
    """
    if instruments := sys.modules.get("sessions_app.instruments"):
        instruments.WRITES_REFUSED.set(0)


def remove() -> None:
    """Remove the temporary directory of this process; for an end that runs no exit handlers."""
    if _mine and given().metrics_dir is None:
        shutil.rmtree(_mine[0], ignore_errors=True)


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def forget_dead(directory: Path) -> None:
    """Remove the gauges of dead processes of the family; their counters remain."""
    for file in directory.glob("gauge_live*.db"):
        if not _alive(int(file.stem.rpartition("_")[2])):
            # prometheus_client's `mark_process_dead` fails if another scrape was there first.
            file.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False  # or another user's process has this number by now
    return True


def counted() -> Any:
    """Return a collector of the metrics of this process and its family."""
    from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415  # see above

    from sessions_app import instruments  # noqa: PLC0415

    directory = os.environ.get(DIRECTORY)
    if directory is None:
        return instruments.registry
    forget_dead(Path(directory))
    return MultiProcessCollector(None, directory)  # type: ignore[no-untyped-call]
