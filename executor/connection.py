"""The server as this agent's threads see it: one incarnation, one rule for losing it."""

import logging
import uuid
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from reprise_client.errors import ApiError
from reprise_client.wire import SupersededError, Wire

from executor.backoff import Backoff
from executor.state import StateDir
from loglines.context import bind, bound

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.05
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
LONGEST_ASKED = 30.0
"""Far less than a lease lasts: a pause must not cost the runs."""


class Connection:
    """Sends calls under the agent's incarnation.

    A state directory that was lost or restored counts from a number that the server has left
    behind. Until a first lease call has succeeded, which alone says whose directory it is, this
    agent may therefore take the next number, once; after that `SupersededError` means what it says.
    """

    def __init__(self, wire: Wire, state: StateDir):
        self._wire = wire
        self._state = state
        self._lock = Lock()
        self._settled = False
        self.state_id = state.identity()
        self.incarnation = state.next_incarnation()

    def call(self, send: Callable[[Wire, int], Answer], *, leases: bool = False) -> Answer:
        """`send(wire, incarnation)`; with `leases` it is a lease call.

        Its id is in what the thread logs until its next call.
        Raises `SupersededError` and what the call raises.
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
                log.warning("the state directory was behind; incarnation is %d", self.incarnation)
            return self.incarnation


def call_id() -> str:
    """The id of the call that this thread makes."""
    return bound("request_id")


class Patience:
    """Pauses between tries of one kind of call, with its failures told once, not each time.

    They double, and are drawn from nothing to that: agents that a server lost all at once come
    back one by one. What the server asks for with `Retry-After` comes on top.
    """

    def __init__(self, what: str):
        self._what = what
        # Not quite from nothing: a single agent has nobody to make way for, and hammers nobody.
        self._backoff = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE, shortest=SHORTEST_PAUSE)

    def failed(self, error: Exception) -> float:
        """Seconds to wait: up to 0.2 at first, up to 5 at last, and what the server asked for,
        which is not more than 30."""
        if self._backoff.failures == 0:
            log.warning("%s: %s; trying again", self._what, error)
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        return min(asked, LONGEST_ASKED) + self._backoff.next()

    def succeeded(self) -> None:
        if tries := self._backoff.failures:
            log.info("%s: works again after %d failed tries", self._what, tries)
        self._backoff.reset()
