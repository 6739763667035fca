"""Calls through the proxy that last longer than it lets a body take."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
from reprise_client import Client

from tests.acceptance.running import submit

SECONDS = int(os.environ.get("REPRISE_TEST_PROXY_SECONDS", "7"))
"""The proxy's `read_body`; its own 120 s for a run by hand."""
LOGINS = 20
"""More than there are threads of web."""
PATIENCE = 180.0
REPORT_BYTES = 16 * 1024 * 1024


def slow_logins(port: int, stack: ExitStack) -> list[socket.socket]:
    """Begin calls of which only a few bytes of the body are sent."""
    request = (
        "POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n\r\nuser"
    )
    made = []
    for _ in range(LOGINS):
        connection = stack.enter_context(
            socket.create_connection(("127.0.0.1", port), SECONDS + PATIENCE)
        )
        connection.sendall(request.encode())
        made.append(connection)
    return made


def ended(connection: socket.socket) -> bool:
    """Return whether the other end closes the connection, whatever it says before."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def held_polls(url: str, secret: str) -> list[tuple[int, float]]:
    """Ask for work again and again; the status and the seconds of each answer."""
    found = []
    headers = {"Authorization": f"Bearer {secret}"}
    body: dict[str, Any] = {"incarnation": 1, "wait_s": 10}
    began = time.monotonic()
    with httpx.Client(headers=headers, timeout=PATIENCE) as http:
        while time.monotonic() - began < SECONDS + 2:
            asked = time.monotonic()
            answer = http.post(f"{url}/lease/", json=body)
            found.append((answer.status_code, time.monotonic() - asked))
    return found


def large_report(url: str, secret: str) -> httpx.Response:
    """Send a batch of reports that is as long as it may be."""
    body = b'{"incarnation": 1, "reports": []'.ljust(REPORT_BYTES - 1) + b"}"
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    return httpx.post(f"{url}/reports/", content=body, headers=headers, timeout=PATIENCE)


def too_large(url: str, secret: str, size: int) -> httpx.Response:
    """Send more than an ordinary call may have."""
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    where = f"{url}/api/v2/sessions/"
    return httpx.post(where, content=b" " * size, headers=headers, timeout=PATIENCE)


def followed_log(client: Client) -> str:
    """Return what a log says that goes on for longer than a body may take."""
    script = f"for i in $(seq {SECONDS + 3}); do echo $i; sleep 1; done"
    return "".join(client.follow_logs(submit(client, script)))


def meanwhile(client: Client, url: str, secret: str) -> tuple[list[tuple[int, float]], str]:
    """Hold polls and follow a log at the same time."""
    with ThreadPoolExecutor(2) as pool:
        polls = pool.submit(held_polls, url, secret)
        log = pool.submit(followed_log, client)
        return polls.result(), log.result()
