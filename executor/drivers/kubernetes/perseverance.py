"""Work that goes on although something in it goes wrong that never should."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from executor.drivers.kubernetes.list_watch import pauses

log = logging.getLogger(__name__)


async def see_through(work: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
    """Begins again what fails as it never should: all other pods have nothing to do with it."""
    backoff = pauses()
    while True:
        try:
            await work(*about)
        except Exception:
            log.exception("in %s; it begins again", work.__qualname__)
        else:
            return
        await asyncio.sleep(backoff.next())


@contextmanager
def alone(about: object) -> Iterator[None]:
    """What goes wrong with one session is not the trouble of the others."""
    try:
        yield
    except Exception:
        log.exception("looking at the pods of session %s", about)
