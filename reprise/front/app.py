"""The ASGI front: long polls and streams, which must not hold a thread each.

Every request first goes through the WSGI application in a thread, like any other. Only answers that
have to wait or continue stay here, as coroutines.
"""

import asyncio
import contextvars
import json
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from typing import Any

from a2wsgi import WSGIMiddleware
from django.db import Error, close_old_connections

from base.loglines.context import bind
from interfaces.http.parsing import parse_facts
from interfaces.http.problems import MEDIA_TYPE, exception_handler
from reprise import garbage
from reprise.front import event_streams
from reprise.front.log_streams import Message, Receive, Send, request_id_in, send_log, wants_log
from reprise.front.tail import Tail
from reprise.front.uploads import Uploads
from reprise.front.work_listener import WorkListener
from reprise.http.call_limits import limited
from reprise.monitoring import disk
from reprise.postgresql.plans import tried_anew
from scheduler.services.polling import look_again
from scheduler.wire import LeaseCall
from sessions_app.instruments import HELD
from sessions_app.services.access.tokens import token_find

logger = logging.getLogger(__name__)

LEASE = re.compile(r"/api/v2/executors/([^/]+)/lease/")
BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_EMPTY_ANSWER = 512
"""Maximum size in bytes of an answer without leases or stops."""
PROBES = frozenset({"/healthz", "/readyz"})
PROBE_THREADS = 2
MISFIT_PAUSE = 2.0
"""Seconds until sessions that did not fit are tried again within one long poll."""


