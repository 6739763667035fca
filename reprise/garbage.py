"""Garbage collection in processes that live long."""

import gc

THRESHOLDS = (50_000, 10, 10)
"""Python's own, (700, 10, 10), start a full collection in the middle of every few batches. With
these there is one in a minute at some 500 attempts a second; it takes 10 ms. They must not be much
rarer: requests are cycles (Django's storage of messages knows the request, which knows it), so what
a request has read stays until then, if a smaller collection came while it was served."""


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
