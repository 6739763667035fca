"""Runs work that must go on even after an unexpected error."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from executor.drivers.kubernetes.list_watch import pauses

log = logging.getLogger(__name__)


async def run_until_done(work: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
    """Run the work, and run it again after an unexpected exception.

    An error in the work on one pod must not end the work on all others.
    """
    backoff = pauses()
    while True:
        try:
            await work(*about)
        except Exception:
            log.exception("%s failed; it starts again", work.__qualname__)
        else:
            return
        await asyncio.sleep(backoff.next())


@contextmanager
def log_errors(about: object) -> Iterator[None]:
    """Log an exception of this block, so that one session's trouble does not harm the others."""
    try:
        yield
    except Exception:
        log.exception("cannot check the pods of session %s", about)
