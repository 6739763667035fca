"""Garbage collection in processes that live long."""

import gc
import threading
import time

THRESHOLDS = (100_000, 10, 10)
"""Python's own, (700, 10, 10), start a full collection in the middle of every few batches. With
these, batches of a thousand sessions rarely start any. Calls of the API leave no cycles behind
(`tests/integration/test_cycles.py`), so there is little garbage; pages and libraries leave some."""
EVERY = 60.0
"""Seconds between collections that do not wait for so many new objects. Until there are as many, a
process would grow by some 15 MB, for 20 minutes and longer."""
_THREAD = "garbage"
_starting = threading.Lock()


def freeze() -> None:
    """Exempt all objects that exist now from collection, and make later collections rare.

    To be called when a process has started. Modules, models and views are some 150,000 objects that
    never become garbage; each full collection would look at all of them.
    """
    gc.collect()
    gc.freeze()
    # A full collection comes once a quarter as many objects are new as survived the last one. The
    # frozen ones do not count after this.
    gc.collect()
    gc.set_threshold(*THRESHOLDS)


def collect_regularly() -> None:
    """Collect garbage every minute, in a thread of its own, unless that runs.

    A thread does not survive a fork. It takes some milliseconds, since most objects are frozen.
    """
    with _starting:
        if not any(each.name == _THREAD for each in threading.enumerate()):
            threading.Thread(target=_collect, name=_THREAD, daemon=True).start()


def _collect() -> None:
    while True:
        time.sleep(EVERY)
        gc.collect()
