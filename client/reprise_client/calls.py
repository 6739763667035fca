"""The base of all calls of the REST API: paths, pages and checked answers."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit

from reprise_client.answers import AnyAnswer, Versioned, parsed
from reprise_client.errors import InvalidAnswer
from reprise_client.http_library import httpx
from reprise_client.transport import Transport, decoded


class Calls:
    """A connection to one server with one token; usable as a context manager.

    `project` (`domain/name`) is the default project of calls.
    """

    def __init__(self, url: str, token: str, project: str | None = None, *, timeout: float = 30.0):
        self._transport = Transport(url, token, timeout=timeout)
        self.url = self._transport.url
        self.project = project

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def _get(
        self, kind: type[AnyAnswer], path: str, params: Mapping[str, Any] | None = None
    ) -> AnyAnswer:
        return self._read(kind, self._transport.exchange("GET", path, params=params), path)

    def _read(self, kind: type[AnyAnswer], response: httpx.Response, path: str) -> AnyAnswer:
        data = decoded(response)
        if issubclass(kind, Versioned) and isinstance(data, dict):
            data = {**data, "etag": response.headers.get("ETag", "")}
        return parsed(kind, data, self.url + path)

    def _send(
        self,
        kind: type[AnyAnswer],
        method: str,
        path: str,
        body: Mapping[str, Any],
        *,
        params: Mapping[str, Any] | None = None,
        idempotent: bool = False,
        timeout: float | None = None,
        if_match: str = "",
    ) -> AnyAnswer:
        response = self._transport.exchange(
            method,
            path,
            json=body,
            params=params,
            idempotent=idempotent,
            timeout=timeout,
            if_match=if_match,
        )
        return self._read(kind, response, path)

    def _pages(
        self, kind: type[AnyAnswer], path: str, filters: Mapping[str, Any]
    ) -> Iterator[AnyAnswer]:
        params: Mapping[str, Any] | None = present(filters)
        while params is not None:
            page = self._transport.request("GET", path, params=params)
            results = page.get("results") if isinstance(page, dict) else None
            for item in listed(results, self.url + path):
                yield parsed(kind, item, self.url + path)
            # Only the cursor is taken from the link. Its host may be wrong behind a proxy, and the
            # token must go only to the address that the user gave.
            params = parse_qs(urlsplit(page["next"]).query) if page.get("next") else None


def listed(answer: Any, source: str) -> list[Any]:
    """Return the answer, which must be a list. Raises `InvalidAnswer`."""
    if not isinstance(answer, list):
        raise InvalidAnswer(source, repr(answer)[:200])
    return answer


def part(text: str) -> str:
    """Return the text quoted as one segment of a path."""
    return quote(text, safe="")


def present(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query parameters that are not None."""
    return {name: _written(value) for name, value in params.items() if value is not None}


def _written(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
