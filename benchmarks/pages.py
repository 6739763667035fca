"""The web pages with a million sessions, compared with a thousand.

There are two databases, with 1,000 and with 1,000,000 sessions, each behind the production web
server. One browser that is signed in asks both for each page in turn, and the median counts; an
operator's asks for the pages of operators.
`growth` is the worst ratio of large to small; `slowest_ms` is the longest time of any page on the
large database, until its last byte. What reads a bounded number of rows by design, at most 10,000,
grows until there are so many: it counts for `slowest_ms` only.

    python -m benchmarks.pages [--quick]
"""

import argparse
import json
import os
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from secrets import token_urlsafe
from urllib.parse import quote, urlencode

# The server reads the session that this process writes.
os.environ.setdefault("REPRISE_SECRET_KEY", token_urlsafe(48))

from benchmarks.api import LARGE, SMALL, served
from benchmarks.database import benchmark_database
from benchmarks.http_load import Client
from benchmarks.session_history import ADMIN, MEMBER, Past, load_past

REQUESTS, QUICK_REQUESTS = 60, 15
WARM = 10
LISTS = (
    *("", "status=ERROR", "status=RUNNING", "retry_state=held", "retry_cause=start_failure"),
    *("project=domain-0/rare", "queue=rare", "owner=rare", "executor=executor-rare"),
    *("node=node-rare", "job_set=rare", "search=needle", "attempts=all", "order=oldest"),
    *("created_before={middle}", "created_after={middle}"),
)
PARTS = ("", "log/", "attempts/?first=1&last=3", "steps/", "pod/", "compare/", "what-if/")
"""The page of one session, and what comes after it."""
PROJECT = "/projects/domain-0/project-0/"
OF_PROJECT = (
    "",
    "would-get/",
    "policies/",
    "policies/at/steady/",
    "queues/",
    "queues/preemptions/",
    "members/",
    "tokens/",
)
HISTORY = f"{PROJECT}policies/draft/history/"
"""A draft, tried on a sample of the past: a POST."""
BOUNDED = (
    *("/?image=bench", "/?image=nothing", "/?label=nothing", "/sessions/count/?status=ERROR"),
    *(f"{PROJECT}queues/shares/", HISTORY),
)
OPERATORS = (
    *("/operations/", "/operations/now/", "/operations/room/", "/operations/trends/"),
    "/admin/",
)
"""Pages of operators; what they count, they count up to 10,000."""


DRAFT = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: steady}
spec:
  rules:
    - {name: all, action: Retry, retryLimit: 9, onCauses: [kernel_nonzero_exit, oom_killed]}
"""
CSRF = "x" * 32


@dataclass(frozen=True)
class Side:
    """A connection to a web server, its past, and the cookies of a member and an operator."""

    past: Past
    client: Client
    cookie: str
    operator: str

    def request(self, path: str) -> bytes:
        """Return the bytes of the request for a page."""
        middle = quote(f"{self.past.middle:%Y-%m-%dT%H:%M}")
        known = {"root": self.past.root, "middle": middle}
        where = path.format(**known)
        cookie = f"Cookie: sessionid={self.operator if path in OPERATORS else self.cookie}"
        if path != HISTORY:
            return f"GET {where} HTTP/1.1\r\nHost: localhost\r\n{cookie}\r\n\r\n".encode()
        body = urlencode({"text": DRAFT, "csrfmiddlewaretoken": CSRF})
        head = f"POST {where} HTTP/1.1\r\nHost: localhost\r\n{cookie}; csrftoken={CSRF}\r\n"
        kind = "Content-Type: application/x-www-form-urlencoded\r\n"
        return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def seconds(self, path: str) -> float:
        """Return how long the page takes."""
        request, began = self.request(path), time.perf_counter()
        answer = self.client.call(request)
        if answer.status != 200:
            raise SystemExit(f"{path}: status {answer.status}")
        return time.perf_counter() - began


def main() -> None:
    """Print a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    requests = QUICK_REQUESTS if parser.parse_args().quick else REQUESTS
    with ExitStack() as stack:
        sides = [
            _side(stack, "reprise_bench_pages_small", SMALL),
            _side(stack, "reprise_bench_pages", LARGE),
        ]
        growth = slowest = 0.0
        pages = [f"/?{each}" for each in LISTS] + ["/sessions/rows/", "/projects/"]
        pages += [f"/sessions/{{root}}/{each}" for each in PARTS]
        pages += [f"{PROJECT}{each}" for each in OF_PROJECT]
        print("page                                      at 10^3      at 10^6   ratio")
        bounded = (*BOUNDED, *OPERATORS)
        for path in (*pages, *bounded):
            few, many = _medians(sides, path, requests)
            slowest = max(slowest, many)
            growth = growth if path in bounded else max(growth, many / few)
            print(f"{path:38.38} {few * 1000:8.1f} ms {many * 1000:8.1f} ms   {many / few:.2f}")
    print(json.dumps({"growth": round(growth, 3), "slowest_ms": round(slowest * 1000, 1)}))


def _side(stack: ExitStack, name: str, count: int) -> Side:

    url = stack.enter_context(benchmark_database(name))
    began = time.perf_counter()
    past, cookies = load_past(url, count), [_signed_in(name) for name in (MEMBER, ADMIN)]
    _make_policy()
    print(f"  {count} sessions: {time.perf_counter() - began:.1f} s to load", file=sys.stderr)
    return Side(past, Client(stack.enter_context(served(url, "reprise.wsgi"))), *cookies)


def _make_policy() -> None:
    """Save the draft as a policy of the project."""
    from interfaces.http.policy_text import read_policy
    from sessions_app.in_force.config_scope import ConfigScope
    from sessions_app.models import Project
    from sessions_app.services.resources.policies import policy_apply

    project = Project.objects.select_related("domain").get(name="project-0")
    policy_apply(read_policy(DRAFT), ConfigScope(project=project), by=ADMIN)


def _signed_in(name: str) -> str:
    """Sign somebody in, in the database that Django uses. Return the cookie."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    user, store = User.objects.get(username=name), SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)


def _medians(sides: list[Side], path: str, requests: int) -> tuple[float, float]:
    """Return the median seconds of both sides, which are asked in turn."""
    for side in sides * WARM:
        side.seconds(path)
    taken = [[side.seconds(path) for side in sides] for _ in range(requests)]
    few, many = zip(*taken, strict=True)
    return statistics.median(few), statistics.median(many)


if __name__ == "__main__":
    main()
