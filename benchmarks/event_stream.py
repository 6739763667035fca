"""The time from the writer of an event to its readers: 1,000 events per second, 50 readers.

A front in its own process serves one job set to all readers. Four writers write to it in
transactions of five events. The lag is measured from before the commit until the bytes arrive, on
one clock. Every reader must get every event once. The long form also has 1, 10 and 200 readers.

    python -m benchmarks.event_stream [--quick]
"""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from statistics import quantiles
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

import psycopg

from benchmarks.database import benchmark_database
from benchmarks.processes import cpu_seconds, tree

RATE = 1_000
"""Events per second."""
BATCH = 5
WRITERS = 4
READERS = 50
OTHERS = (1, 10, 200)
SECONDS = 20.0
QUICK_SECONDS = 10.0
START_SECONDS = 1.0
PATIENCE = 30.0
SET = "bench"
_EVENT = re.compile(rb'"id":(\d+),.*?"sent":(\d+)')


@dataclass
class Reader:
    """The events of one connection: ids in order, and the lag of each in nanoseconds."""

    lags: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    rest: bytes = b""

    def take(self, data: bytes) -> None:
        """Take bytes that have just arrived."""
        now = time.monotonic_ns()
        whole, _, self.rest = (self.rest + data).rpartition(b"\n\n")
        for number, sent in _EVENT.findall(whole):
            self.ids.append(int(number))
            self.lags.append(now - int(sent))


@dataclass(frozen=True)
class Result:
    """The lags in milliseconds, and the front's CPU time in percent of one core."""

    p50: float
    p99: float
    longest: float
    events: int
    cpu_percent: float


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50 readers, for 10 s")
    quick = parser.parse_args().quick
    with benchmark_database("reprise_bench_stream") as url:
        project, token = _prepare()
        port = _free_port()
        front = _start_front(url, port)
        try:
            print(" readers  events/s   p50 ms   p99 ms   max ms   front", flush=True)
            results = {}
            for readers in (READERS,) if quick else (READERS, *OTHERS):
                seconds = QUICK_SECONDS if quick else SECONDS
                results[readers] = _measure(url, project, token, port, front.pid, readers, seconds)
                _show(readers, results[readers], seconds)
        finally:
            front.terminate()
            front.wait()
    asked = results[READERS]
    print(json.dumps({"lag_p50_ms": round(asked.p50, 1), "lag_p99_ms": round(asked.p99, 1)}))


def _prepare() -> tuple[int, str]:
    """Create a project, and return its key and a token that reads it."""
    from django.contrib.auth.models import User

    from sessions_app.services.access.tokens import token_create
    from sessions_app.services.resources.tenants import project_ensure

    project, _ = project_ensure(domain="default", name="default", by="bench")
    admin = User.objects.create(username="bench", is_superuser=True)
    return project.pk, token_create(name="bench", user=admin)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _start_front(url: str, port: int) -> "subprocess.Popen[bytes]":
    front = subprocess.Popen(
        [sys.executable, "manage.py", "front", "--port", str(port)],
        env={**os.environ, "DATABASE_URL": url},
    )
    until = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
        except OSError:
            if time.monotonic() > until or front.poll() is not None:
                raise SystemExit("the front did not start") from None
            time.sleep(0.1)
        else:
            return front


def _measure(
    url: str, project: int, token: str, port: int, front: int, readers: int, seconds: float
) -> Result:
    name = f"{SET}-{readers}"
    with psycopg.connect(url, autocommit=True) as connection:
        _insert(connection, project, name, "{}", 1)  # so that there is something to follow
    before = cpu_seconds(tree(front))
    writer = get_context("spawn").Process(target=_write, args=(url, project, name, seconds))
    got = asyncio.run(_read(port, token, name, readers, round(RATE * seconds), writer.start))
    writer.join()
    used = cpu_seconds(tree(front)) - before
    expected = got[0].ids
    for reader in got:
        if len(set(reader.ids)) != len(reader.ids) or reader.ids != expected:
            raise SystemExit("a reader did not get every event once, in order")
    lags = sorted(lag / 1e6 for reader in got for lag in reader.lags)
    cuts = quantiles(lags, n=100)
    return Result(cuts[49], cuts[98], lags[-1], len(expected), 100 * used / seconds)


async def _read(
    port: int, token: str, name: str, readers: int, events: int, begin: Callable[[], None]
) -> list[Reader]:
    """Return what each reader got of the `events` that are written after `begin()`."""
    got = [Reader() for _ in range(readers)]
    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_follow(port, token, name, each, ready)) for each in got]
    for _ in got:
        await asyncio.wait_for(ready.acquire(), PATIENCE)
    begin()
    until = time.monotonic() + PATIENCE + events / RATE
    while any(len(each.ids) < events for each in got) and time.monotonic() < until:
        await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if any(len(each.ids) < events for each in got):
        raise SystemExit(f"only {min(len(each.ids) for each in got)} of {events} events came")
    return got


async def _follow(
    port: int, token: str, name: str, reader: Reader, ready: asyncio.Semaphore
) -> None:
    """Read for ever. Release `ready` at the first event, when the stream is surely open."""
    incoming, outgoing = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    outgoing.write(
        f"GET /api/v2/job-sets/{name}/events/?project=default/default HTTP/1.1\r\n"
        f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    try:
        head = await incoming.readuntil(b"\n\n")
        while b"data: " not in head:
            head = await incoming.readuntil(b"\n\n")
        ready.release()
        while data := await incoming.read(2**18):
            reader.take(data)
    finally:
        outgoing.close()


_INSERT = """
    INSERT INTO sessions_app_sessionevent
        (session_id, root_id, project_id, job_set, attempt, seq, type, time, data)
    SELECT s.id, s.id, %s, %s, 0, 1, 'session.running', clock_timestamp(), %s::jsonb
    FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %s)) AS s
"""


def _insert(
    connection: "psycopg.Connection[Any]", project: int, name: str, data: str, count: int
) -> None:
    connection.execute(_INSERT, [project, name, data, count])


def _write(url: str, project: int, name: str, seconds: float) -> None:
    """Write `RATE` events per second, evenly, from `WRITERS` connections.

    It runs in its own process.
    """
    start = time.monotonic() + START_SECONDS
    pause = BATCH * WRITERS / RATE

    def run(number: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for turn in range(round(seconds / pause)):
                at = start + (turn + number / WRITERS) * pause
                time.sleep(max(0.0, at - time.monotonic()))
                data = f'{{"node": "node-17", "sent": {time.monotonic_ns()}}}'
                _insert(connection, project, name, data, BATCH)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _show(readers: int, result: Result, seconds: float) -> None:
    print(
        f"{readers:8}{result.events / seconds:10.0f}{result.p50:9.1f}{result.p99:9.1f}"
        f"{result.longest:9.1f}{result.cpu_percent:7.0f}%",
        flush=True,
    )


if __name__ == "__main__":
    main()
