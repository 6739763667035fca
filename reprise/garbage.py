"""Garbage collection in processes that live long."""

import gc

THRESHOLDS = (100_000, 10, 10)
"""Python's own, (700, 10, 10), start a full collection in the middle of every few batches. With
these, batches of a thousand sessions rarely start any. Calls of the API leave no cycles behind
(`tests/integration/test_cycles.py`), so there is little garbage; pages and libraries leave some,
which must not wait for long: 100,000 objects are some 15 MB."""


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
