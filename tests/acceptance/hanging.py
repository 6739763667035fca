"""A worker whose pool hangs when its connection breaks, for workers that are started with
`--include`: as Celery's own does when the connection breaks at a bad moment."""

import sys
import threading
from typing import Any

from celery import signals


@signals.worker_ready.connect
def hang_at_the_next_break(sender: Any, **_kwargs: Any) -> None:
    sender.pool.flush = _hang


def _hang() -> None:
    sys.stderr.write("the pool hangs now\n")
    sys.stderr.flush()
    threading.Event().wait()
