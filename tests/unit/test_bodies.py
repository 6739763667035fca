"""Bodies that are read to their end before anybody works on them, and how much of them is held."""

import asyncio
from typing import Any

import pytest

from reprise.front.bodies import (
    IN_MEMORY,
    PIECE,
    BodyTooLongError,
    Head,
    NoRoomError,
    Room,
    SpooledBody,
)

ANY = Head(0, 10**9, 10**9)


def sent(*pieces: bytes, gone: bool = False) -> Any:
    """Return the messages of a server about a body that comes in pieces."""
    last = len(pieces) - 1
    messages = [
        {"type": "http.request", "body": piece, "more_body": gone or at < last}
        for at, piece in enumerate(pieces)
    ]
    messages += [{"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    return receive


async def nobody_asks() -> Any:
    return lambda: None


async def received(body: SpooledBody) -> list[bytes]:
    pieces, more = [], True
    while more:
        message = await body.receive()
        pieces.append(message["body"])
        more = message["more_body"]
    assert await body.receive() == {"type": "http.disconnect"}
    return pieces


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, IN_MEMORY + PIECE + 3])
def test_a_body_comes_out_as_it_went_in(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]

    async def run() -> None:
        body = await SpooledBody.read(sent(content[:7], content[7:]), ANY, nobody_asks)
        assert body is not None
        assert body.size == size
        pieces = await received(body)
        assert b"".join(pieces) == content
        assert max(map(len, pieces)) <= PIECE
        body.close()

    asyncio.run(run())


def test_half_a_body_is_none() -> None:
    assert asyncio.run(SpooledBody.read(sent(b"half", gone=True), ANY, nobody_asks)) is None


@pytest.mark.parametrize(
    ("announced", "drain", "left"),
    [
        (0, 9, 1),  # the rest is thrown away, up to so much
        (9, 9, 1),
        (9, 0, 3),  # nothing is read
    ],
)
def test_a_body_that_is_too_long_is_not_kept(announced: int, drain: int, left: int) -> None:
    receive = sent(b"123456", b"789", b"")

    async def run() -> int:
        with pytest.raises(BodyTooLongError):
            await SpooledBody.read(receive, Head(announced, 5, drain), nobody_asks)
        count = 0
        while (await receive())["type"] != "http.disconnect":
            count += 1
        return count

    assert asyncio.run(run()) == left


@pytest.mark.parametrize("announced", [0, IN_MEMORY + 2])
def test_a_large_body_is_admitted_once_and_its_room_is_freed(announced: int) -> None:
    told: list[str] = []

    async def admit() -> Any:
        told.append("in")
        return lambda: told.append("out")

    async def run() -> None:
        pieces = sent(b"x" * IN_MEMORY, b"y", b"z")
        body = await SpooledBody.read(pieces, Head(announced, 10**9, 0), admit)
        assert body is not None
        assert told == ["in"]
        body.close()
        body.close()
        gone = await SpooledBody.read(sent(b"x" * IN_MEMORY, b"y", gone=True), ANY, admit)
        assert gone is None

    asyncio.run(run())
    assert told == ["in", "out"] * 2


def test_a_small_body_is_not_asked_about() -> None:
    async def admit() -> Any:
        raise AssertionError

    body = asyncio.run(SpooledBody.read(sent(b"x" * IN_MEMORY), ANY, admit))
    assert body is not None
    assert body.bytes() == b"x" * IN_MEMORY
    body.close()


def test_room_is_of_each_caller_and_of_all() -> None:
    async def run() -> None:
        room = Room()
        limits: Any = {"limit": 10, "per_caller": 6, "seconds": 0.1}
        free = await room.take("ann", 6, **limits)
        for who, size in (("ann", 1), ("bob", 5)):
            with pytest.raises(NoRoomError):
                await room.take(who, size, **limits)
        await room.take("bob", 4, **limits)
        asyncio.get_running_loop().call_later(0.2, free)
        await room.take("cid", 6, **{**limits, "seconds": 60})

    asyncio.run(run())
