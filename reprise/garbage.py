"""Garbage collection in processes that live long."""

import gc

THRESHOLDS = (50_000, 20, 50)
"""Python's own, (700, 10, 10), start a full collection in the middle of every few batches."""


def freeze() -> None:
    """Exempt all objects that exist now from collection, and make later collections rare.

    To be called when a process has started. Modules, models and views are some 150,000 objects that
    never become garbage; each full collection would look at all of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
