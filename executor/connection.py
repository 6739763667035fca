"""The server as this agent's threads see it: one incarnation, one rule for losing it."""

import logging
import random
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from reprise_client.wire import SupersededError, Wire

from executor.state import StateDir

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Connection:
    """Sends calls under the agent's incarnation.

    A state directory that was lost or restored counts from a number that the server has left
    behind. Until a first call has succeeded this agent may therefore take the next number, once;
    after that `SupersededError` means what it says.
    """

    def __init__(self, wire: Wire, state: StateDir):
        self._wire = wire
        self._state = state
        self._lock = Lock()
        self._settled = False
        self.incarnation = state.next_incarnation()

    def call(self, send: Callable[[Wire, int], Answer]) -> Answer:
        """`send(wire, incarnation)`. Raises `SupersededError` and what the call raises."""
        try:
            answer = send(self._wire, self.incarnation)
        except SupersededError as error:
            answer = send(self._wire, self._claim(error))
        self._settled = True
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


class Patience:
    """Pauses between tries of one kind of call, with its failures told once, not each time."""

    def __init__(self, what: str):
        self._what = what
        self._failures = 0

    def failed(self, error: Exception) -> float:
        """Seconds to wait: doubling from 0.1 to 5, with jitter."""
        if self._failures == 0:
            log.warning("%s: %s; trying again", self._what, error)
        ceiling = min(FIRST_PAUSE * 2.0 ** min(self._failures, 10), LONGEST_PAUSE)
        self._failures += 1
        return random.uniform(ceiling / 2, ceiling)  # noqa: S311  # spreads load, guards nothing

    def succeeded(self) -> None:
        if self._failures:
            log.info("%s: works again after %d failed tries", self._what, self._failures)
        self._failures = 0
