"""The API with a million sessions: compared with a thousand, and with a bare view.

There are two databases, with 1,000 and with 1,000,000 sessions, each behind the production web
server. One client makes every call to both in turn. For each call the 99th percentile of the best
round counts. `p99_growth` is the worst ratio of large to small, over create, get, attempts and
lists. Lists have each filter with a common and with a rare value, for a member of some projects;
the main ones also for a cluster admin. `counted_growth` is the same over figures of failures, of
retries and of nodes in a month: these grow until each hour and each day has all values.
`ratio_bare_view` is the worst ratio of requests per second, over four calls, to
`peers/bare_view.py` on the large database, each side with its best number of clients.

    python -m benchmarks.api [--quick] [--sessions 1000000]
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.database import benchmark_database
from benchmarks.failure_history import KEPT_DAYS, load_failures
from benchmarks.http_load import Client, request_bytes, requests_per_second
from benchmarks.session_history import ADMIN, MEMBER, Past, load_past

SMALL, LARGE = 1_000, 1_000_000
ROUNDS, REQUESTS = 3, 200
QUICK_ROUNDS, QUICK_REQUESTS = 3, 8
CLIENTS, QUICK_CLIENTS = (1, 8, 32), (8,)
SECONDS, QUICK_SECONDS = 3.0, 0.7
WINDOWS = 4
"""Measurements of each side, taken in turn; the best one counts."""
WARM = 20
"""Calls before a measurement. Each process has threads with connections of their own."""
PATIENCE = 60.0
BODY = json.dumps({"project": "domain-0/project-0", "image": "bench", "command": ["true"]}).encode()
API = "/api/v2/"
LIST = f"{API}sessions/"


@dataclass(frozen=True)
class Server:
    """A web server, and the content of its database."""

    past: Past
    port: int

    def request(self, call: "Call") -> bytes:
        """Return the bytes of a call to this server."""
        token = self.past.tokens[call.who]
        if call.name == "create":
            return request_bytes("POST", LIST, token, BODY)
        return request_bytes("GET", call.base + call.path(self.past), token)


@dataclass(frozen=True)
class Call:
    """A call. `query` may have placeholders for values of the past."""

    name: str
    query: str = ""
    who: str = MEMBER
    base: str = LIST

    def path(self, past: Past) -> str:
        """Return the path below `base`."""
        soon = past.middle + timedelta(days=29.9)
        known = {
            "root": past.root,
            "rare": past.rare,
            "middle": quote(past.middle.isoformat()),
            "late": quote(soon.isoformat()),
            "month": quote((datetime.now(UTC) - timedelta(days=KEPT_DAYS - 1)).isoformat()),
            "early": quote((past.middle - timedelta(days=20)).isoformat()),
            "deep": quote(past.deep_cursor()),
        }
        return self.query.format(**known)


FILTERS = (
    *("project=domain-0/project-0", "project=domain-0/rare", "queue=large", "queue=rare"),
    *("job_set=sweep", "job_set=rare", "status=TERMINATED", "status=ERROR", "status=CANCELLED"),
    *("status=RUNNING", "status=PENDING", "session_type=batch", "session_type=interactive"),
    *("retry_cause=kernel_nonzero_exit", "retry_cause=start_failure", "failure_category=flaky"),
    *("failure_category=rare", "retry_state=retried", "retry_state=held", "retry_state=none"),
    *("exit_code=0", "exit_code=99", "root={root}", "parent={root}", "tip=true", "tip=false"),
    *("owner=user-0", "owner=rare", "executor=executor-0", "executor=executor-rare"),
    *("node=node-0", "node=node-rare", "created_after={middle}", "created_after={late}"),
    *("created_before={middle}", "created_before={early}", "search=train", "search=needle"),
    *("search={rare}", "signature=facade000000"),
)
OF_PROJECT = "project=domain-0/project-0&since={month}"
FAILURES = (*("", "&ordering=-lost_run_seconds", "&queue=default", "&node=node-0"),)
COUNTED = (
    *(Call("failures", f"failures/?{OF_PROJECT}{each}", base=API) for each in FAILURES),
    Call("failure", f"failures/aaaaaaaaaaa0/?{OF_PROJECT}", base=API),
    *(
        Call("report", f"reports/retries/?{OF_PROJECT}&by={each}", base=API)
        for each in ("cause", "queue", "owner", "signature", "day")
    ),
    *(Call("nodes", f"nodes/{each}", ADMIN, API) for each in ("", "?executor=executor-1")),
    Call("breakers", "breakers/", base=API),
)
"""Figures of failures, retries and nodes: the window spans a month."""
OF_ADMIN = ("", "status=ERROR", "status=CANCELLED", "exit_code=99", "owner=rare", "search=needle")
CALLS = (
    *(Call("create"), Call("get", "{root}/"), Call("attempts", "{root}/attempts/")),
    *(Call("list"), Call("list", "?cursor={deep}")),
    *(Call("list", f"?{each}") for each in FILTERS),
    *(Call("list", f"?{each}", ADMIN) for each in OF_ADMIN),
    *COUNTED,
)
QUICK_CALLS = (*CALLS[:8], Call("list", "?status=ERROR"), Call("list", "?tip=true"), *COUNTED)
RATED = CALLS[:4]


def main() -> None:
    """Print the tables, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer calls and requests, one number of clients"
    )
    parser.add_argument("--sessions", type=int, default=LARGE, help="of the large database")
    arguments = parser.parse_args()
    quick = arguments.quick
    with ExitStack() as stack:
        small, _ = _prepare(stack, "reprise_bench_api_small", SMALL)
        large, url = _prepare(stack, "reprise_bench_api", arguments.sessions)
        bare = stack.enter_context(served(url, "benchmarks.peers.bare_view:application"))
        growth, counted = _growth(small, large, quick=quick)
        ratio = _ratio(large, bare, quick=quick)
    found = {"p99_growth": growth, "counted_growth": counted, "ratio_bare_view": ratio}
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


