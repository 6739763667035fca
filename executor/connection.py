"""The connection to the server that all threads of the agent share, with one incarnation."""

import logging
import uuid
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from reprise_client.errors import ApiError
from reprise_client.wire import SupersededError, Wire

from base.loglines.context import bind, bound
from executor.backoff import Backoff
from executor.state import StateDir

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.05
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
LONGEST_ASKED = 30.0
"""Most seconds of a `Retry-After` to obey. It is far below a lease, so that no run is lost."""


class Connection:
    """Sends calls under the incarnation of this agent.

    A state directory that was lost or restored starts from an incarnation that the server has
    already passed. Only the first successful lease call shows whose directory it is. Until then
    this agent may take the next number once. After that, a `SupersededError` means that another
    agent has taken over.
    """

    def __init__(self, wire: Wire, state: StateDir):
        self._wire = wire
        self._state = state
        self._lock = Lock()
        self._settled = False
        self.state_id = state.identity()
        self.incarnation = state.next_incarnation()

    def call(self, send: Callable[[Wire, int], Answer], *, leases: bool = False) -> Answer:
        """Return the answer of `send(wire, incarnation)`; `leases` marks a lease call.

        The id of the call is in what this thread logs until its next call. Raises `SupersededError`
        and whatever the call raises.
        """
        bind(request_id=uuid.uuid4().hex)
        try:
            answer = send(self._wire, self.incarnation)
        except SupersededError as error:
            answer = send(self._wire, self._claim(error))
        self._settled = self._settled or leases
        self._state.note_answer()
        return answer

    def _claim(self, refusal: SupersededError) -> int:
        with self._lock:
            if self.incarnation <= refusal.current:
                if self._settled:
                    raise refusal
                self._settled = True
                self.incarnation = refusal.current + 1
                self._state.write_incarnation(self.incarnation)
                log.warning(
                    "the state directory was outdated; the incarnation is now %d", self.incarnation
                )
            return self.incarnation


def call_id() -> str:
    """Return the id of the call that this thread is making."""
    return bound("request_id")


class RetryPauses:
    """The pauses between tries of one kind of call. It logs the first failure only.

    The pauses double and are random, so that agents which lost the server together do not come back
    together. The `Retry-After` of the server is added to them.
    """

    def __init__(self, what: str):
        self._what = what
        # The pauses do not start at zero, so that a single agent does not hammer the server.
        self._backoff = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE, shortest=SHORTEST_PAUSE)

    def failed(self, error: Exception) -> float:
        """Return the seconds to wait before the next try.

        It is up to 0.2 at first and up to 5 later, plus what the server asked for, of which at most
        30 count.
        """
        if self._backoff.failures == 0:
            log.warning("%s: %s; trying again", self._what, error)
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        return min(asked, LONGEST_ASKED) + self._backoff.next()

    def succeeded(self) -> None:
        if tries := self._backoff.failures:
            log.info("%s: works again after %d failed attempts", self._what, tries)
        self._backoff.reset()
