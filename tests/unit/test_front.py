"""Tests of the answers that the ASGI front gives by itself."""

import asyncio
from typing import Any

import pytest

from reprise.front.app import Front, _Captured, _held_call

NOTHING = b'{"leases": [], "stops": [], "lease_ttl": 300, "lease_grace": 60}'


def answered(body: bytes) -> _Captured:
    captured = _Captured()

    async def send() -> None:
        await captured.send({"type": "http.response.start", "status": 200, "headers": []})
        await captured.send({"type": "http.response.body", "body": body})

    asyncio.run(send())
    return captured


@pytest.mark.parametrize(
    "body",
    [
        b'{"incarnation": 7, "wait_s": 3, "driver": "\\ud800"}',
        b'{"incarnation": 7, "wait_s": 3, "nodes": [{"name": "n", "taints": [{"x": NaN}]}]}',
        b'\xef\xbb\xbf{"incarnation": 7, "wait_s": 3}',
        '{"incarnation": 7, "wait_s": 3}'.encode("utf-16"),
    ],
)
def test_a_call_that_the_view_took_is_held(body: bytes) -> None:
    call = _held_call(lambda: body, answered(NOTHING))
    assert call is not None
    assert (call.incarnation, call.wait_s) == (7, 3)


def test_a_body_in_chunks_reaches_the_application_with_its_length() -> None:
    read: list[bytes] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        read.append(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        start_response("204 No Content", [])
        return []

    pieces = [
        {"type": "http.request", "body": b'{"a"', "more_body": True},
        {"type": "http.request", "body": b": 1}", "more_body": False},
    ]
    scope = {
        "type": "http", "method": "PUT", "path": "/api/v2/x/", "query_string": b"",
        "http_version": "1.1", "headers": [(b"transfer-encoding", b"chunked")],
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return pieces.pop(0)

    async def send(_message: Any) -> None:
        pass

    asyncio.run(Front(application)(scope, receive, send))
    assert read == [b'{"a": 1}']
