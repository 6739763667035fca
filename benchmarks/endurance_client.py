"""The client of `endurance.py`: how long get and list take beside the load.

Arguments are the server's URL, a project, for how many seconds to ask, and the last seconds that
count. The token is the first line of stdin. Prints one JSON line.
"""

import json
import sys
import time
from statistics import quantiles
from urllib.parse import quote, urlsplit

from benchmarks.http_load import Client, request_bytes

EVERY = 0.05
"""Seconds between two calls of a kind."""


def main() -> None:
    """Get a session of the last page, then get a page, until the time is over."""
    url, project, seconds, counted = sys.argv[1:]
    token = sys.stdin.readline().strip()
    client = Client(urlsplit(url).port or 80)
    listing = request_bytes("GET", f"/api/v2/sessions/?project={quote(project, safe='')}", token)
    began = time.monotonic()
    until, counts_from = began + float(seconds), began + float(seconds) - float(counted)
    took: dict[str, list[float]] = {"get": [], "list": []}
    number = 0
    while time.monotonic() < until:
        page, listed = _timed(client, listing)
        if results := page["results"]:
            path = f"/api/v2/sessions/{results[number % len(results)]['id']}/"
            _, got = _timed(client, request_bytes("GET", path, token))
            if time.monotonic() > counts_from:
                took["get"].append(got)
                took["list"].append(listed)
        number += 1
        time.sleep(max(0.0, began + number * EVERY - time.monotonic()))
    client.close()
    print(json.dumps(_figures(took)))


def _timed(client: Client, request: bytes) -> tuple[dict[str, list[dict[str, str]]], float]:
    """Return the answer to a call, and how many milliseconds it took."""
    began = time.perf_counter()
    answer = client.call(request)
    took = 1000 * (time.perf_counter() - began)
    if answer.status != 200:
        raise SystemExit(f"status {answer.status}: {answer.body[:500].decode()}")
    return json.loads(answer.body), took


def _figures(took: dict[str, list[float]]) -> dict[str, float]:
    found = {}
    for name, each in took.items():
        if len(each) < 2:
            raise SystemExit("there was no session to get")
        cuts = quantiles(each, n=100, method="inclusive")
        found[f"p50_{name}_ms"], found[f"p99_{name}_ms"] = round(cuts[49], 1), round(cuts[98], 1)
    return found


if __name__ == "__main__":
    main()
