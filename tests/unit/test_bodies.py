"""Bodies that are read to their end before anybody works on them."""

import asyncio
from typing import Any

import pytest

from reprise.front.app import MAX_BODY, SIMULATE, Front
from reprise.front.bodies import IN_MEMORY, PIECE, SpooledBody
from sessions_app.api.simulate.parser import BODY_LIMIT_BYTES


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
        body = await SpooledBody.read(sent(content[:7], content[7:]), 10**9)
        assert body is not None
        assert body.size == size
        pieces = await received(body)
        assert b"".join(pieces) == content
        assert max(map(len, pieces)) <= PIECE
        body.close()

    asyncio.run(run())


def test_half_a_body_is_none() -> None:
    assert asyncio.run(SpooledBody.read(sent(b"half", gone=True), 10**9)) is None


def test_of_a_body_that_is_too_long_one_byte_more_is_kept() -> None:
    body = asyncio.run(SpooledBody.read(sent(b"123456", b"789"), 5))
    assert body is not None
    assert body.bytes() == b"123456"
    body.close()


@pytest.mark.parametrize(
    ("path", "announced", "size", "passed_on"),
    [
        ("/api/v2/sessions/", None, MAX_BODY + 5, MAX_BODY + 1),
        (SIMULATE, None, MAX_BODY + 5, MAX_BODY + 5),
        (SIMULATE, MAX_BODY + 5, MAX_BODY + 5, MAX_BODY + 5),
        # It is refused anyway: no more is read than its sender must have got rid of.
        (SIMULATE, BODY_LIMIT_BYTES + 1, MAX_BODY + 5, MAX_BODY + 1),
    ],
)
def test_the_part_of_a_body_that_is_passed_on(
    path: str, announced: int | None, size: int, passed_on: int
) -> None:
    read: list[int] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        read.append(len(environ["wsgi.input"].read()))
        start_response("204 No Content", [])
        return []

    async def send(_message: Any) -> None:
        pass

    headers = [] if announced is None else [(b"content-length", b"%d" % announced)]
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"",
        "http_version": "1.1", "headers": headers,
    }  # fmt: skip
    asyncio.run(Front(application)(scope, sent(b"x" * size), send))
    assert read == [passed_on]
