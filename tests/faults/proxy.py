"""The network between a program and the web servers, which may be cut."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress

PIECE = 64 * 1024


class Proxy:
    """A TCP listener on `port` that forwards each connection to one of the `backends`' ports.

    It tries the next one where nobody answers, as a load balancer does. `cut` ends all connections
    and refuses new ones, or, `silently`, lets bytes wait where they are until `mend`: then they
    arrive, late.
    """

    def __init__(self, backends: Sequence[int]):
        self._backends = list(backends)
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._refuses = False
        self._connections: set[asyncio.StreamWriter] = set()
        self._turn = 0
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", 0)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self, *, silently: bool) -> None:
        self._loop.call_soon_threadsafe(self._cut, silently)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._mend)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _cut(self, silently: bool) -> None:
        if silently:
            self._open.clear()
            return
        self._refuses = True
        for writer in self._connections:
            writer.transport.abort()

    def _mend(self) -> None:
        self._refuses = False
        self._open.set()

    async def _close(self) -> None:
        self._server.close()
        self._refuses = True
        # A connection that was accepted just now gets its task in the next turn of the loop.
        await asyncio.sleep(0.01)
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            if not self._refuses:
                await self._serve(reader, writer)
        finally:
            self._connections.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        backend = await self._dial()
        if backend is None:
            return
        behind, to_behind = backend
        self._connections.add(to_behind)
        ways = [
            asyncio.ensure_future(self._forward(reader, to_behind)),
            asyncio.ensure_future(self._forward(behind, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._connections.discard(to_behind)
            to_behind.transport.abort()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        self._turn += 1
        for number in range(len(self._backends)):
            port = self._backends[(self._turn + number) % len(self._backends)]
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                await self._open.wait()
                writer.write(piece)
                await writer.drain()
