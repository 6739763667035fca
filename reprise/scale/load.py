"""Submits sessions over plain HTTP, without the SDK."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from reprise.standalone.credentials import Credentials
from reprise.standalone.errors import StandaloneError

BULK_PATH = "/api/v2/sessions/bulk/"
TIMEOUT = 120.0


@contextmanager
def connected(credentials: Credentials) -> Iterator[HTTPConnection]:
    """Yield a connection to the server, and close it at the end."""
    url = urlsplit(credentials.url)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT)
    try:
        yield connection
    finally:
        connection.close()


def submit(
    connection: HTTPConnection, credentials: Credentials, bodies: Sequence[dict[str, Any]]
) -> list[str]:
    """Submit up to 1,000 sessions in one call. Return their ids. Raises `StandaloneError`."""
    headers = {
        "Authorization": f"Bearer {credentials.token}",
        "Content-Type": "application/json",
    }
    connection.request("POST", BULK_PATH, json.dumps({"sessions": bodies}), headers)
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise StandaloneError(f"{BULK_PATH} answered {response.status}: {answer[:300]!r}")
    outcomes = json.loads(answer)["results"]
    refused = [each["problem"] for each in outcomes if each["outcome"] != "created"]
    if refused:
        raise StandaloneError(f"{len(refused)} sessions were refused, the first one: {refused[0]}")
    return [each["session_id"] for each in outcomes]
