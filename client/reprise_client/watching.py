"""Watching a session, or its whole chain, to its end."""

import time
from collections.abc import Callable, Iterator

from reprise_client.errors import ApiError, ServerUnreachable, WaitTimeout
from reprise_client.models import Session
from reprise_client.outage import OutageTolerance

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


def watch(
    fetch: Callable[[str], Session],
    session_id: str,
    *,
    chain: bool = True,
    timeout: float | None = None,
) -> Iterator[Session]:
    """Yield the session whenever it has changed, the last time in its final form.

    With `chain` a retried session is followed by its child and so on, until an attempt has ended
    and no retry waits. It polls quickly after a change and every 2 s later on, and tolerates
    outages. Raises `WaitTimeout` after `timeout` seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    outage = OutageTolerance()
    seen: Session | None = None
    pause = FIRST_PAUSE_SECONDS
    while True:
        session = _fetch(fetch, session_id, outage)
        if session is not None and session != seen:
            yield session
            seen = session
            pause = FIRST_PAUSE_SECONDS
            successor = session.successor_id
            if chain and successor is not None:
                session_id = successor
                continue
            if session.chain_over if chain else session.final:
                return
        left = pause if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise WaitTimeout(session_id, timeout or 0.0)
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def _fetch(
    fetch: Callable[[str], Session], session_id: str, outage: OutageTolerance
) -> Session | None:
    try:
        session = fetch(session_id)
    except (ServerUnreachable, ApiError) as error:
        outage.endure(error)
        return None
    outage.answered()
    return session
