"""Request bodies, read to the end before a thread of the WSGI application is taken."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Any, Self

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]

IN_MEMORY = 64 * 1024
"""Bytes of a body that anybody may send. A longer one is admitted first, and goes to a file."""
PIECE = 256 * 1024
SETTLED = 1.0
"""Seconds after which an unfinished body may be ended to make room for a new one."""
TURN = 0.02
"""Seconds between two checks for a free place."""


class BodyTooSlowError(Exception):
    """The body was not complete in time."""


class BodyEndedError(Exception):
    """The body was ended because too many bodies were unfinished."""


class BodyTooLongError(Exception):
    """The body is longer than the call may have."""


class NoRoomError(Exception):
    """There was no room for a large body, of this caller or of all."""


@dataclass(frozen=True, slots=True)
class UploadSpeed:
    """The speed that a body must have: complete in `seconds`, and `rate` bytes/s after `grace`."""

    seconds: float
    rate: float
    grace: float

    def due(self, size: int) -> float:
        """Return the second, from its start, by which more than `size` bytes must come."""
        return min(self.seconds, self.grace + size / self.rate)


class Place:
    """The place of one unfinished body, with the time by which more of it must have come."""

    def __init__(self, address: str, speed: UploadSpeed):
        self.address = address
        self.ended = False
        self.timer = asyncio.timeout(None)
        self._speed = speed
        self._began = asyncio.get_running_loop().time()

    @property
    def settled(self) -> bool:
        """Return whether the body had the time in which most bodies are complete."""
        return asyncio.get_running_loop().time() - self._began >= SETTLED

    def come(self, size: int) -> None:
        """Set the time by which more than `size` bytes must be there."""
        if not self.ended:
            self.timer.reschedule(self._began + self._speed.due(size))

    def end(self) -> None:
        """Stop reading this body."""
        if self.ended:
            return
        self.ended = True
        # Its timeout may expire at this very moment.
        with suppress(RuntimeError):
            self.timer.reschedule(asyncio.get_running_loop().time())


class Unfinished:
    """The unfinished bodies: at most `limit`, and `per_address` from one address.

    If there is no room, the oldest body is ended: of this address if it has too many, else of the
    addresses that have the most. Bodies that have just begun stay, so that the calls of a burst
    wait for their turn and none of them is refused.
    """

    def __init__(self) -> None:
        self._places: dict[Place, None] = {}
        self._counts: Counter[str] = Counter()

    @asynccontextmanager
    async def place(
        self, address: str, speed: UploadSpeed, *, limit: int, per_address: int
    ) -> AsyncIterator[Place]:
        """Wait for room, and hold a place.

        Raises `BodyTooSlowError` or `BodyEndedError` if the body does not become complete.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + speed.seconds
        while crowd := self._crowd(address, limit, per_address):
            if loop.time() > give_up:
                raise BodyEndedError
            if crowd[0].settled:
                crowd[0].end()
            await asyncio.sleep(TURN)
        held = Place(address, speed)
        self._places[held] = None
        self._counts[address] += 1
        try:
            async with held.timer:
                held.come(0)
                yield held
        except TimeoutError:
            raise (BodyEndedError if held.ended else BodyTooSlowError) from None
        finally:
            del self._places[held]
            self._counts -= Counter([address])  # drops what has come to 0

    def _crowd(self, address: str, limit: int, per_address: int) -> list[Place]:
        """Return the bodies of which one must end before another may come, the oldest first."""
        if self._counts[address] >= per_address:
            return [each for each in self._places if each.address == address]
        if len(self._places) < limit:
            return []
        most = max(self._counts.values())
        return [each for each in self._places if self._counts[each.address] == most]


class Room:
    """The bytes of large bodies, from before they are read until their calls are answered."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    async def take(
        self, caller: str, size: int, *, limit: int, per_caller: int, seconds: float
    ) -> Callable[[], None]:
        """Wait for room for a body, of this caller and of all. Return what frees it again.

        Raises `NoRoomError` after so many seconds.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + seconds
        while self._held[caller] + size > per_caller or self._held.total() + size > limit:
            if loop.time() > give_up:
                raise NoRoomError
            await asyncio.sleep(TURN)
        self._held[caller] += size
        return lambda: self._free(caller, size)

    def _free(self, caller: str, size: int) -> None:
        self._held -= Counter({caller: size})  # drops what has come to 0


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a call says of its body: its length, 0 if that is not said.

    `limit` are the bytes that the call may have, `drain` those that are read of a refused one.
    """

    announced: int
    limit: int
    drain: int


Admit = Callable[[], Awaitable[Callable[[], None]]]
"""Waits for the room of a large body and returns what frees it, or raises why there is none."""


class SpooledBody:
    """A complete body that can be received again, piece by piece. Close it to free its space."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # closed by `close`
        self._free: Callable[[], None] | None = None
        self.size = 0
        self._left: int | None = None

    @classmethod
    async def read(
        cls, receive: Receive, head: Head, admit: Admit, place: Place | None = None
    ) -> Self | None:
        """Return the body from `receive`; `admit` is asked before a large one is read.

        Return None if the client disconnected before the end: half a body is useless. Raises
        `BodyTooLongError`, or what `admit` raises, after the rest of the body was thrown away.
        """
        body = cls()
        try:
            whole = await body._take(receive, head, admit, place)
        except BaseException:
            body.close()
            raise
        if not whole:
            body.close()
            return None
        body._file.seek(0)
        body._left = body.size
        return body

    async def _take(self, receive: Receive, head: Head, admit: Admit, place: Place | None) -> bool:
        """Store what arrives; return False if the client disconnected."""
        message: Message = {"more_body": True}
        try:
            await self._look(head.announced, head.limit, admit)
            while message.get("more_body", False):
                message = await receive()
                if message["type"] == "http.disconnect":
                    return False
                piece = message.get("body", b"")
                self.size += len(piece)
                await self._look(self.size, head.limit, admit)
                self._file.write(piece)
                if place is not None:
                    place.come(self.size)
        except Exception:
            while message.get("more_body", False) and self.size < head.drain:
                message = await receive()
                self.size += len(message.get("body", b""))
                if place is not None:
                    place.come(self.size)
            raise
        return True

    async def _look(self, size: int, limit: int, admit: Admit) -> None:
        """Refuse a body that is too long, and have a large one admitted."""
        if size > limit:
            raise BodyTooLongError
        if size > IN_MEMORY and self._free is None:
            self._free = await admit()

    async def receive(self) -> Message:
        """Return the next piece as an ASGI message; after the last one, a disconnect."""
        if self._left is None:
            return {"type": "http.disconnect"}
        piece = self._file.read(PIECE)
        self._left -= len(piece)
        more = self._left > 0
        self._left = self._left if more else None
        return {"type": "http.request", "body": piece, "more_body": more}

    def bytes(self) -> bytes:
        """Return the whole body at once, whatever of it was received before."""
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """Free the memory or the file, and the room."""
        self._file.close()
        if self._free is not None:
            self._free()
            self._free = None
