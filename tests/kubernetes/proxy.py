"""Stands between an agent and its API server and spoils what goes through, as the test says."""

import asyncio
import json
import random
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import aiohttp
from aiohttp import web

from tests.kubernetes.apiserver import ApiServer
from tests.waiting import PATIENCE_SECONDS

Object = dict[str, Any]
Answer = tuple[int, bytes, dict[str, str]]
HOP = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
FOREVER = 1 << 60


@dataclass
class Fault:
    """A fault of requests with this `verb` ("" for all; `watch` is one, too) whose path holds
    `within`: of so many of them (`times`), or of this part of them (`share`).

    `answer` (status, body, headers) is given in place of the API server's; without it the request
    goes through and its answer is `lost` (the connection is), `held` for ever, `cut` in its middle,
    or `late` by so many seconds. With `unheard` it is held and does not even go through. `raw` is
    sent in place of any HTTP.
    """

    verb: str = ""
    within: str = ""
    times: int = FOREVER
    share: float = 1.0
    answer: Answer | None = None
    raw: bytes = b""
    lost: bool = False
    held: bool = False
    unheard: bool = False
    cut: bool = False
    late: float = 0.0
    met: list[float] = field(default_factory=list)
    """When."""

    def strikes(self, verb: str, path: str) -> bool:
        if self.verb not in {"", verb} or self.within not in path or len(self.met) >= self.times:
            return False
        if random.random() >= self.share:
            return False
        self.met.append(time.monotonic())
        return True


@dataclass(frozen=True)
class Heard:
    at: float
    verb: str
    path: str


class Proxy:
    """Speaks TLS with the API server's own certificate, until `present` names another."""

    def __init__(self, api: ApiServer):
        self._api = api
        self.heard: list[Heard] = []
        self.page: int | None = None
        """Of lists, in place of what the agent asks for."""
        self.expired = 0
        """How often the API server itself said 410."""
        self.tokens: dict[str, str] = {}
        """What the API server gets for each; any other is a 401. Empty: all are left alone."""
        self.before: Callable[[str, str], None] = lambda _verb, _path: None
        """Called with verb and path before a request goes through."""
        self._faults: list[Fault] = []
        self._open: dict[asyncio.Transport, str] = {}
        """With the verb of the newest request."""
        self._frozen: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = Event()
        self._thread = Thread(target=self._run, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(PATIENCE_SECONDS)

    def spoil(self, fault: Fault) -> Fault:
        self._loop.call_soon_threadsafe(self._faults.append, fault)
        return fault

    def mend(self) -> None:
        """New requests go through; what hangs still does."""
        self._loop.call_soon_threadsafe(self._faults.clear)

    def reset(self) -> None:
        """Begins anew for another agent."""
        self.mend()
        self.page, self.tokens, self.expired = None, {}, 0
        self.before = lambda _verb, _path: None
        self.heard.clear()

    def present(self, certificate: Path) -> None:
        """Speak with this certificate, on new connections; its key is beside it."""
        self._tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self.cut()

    def cut(self, verb: str = "") -> None:
        """Ends all connections, or those of requests with this verb."""
        self._loop.call_soon_threadsafe(self._abort, verb)

    def freeze(self) -> None:
        """The connections that there are stay open, and nothing goes through them any more."""
        self._loop.call_soon_threadsafe(lambda: self._frozen.update(self._open))

    def count(self, verb: str, within: str = "", since: float = 0.0) -> int:
        return sum(
            each.verb == verb and within in each.path and each.at >= since
            for each in list(self.heard)
        )

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._serve())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        self._loop.close()

    async def _serve(self) -> None:
        trust = ssl.create_default_context(cafile=str(self._api.certificate))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        async with aiohttp.ClientSession(connector=connector) as self._http:
            application = web.Application(client_max_size=1 << 26)
            application.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # Each connection shows the certificate of its time.
            self._tls.options |= ssl.OP_NO_TICKET
            self._tls.load_cert_chain(
                self._api.certificate, self._api.certificate.with_suffix(".key")
            )
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
            self._port: int = runner.addresses[0][1]
            self._ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._abort()
                await runner.cleanup()
                await asyncio.sleep(0.2)

    def _abort(self, verb: str = "") -> None:
        for transport, asked in list(self._open.items()):
            if verb in {"", asked}:
                transport.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        watches = request.query.get("watch") == "true"
        verb = "WATCH" if watches else request.method
        self._open = {each: asked for each, asked in self._open.items() if not each.is_closing()}
        self._open[transport] = verb
        self.heard.append(Heard(time.monotonic(), verb, request.path_qs))
        if transport in self._frozen:
            await _for_ever()
        matching = (each for each in list(self._faults) if each.strikes(verb, request.path_qs))
        fault = next(matching, Fault())
        if fault.unheard:
            await _for_ever()
        if fault.answer is not None:
            return _response(fault.answer)
        headers = {name: text for name, text in request.headers.items() if name.lower() not in HOP}
        if self.tokens:
            token = self.tokens.get(headers.get("Authorization", "").removeprefix("Bearer "))
            if token is None:
                return _response(status(401, "Unauthorized"))
            headers["Authorization"] = f"Bearer {token}"
        if fault.raw:
            transport.write(fault.raw)
            transport.close()
            await _for_ever()
        await asyncio.to_thread(self.before, verb, request.path_qs)
        return await self._pass_through(request, headers, transport, fault)

    async def _pass_through(
        self,
        request: web.Request,
        headers: dict[str, str],
        transport: asyncio.Transport,
        fault: Fault,
    ) -> web.StreamResponse:
        query = dict(request.query)
        if self.page is not None and query.get("limit"):
            query["limit"] = str(self.page)
        patience = aiohttp.ClientTimeout(total=None)
        body = await request.read()
        try:
            async with self._http.request(
                request.method,
                self._api.url + request.path,
                params=query,
                data=body or None,
                headers={**headers, "Accept-Encoding": "identity"},
                timeout=patience,
            ) as answer:
                return await self._give(request, transport, fault, answer)
        except aiohttp.ClientError:
            transport.abort()
            return web.Response(status=502)

    async def _give(
        self,
        request: web.Request,
        transport: asyncio.Transport,
        fault: Fault,
        answer: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        if fault.lost or fault.held:
            await answer.read()
            if fault.lost:
                transport.abort()
            await _for_ever()
        if fault.cut:
            return await self._give_half(request, transport, await answer.read())
        if fault.late:
            body = await answer.read()
            await asyncio.sleep(fault.late)
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)
        kept = {"Content-Type": answer.content_type}
        response = web.StreamResponse(status=answer.status, headers=kept)
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            if transport in self._frozen:
                await _for_ever()
            self.expired += b'"code":410' in piece
            await response.write(piece)
        await response.write_eof()
        return response

    async def _give_half(
        self, request: web.Request, transport: asyncio.Transport, body: bytes
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        transport.close()
        return response


def _response(answer: Answer) -> web.Response:
    code, body, headers = answer
    return web.Response(status=code, body=body, headers=headers)


async def _for_ever() -> None:
    await asyncio.Event().wait()


def status(code: int, reason: str, message: str = "", retry_after: int = 0) -> Answer:
    """An answer as the API server refuses with."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
    }
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return code, json.dumps(body).encode(), {"Content-Type": "application/json", **headers}


def event(kind: str, thing: Object) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"
