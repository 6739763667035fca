"""The messages that the other threads send to the main one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from reprise_client.wire import LeaseAnswer, LeaseKey, Outcome


@dataclass(frozen=True)
class Leased:
    """A lease call that was sent at `sent_at` (boot time) has succeeded."""

    answer: LeaseAnswer
    sent_at: float


@dataclass(frozen=True)
class Answered:
    """The server has given reports a final outcome. They are not sent again."""

    outcomes: list[Outcome]


@dataclass(frozen=True)
class HandedBack:
    """The server has taken back a lease that was refused."""

    key: LeaseKey


@dataclass(frozen=True)
class OutputShipped:
    """The ends of these runs no longer have to wait for their output.

    With `closed` nothing more of the output will be sent, so its files may be removed.
    """

    keys: Sequence[LeaseKey]
    closed: bool


@dataclass(frozen=True)
class TakenOver:
    """Another agent now acts as this executor."""

    reason: str


@dataclass(frozen=True)
class StopAsked:
    """A signal asks the agent to stop."""


Message = Leased | Answered | HandedBack | OutputShipped | TakenOver | StopAsked


class Inbox:
    """The queue of messages. It calls `wake` after each message, on the sender's thread."""

    def __init__(self, wake: Callable[[], None]):
        self._messages: SimpleQueue[Message] = SimpleQueue()
        self._wake = wake

    def post(self, message: Message) -> None:
        self._messages.put(message)
        self._wake()

    def drain(self) -> Iterator[Message]:
        while True:
            try:
                yield self._messages.get_nowait()
            except Empty:
                return