def _prepare(stack: ExitStack, name: str, count: int) -> tuple[Server, str]:

    url = stack.enter_context(benchmark_database(name))
    began = time.perf_counter()
    past = load_past(url, count)
    load_failures()
    print(f"  {count} sessions: {time.perf_counter() - began:.1f} s to load", file=sys.stderr)
    return Server(past, stack.enter_context(served(url, "reprise.wsgi"))), url


@contextmanager
def served(url: str, application: str) -> Iterator[int]:
    """Yield the port of an application under gunicorn, configured as in production."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    command = [
        *(sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py"),
        *("--bind", f"127.0.0.1:{port}", application),
    ]
    environ = {
        "DATABASE_URL": url,
        "REPRISE_LOG_LEVEL": "WARNING",
        # The rate limit is counted but never reached.
        "REPRISE_TOKEN_REQUESTS_PER_MINUTE": "100000000",
    }
    root = Path(__file__).parent.parent
    server = subprocess.Popen(command, env={**os.environ, **environ}, cwd=root)
    try:
        _await(server, port)
        yield port
    finally:
        server.terminate()
        server.wait()


def _await(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        try:
            client = Client(port)
        except OSError:
            time.sleep(0.1)
        else:
            client.close()
            return
    raise SystemExit("the web server did not start")


def _growth(small: Server, large: Server, *, quick: bool) -> tuple[float, float]:
    """Return the worst ratio of the 99th percentiles of a call: of sessions, and of figures."""
    print("call                                          rows  p99 at 10^3   p99 at 10^6   ratio")
    worst = counted = 0.0
    clients = Client(small.port), Client(large.port)
    rounds, requests = (QUICK_ROUNDS, QUICK_REQUESTS) if quick else (ROUNDS, REQUESTS)
    for call in QUICK_CALLS if quick else CALLS:
        sides = list(zip(clients, (small, large), strict=True))
        rows = {_warm(client, server.request(call)) for client, server in sides}
        if len(rows) != 1 and call not in COUNTED:
            raise SystemExit(f"{call}: {rows} rows")
        best = [float("inf"), float("inf")]
        for _ in range(rounds):
            for side, p99 in enumerate(_round(sides, call, requests)):
                best[side] = min(best[side], p99)
        ratio = best[1] / best[0]
        if call in COUNTED:
            counted = max(counted, ratio)
        else:
            worst = max(worst, ratio)
        label = f"{call.name} {call.query}{' (admin)' if call.who == ADMIN else ''}"
        print(
            f"{label:45.45} {rows.pop():5} {best[0] * 1000:9.2f} ms {best[1] * 1000:10.2f} ms"
            f"   {ratio:.2f}",
            flush=True,
        )
    for client in clients:
        client.close()
    return worst, counted


def _warm(client: Client, request: bytes) -> int:
    """Let the server's processes prepare the statements. Return the number of rows."""
    for _ in range(WARM):
        answer = client.call(request)
    if not 200 <= answer.status < 300:
        raise SystemExit(answer.body.decode())
    body = json.loads(answer.body)
    return len(body) if isinstance(body, list) else len(body.get("results", [body]))


def _round(sides: list[tuple[Client, Server]], call: Call, requests: int) -> list[float]:
    """Return the 99th percentile in seconds of each side; the sides are asked in turn."""
    taken: list[list[float]] = [[], []]
    for _ in range(requests):
        for (client, server), seconds in zip(sides, taken, strict=True):
            request = server.request(call)
            began = time.perf_counter()
            client.call(request)
            seconds.append(time.perf_counter() - began)
    return [sorted(seconds)[int(0.99 * (len(seconds) - 1))] for seconds in taken]


def _ratio(ours: Server, bare: int, *, quick: bool) -> float:
    """Return the worst ratio of requests per second."""
    print("call          bare view         Reprise          ratio")
    root, worst = ours.past.root, float("inf")
    paths = {"create": "create/", "get": f"get/{root}/", "attempts": f"attempts/{root}/"}
    for call in RATED:
        method = "POST" if call.name == "create" else "GET"
        same = request_bytes(method, "/" + paths.get(call.name, "list/"), "")
        for port, request in ((bare, same), (ours.port, ours.request(call))):
            client = Client(port)
            _warm(client, request)
            client.close()
        rates: dict[str, tuple[float, int]] = {"bare": (0.0, 0), "ours": (0.0, 0)}
        for clients in QUICK_CLIENTS if quick else CLIENTS:
            for side, port, request in (
                ("bare", bare, same),
                ("ours", ours.port, ours.request(call)),
            ) * WINDOWS:
                seconds = (QUICK_SECONDS if quick else SECONDS) / WINDOWS
                rate = requests_per_second(port, request, clients=clients, seconds=seconds)
                rates[side] = max(rates[side], (rate, clients))
        (base, at), (rate, by) = rates["bare"], rates["ours"]
        worst = min(worst, rate / base)
        print(
            f"{call.name:10} {base:7.0f}/s ({at:2} clients) {rate:7.0f}/s ({by:2} clients)"
            f"   {rate / base:.3f}",
            flush=True,
        )
    return worst


if __name__ == "__main__":
    main()
