"""A pool of HTTP connections to one Reprise server. Its errors are exceptions."""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict, Unpack

from pydantic_core import from_json, to_json

from reprise_client.errors import (
    ApiError,
    ConfigError,
    InvalidAnswer,
    InvalidRequest,
    ServerUnreachable,
)
from reprise_client.http_library import httpx

API = "/api/v2"
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
MAX_TRIES = 4
MAX_BACKOFF_SECONDS = 5.0


class How(TypedDict, total=False):
    """The optional parts of a call, as `Transport.exchange` takes them."""

    json: Any
    params: Mapping[str, Any] | None
    timeout: float | None
    idempotent: bool
    if_match: str


class Transport:
    """Sends JSON to one server with one token.

    `url` is the server's origin, such as `http://127.0.0.1:8000`. Calls that are safe to repeat
    (`idempotent=True`; GET always is) are tried again on network errors and on 429, 502, 503 and
    504, with a jittered exponential pause or the server's `Retry-After`. Each call carries an id
    from `request_id`, which the server's log repeats.

    Raises `ServerUnreachable` if no answer came, `ApiError` for a 4xx or 5xx answer,
    `InvalidAnswer` if a success is not JSON, and `InvalidRequest` if what is to be sent is not.
    The constructor raises `ConfigError` for an address that is no URL or a token that no header can
    carry.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        tries: int = MAX_TRIES,
        request_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ):
        self.url = _checked_url(url)
        self._request_id = request_id
        self._tries = tries
        self._http = httpx.Client(
            base_url=self.url + API,
            timeout=timeout,
            headers={
                "Authorization": f"Bearer {_checked_token(token)}",
                "Accept": "application/json",
            },
            trust_env=False,
        )

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, **how: Unpack[How]) -> Any:
        """Return the JSON of the answer to `METHOD /api/v2{path}`; None for an empty answer."""
        return decoded(self.exchange(method, path, **how))

    def exchange(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        if_match: str = "",
        accept: str = "",
    ) -> httpx.Response:
        """Return the answer to `METHOD /api/v2{path}`, also if it is an error.

        `accept` is the media type that is wanted instead of JSON.

        `if_match` is the version to change. Such a call is not repeated, because it may have
        succeeded already.
        """
        idempotent = idempotent and not if_match
        headers = {"X-Request-ID": self._request_id()}
        content = None if json is None else _written(json)
        if content is not None:
            headers["Content-Type"] = "application/json"
        if if_match:
            headers["If-Match"] = if_match
        if accept:
            headers["Accept"] = accept
        tries = self._tries if idempotent or method == "GET" else 1
        limit = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
        for attempt in range(1, tries + 1):
            try:
                response = self._http.request(
                    method, path, content=content, params=params, timeout=limit, headers=headers
                )
            except httpx.RequestError as error:
                if attempt == tries:
                    raise ServerUnreachable(self.url, error) from error
                _pause(attempt, 0.0)
                continue
            if response.status_code in RETRIED_STATUSES and attempt < tries:
                _pause(attempt, _asked_pause(response))
                continue
            return response
        raise AssertionError("unreachable")

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        read_timeout: float = 60.0,
        accept: str = "*/*",
    ) -> Iterator[httpx.Response]:
        """Yield an open streaming answer to `GET path`; it is closed when the block ends."""
        timeout = httpx.Timeout(30.0, read=read_timeout)
        try:
            headers = {"Accept": accept, "X-Request-ID": self._request_id()}
            with self._http.stream(
                "GET", path, params=params, timeout=timeout, headers=headers
            ) as response:
                if not response.is_success:
                    response.read()
                    raise _refusal(response)
                yield response
        except httpx.RequestError as error:
            raise ServerUnreachable(self.url, error) from error


def _written(body: Any) -> bytes:
    """Return a value as JSON; pydantic writes it in a fifth of the standard library's time."""
    try:
        return to_json(body)
    except ValueError as error:
        parts = body if isinstance(body, dict) else {}
        raise InvalidRequest([name for name in parts if not _fit(parts[name])], error) from error


def _fit(value: Any) -> bool:
    try:
        to_json(value)
    except ValueError:
        return False
    return True


def _asked_pause(response: httpx.Response) -> float:
    """Return the seconds of `Retry-After`; 0 if there are none.

    The form with a date is ignored, because it would need a clock that agrees with the server's.
    """
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0


def _pause(attempt: int, asked: float) -> None:
    if asked:
        time.sleep(min(asked, MAX_BACKOFF_SECONDS))
        return
    ceiling = min(0.2 * 2**attempt, MAX_BACKOFF_SECONDS)
    time.sleep(random.uniform(ceiling / 2, ceiling))  # noqa: S311  # spreads load, guards nothing


def _checked_url(url: str) -> str:
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise ConfigError(f"{url!r} is not a URL: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
    return str(parsed).rstrip("/")


def _checked_token(token: str) -> str:
    # The message must not contain the token, which the HTTP library's own error would quote.
    if not token.isascii() or not token.isprintable():
        raise ConfigError("the token contains characters that no token has; paste it again")
    return token


def decoded(response: httpx.Response) -> Any:
    """Return the content of a successful answer. Raises what `Transport` raises."""
    if not response.is_success:
        raise _refusal(response)
    if not response.content:
        return None
    try:
        return from_json(response.content)
    except ValueError as error:
        raise InvalidAnswer(str(response.url), response.text[:200]) from error


def _refusal(response: httpx.Response) -> ApiError | InvalidAnswer:
    if response.is_error:
        return api_error(response)
    # A redirect is not followed: it would send the token to an address that nobody chose.
    location = response.headers.get("Location", "")
    return InvalidAnswer(str(response.url), f"HTTP {response.status_code} {location}".strip())


def api_error(response: httpx.Response) -> ApiError:
    """Return the error of an answer, also if a proxy answered without a problem detail."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"title": response.reason_phrase, "detail": response.text[:200]}
    return ApiError(response.status_code, problem, _asked_pause(response))