class Front:
    """An ASGI application in front of the WSGI one, which runs in `threads` threads."""

    def __init__(self, wsgi: Any, *, threads: int = 16):
        self._wsgi = WSGIMiddleware(wsgi, workers=threads)
        # Probes still answer when all other threads wait for the database.
        self._probes = WSGIMiddleware(wsgi, workers=PROBE_THREADS)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="front")
        self._uploads = Uploads(self._in_thread)
        self._listener = WorkListener()
        self._tail = Tail()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        method = scope["method"]
        stays = (self._wsgi, self._in_thread, lambda: self._listener.closing)
        if scope["path"] in PROBES and method in BODILESS:
            await self._probes(scope, receive, send)  # type: ignore[arg-type]
        elif method == "POST" and _lease(scope):
            await self._lease(scope, receive, send)
        elif method == "GET" and wants_log(scope):
            await send_log(scope, receive, send, *stays)
        elif method == "GET" and event_streams.wants_events(scope):
            serving = event_streams.Serving(self._wsgi, self._in_thread, self._tail)
            await event_streams.stream_events(scope, receive, send, serving)
        else:
            await self._plain(scope, receive, send)

    async def _plain(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass an ordinary call on; a slow body holds no thread until it is complete."""
        if scope["method"] in BODILESS:
            # A body of such a request is not awaited.
            await self._wsgi(scope, _replay(b""), send)  # type: ignore[arg-type]
            return
        body = await self._uploads.whole(scope, receive, send)
        if body is not None:
            with closing(body):
                await self._wsgi(_measured(scope, body.size), body.receive, send)  # type: ignore[arg-type]

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        task: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                task = asyncio.create_task(self._listener.run())
                garbage.freeze()
                garbage.collect_regularly()
                disk.watch.start("web")
                await send({"type": "lifespan.startup.complete"})
            else:
                self._listener.close()
                self._tail.close()
                await asyncio.to_thread(disk.watch.stop)
                if task is not None:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
                await send({"type": "lifespan.shutdown.complete"})
                return

    def close(self) -> None:
        """Answer all waiting calls; thread-safe."""
        self._listener.close_soon()
        self._tail.close_soon()

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        def call() -> Any:
            try:
                with limited():
                    return tried_anew(partial(function, *arguments))
            finally:
                close_old_connections()

        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, call)

    async def _lease(self, scope: Message, receive: Receive, send: Send) -> None:
        body = await self._uploads.whole(scope, receive, send)
        if body is None:
            return
        answer = _Captured()
        seen = self._listener.wake_ups
        # The body does not stay while the call is held.
        with closing(body):
            await self._wsgi(_measured(scope, body.size), body.receive, answer.send)  # type: ignore[arg-type]
            call = _held_call(body.bytes, answer)
        if call is not None:
            name = str(LEASE.fullmatch(scope["path"])[1])  # type: ignore[index]
            bind(request_id=answer.request_id, executor=name)
            with HELD.labels("lease").track_inprogress():
                try:
                    await self._hold(name, _bearer(scope), call, answer, receive, seen)
                except Error as error:
                    answer.fail(error)
        await answer.replay(send)

    async def _hold(
        self,
        name: str,
        secret: str,
        call: LeaseCall,
        answer: "_Captured",
        receive: Receive,
        seen: int,
    ) -> None:
        """Wait for work or a stop, as long as the agent is connected and wants to wait."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + call.wait_s
        gone = asyncio.ensure_future(receive())
        passed_over = 0
        try:
            while (left := deadline - loop.time()) > 0 and not self._listener.closing:
                pause = min(left, MISFIT_PAUSE) if passed_over else left
                await self._listener.wait(seen, pause, gone)
                quiet = self._listener.wake_ups == seen
                if gone.done() or (quiet and not passed_over):
                    return  # the agent's next call checks anyway
                seen = self._listener.wake_ups
                if not await self._in_thread(token_find, secret):
                    return  # revoked meanwhile: the agent's next call is refused
                found, passed_over = await self._in_thread(look_again, name, call)
                if found.leases or found.stops:
                    answer.replace(found.model_dump_json().encode())
                    return
        finally:
            gone.cancel()


def _bearer(scope: Message) -> str:
    """Return the token of a request that the application has accepted."""
    sent = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    return str(sent.partition(" ")[2].strip())


def _lease(scope: Message) -> bool:
    return LEASE.fullmatch(scope["path"]) is not None


def _measured(scope: Message, size: int) -> Message:
    """Return the request with the length of its body: WSGI takes a chunked one for empty."""
    if any(name == b"content-length" for name, _ in scope["headers"]):
        return scope
    return {**scope, "headers": [*scope["headers"], (b"content-length", b"%d" % size)]}


def _replay(body: bytes) -> Receive:
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _held_call(body: Callable[[], bytes], answer: "_Captured") -> LeaseCall | None:
    """Return the call if its answer is empty and may wait, else None."""
    if answer.status != 200 or len(answer.body) > LONGEST_EMPTY_ANSWER:
        return None
    found = json.loads(answer.body)
    if found["leases"] or found["stops"]:
        return None
    call = LeaseCall.model_validate(parse_facts(body()))  # as the view read it
    return call if call.wait_s > 0 else None


class _Captured:
    """An answer of the WSGI application, kept until we know what to send."""

    def __init__(self) -> None:
        self._start: Message = {}
        self.body = b""

    @property
    def status(self) -> int:
        return int(self._start["status"])

    @property
    def request_id(self) -> str:
        """Return the request id of the call."""
        return request_id_in(self._start["headers"])

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self.body += message.get("body", b"")

    def replace(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Replace the answer, as long as nothing was sent."""
        self.body = body
        changed = {"content_length": str(len(body)), **headers}
        new = [(name.replace("_", "-").encode(), value.encode()) for name, value in changed.items()]
        names = {name for name, _ in new}
        kept = [pair for pair in self._start["headers"] if pair[0].lower() not in names]
        self._start = {**self._start, "status": status, "headers": [*kept, *new]}

    def fail(self, error: Exception) -> None:
        """Replace the answer with the view's for a database error; raise other errors."""
        answer = exception_handler(error, {})
        if answer is None:
            raise error
        more = {"retry_after": wait} if (wait := answer.headers.get("Retry-After")) else {}
        self.replace(answer.content, answer.status_code, content_type=MEDIA_TYPE, **more)

    async def replay(self, send: Send) -> None:
        await send(self._start)
        await send({"type": "http.response.body", "body": self.body, "more_body": False})
