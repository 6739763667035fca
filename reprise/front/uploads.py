"""The bodies of calls at a front: read whole before a thread works on them, within limits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase, JsonResponse
from django.urls import Resolver404, resolve
from rest_framework.exceptions import APIException

from interfaces.http.addresses import client_address
from interfaces.http.parsing import DRAIN_BYTES, BodyTooLarge
from interfaces.http.problems import exception_handler
from reprise.front.bodies import (
    BodyEndedError,
    BodyTooLongError,
    BodyTooSlowError,
    Head,
    NoRoomError,
    Place,
    Room,
    SpooledBody,
    Unfinished,
    UploadSpeed,
)
from reprise.front.callers import caller
from sessions_app.instruments import BODIES_ENDED

logger = logging.getLogger(__name__)

Message = dict[str, Any]
ROOM_SECONDS = 5.0
"""Seconds that a large body waits for room; below `body_grace`, so that it is not too slow then."""


LINGER_SECONDS = 2.0


class NoRoom(APIException):
    """Too many large bodies are here."""

    status_code = 503
    wait = 0.5


class TooSlow(APIException):
    """The body did not come in time."""

    status_code = 408


class Uploads:
    """The bodies at one front.

    Anybody may send a small one. Of a large one only the head is read until its caller is known
    and there is room for it: of each caller, and of all.
    """

    def __init__(self, in_thread: Callable[..., Awaitable[Any]]):
        self._in_thread = in_thread
        self._unfinished = Unfinished()
        self._room = Room()

    async def whole(self, scope: Any, receive: Any, send: Any) -> SpooledBody | None:
        """Return the body of a call.

        Return None if the client disconnected before the end, or got an error answer.
        """
        call = _Call(scope)
        numbers = settings.REPRISE
        held = self._unfinished.place(
            call.address,
            call.speed,
            limit=int(numbers["unfinished_bodies"]),
            per_address=int(numbers["unfinished_bodies_per_address"]),
        )

        async def admit() -> Callable[[], None]:
            return await self._admit(call)

        try:
            async with held as place:
                return await self._read(call, receive, admit, place)
        except BodyTooSlowError:
            await _refuse(send, TooSlow("the body did not come in time"))
        except BodyEndedError:
            why = "too many calls are still sending their bodies; try again"
            await _refuse(send, NoRoom(why), meanwhile=_linger(receive))
        except Exception as error:  # noqa: BLE001  # what is no refusal is raised again
            await _refuse(send, error)
        return None

    async def _read(
        self, call: "_Call", receive: Any, admit: Any, place: Place
    ) -> SpooledBody | None:
        try:
            return await SpooledBody.read(receive, call.head, admit, place)
        except BodyTooLongError:
            raise BodyTooLarge(f"the body is over the limit of {call.head.limit} bytes") from None

    async def _admit(self, call: "_Call") -> Callable[[], None]:
        """Find out who sends a large body, and wait for room. Return what frees the room."""
        who = await self._in_thread(caller, call.peer, call.headers, call.throttled)
        numbers = settings.REPRISE
        limit, per_caller = (
            int(numbers[name]) for name in ("large_body_bytes", "large_body_bytes_per_caller")
        )
        size = call.head.announced or call.head.limit
        if size > min(limit, per_caller):
            raise BodyTooLarge(f"this server takes bodies up to {min(limit, per_caller)} bytes")
        try:
            return await self._room.take(
                who, size, limit=limit, per_caller=per_caller, seconds=ROOM_SECONDS
            )
        except NoRoomError:
            raise NoRoom(
                f"too many large bodies at the same time: {limit} bytes are taken of all callers "
                f"together, {per_caller} of {who}; try again"
            ) from None


class _Call:
    """What the head of a call says."""

    def __init__(self, scope: Any):
        self.headers = scope["headers"]
        self.peer = str((scope.get("client") or ("",))[0])
        forwarded = [value for name, value in self.headers if name == b"x-forwarded-for"]
        self.address = client_address(
            self.peer, forwarded[-1].decode("latin-1") if forwarded else ""
        )
        view = _view(scope["path"])
        self.throttled = bool(getattr(view, "throttle_classes", True))
        self.head = self._head(getattr(view, "body_limit", None) or settings.BODY_LIMIT_BYTES)
        numbers = settings.REPRISE
        long = self.head.limit > settings.BODY_LIMIT_BYTES
        seconds = numbers["long_body_timeout" if long else "body_timeout"]
        self.speed = UploadSpeed(seconds, numbers["body_bytes_per_second"], numbers["body_grace"])

    def _head(self, limit: int) -> Head:
        given = dict(self.headers)
        length = given.get(b"content-length", b"0")
        # A client that asks first sends nothing if it is refused.
        drain = 0 if b"expect" in given else max(limit, DRAIN_BYTES)
        return Head(int(length) if length.isdigit() else 0, limit, drain)


def _view(path: str) -> Any:
    """Return the view of an address, which says how long bodies may be; None without one."""
    try:
        return getattr(resolve(path).func, "cls", None)
    except Resolver404:
        return None


async def _linger(receive: Any) -> None:
    """Throw away for a moment what a client still sends, so that it sees its answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass


async def _refuse(
    send: Any, error: Exception, *, meanwhile: Coroutine[Any, Any, None] | None = None
) -> None:
    """Answer a call whose body is incomplete, wait for `meanwhile`, and close the connection."""
    answer: HttpResponseBase | None = exception_handler(error, {})
    if not isinstance(answer, JsonResponse):
        raise error
    status = answer.status_code
    BODIES_ENDED.labels(str(status)).inc()
    logger.info("body ended", extra={"status": status})
    body = answer.content
    headers = [
        *((name.lower().encode(), value.encode()) for name, value in answer.items()),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if meanwhile is not None:
        await meanwhile
    await send({"type": "http.response.body", "body": b"", "more_body": False})
