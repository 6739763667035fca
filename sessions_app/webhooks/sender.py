"""One attempt of a webhook: signed, sent to a checked address, and limited in time."""

import logging
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urljoin

import httpcore
import httpx
from standardwebhooks import Webhook

from sessions_app.db.failpoints import failpoint
from sessions_app.webhooks.rules import Answer, retry_after
from sessions_app.webhooks.url_guard import Guard, Refused

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
"""Maximum seconds of an attempt after the name lookup, whatever the receiver does."""
MOST_BYTES = 16 * 1024
"""Maximum bytes read of the answer."""
EXCERPT = 500
LONGEST_ERROR = 300
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
AGENT = "reprise-webhooks/1"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send; the first of the secrets is the present one."""

    id: str
    url: str
    body: str
    secrets: Sequence[str]

    def headers(self, now: datetime) -> dict[str, str]:
        """Return the headers of Standard Webhooks, with a signature for each secret."""
        signatures = [Webhook(secret).sign(self.id, now, self.body) for secret in self.secrets]
        return {
            "content-type": "application/json",
            "user-agent": AGENT,
            "webhook-id": self.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }


class Attempt:
    """Sends a message once; `run` never raises. Another thread may `abort` it."""

    def __init__(self, message: Message, guard: Guard):
        self._message = message
        self._backend = _GuardedBackend(guard)
        self._guard = guard

    def run(self) -> Answer:
        """Send the message and read the answer."""
        began = time.monotonic()
        try:
            answer = self._exchange()
        except Refused as refused:
            answer = Answer(error=f"not sent: {refused}")
        except (httpcore.TimeoutException, TimeoutError):
            answer = Answer(error=f"no answer within {TOTAL_SECONDS:g} s")
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, UnicodeError) as error:
            answer = Answer(error=_no_answer(error))
        except Exception as error:  # whatever one receiver does, the others are sent to
            logger.exception("sending a webhook to %s failed unexpectedly", self._message.url)
            answer = Answer(error=f"not sent: {type(error).__name__}")
        finally:
            self._backend.close()
        latency = int((time.monotonic() - began) * 1000)
        return Answer(answer.code, answer.error, answer.excerpt, answer.retry_after, latency)

    def abort(self) -> None:
        """Cut the connection: a receiver that sends a byte at a time never times out."""
        self._backend.cut()

    def _exchange(self) -> Answer:
        self._guard.check_url(self._message.url)
        now = datetime.now(UTC)
        url = httpcore.URL(self._message.url)
        body = self._message.body.encode()
        headers = {
            "host": url_host(self._message.url),
            **self._message.headers(now),
            "content-length": str(len(body)),
            "connection": "close",
        }
        request = httpcore.Request(
            "POST",
            url,
            headers=list(headers.items()),
            content=body,
            extensions={
                "timeout": {
                    "connect": CONNECT_SECONDS,
                    "read": TOTAL_SECONDS,
                    "write": TOTAL_SECONDS,
                }
            },
        )
        with httpcore.HTTPConnection(
            url.origin, ssl_context=_tls(), network_backend=self._backend
        ) as connection:
            failpoint("webhook.before_send")
            response = connection.handle_request(request)
            failpoint("webhook.after_send")
            return _answer(response, self._message.url)


def url_host(url: str) -> str:
    """Return the `Host` header of a request for a URL."""
    return httpx.URL(url).netloc.decode("ascii")


def _answer(response: httpcore.Response, url: str) -> Answer:
    headers = {key.lower(): value for key, value in response.headers}
    asked = headers.get(b"retry-after", b"").decode("latin-1")
    # The status decides; an answer whose body breaks off still counts.
    taken = b""
    with suppress(httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
        for part in response.iter_stream():
            taken += part[: MOST_BYTES - len(taken)]
            if len(taken) >= MOST_BYTES:
                break
    excerpt = taken.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    after = retry_after(asked, datetime.now(UTC)) if asked else None
    error = ""
    if response.status in _REDIRECTS and (target := headers.get(b"location", b"")):
        error = _redirected(url, target.decode("latin-1"))
    return Answer(response.status, error, excerpt[:EXCERPT], after)


def _redirected(url: str, target: str) -> str:
    # The address comes from the receiver.
    address = _printable(urljoin(url, target))
    return f"redirects are not followed: use {address}"[:LONGEST_ERROR]


def _no_answer(error: Exception) -> str:
    # The text may come from the receiver.
    return f"no answer: {_printable(str(error)) or type(error).__name__}"[:LONGEST_ERROR]


def _printable(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


@cache
def _tls() -> ssl.SSLContext:
    """Return httpx's TLS context: certifi's authorities, or those of `SSL_CERT_FILE`."""
    return httpx.create_ssl_context()


class _GuardedBackend(httpcore.NetworkBackend):
    """Looks a name up once, and connects to one of its addresses that the guard allows.

    TLS still checks the receiver's certificate for the name.
    """

    def __init__(self, guard: Guard):
        self._guard = guard
        self._until = 0.0
        self._cutter: socket.socket | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Look the name up and connect to its first allowed address that answers."""
        found = socket.getaddrinfo(host.rstrip("."), port, type=socket.SOCK_STREAM)
        addresses = self._guard.choose(host, dict.fromkeys(str(each[4][0]) for each in found))
        self._until = time.monotonic() + TOTAL_SECONDS
        stream = self._connect(addresses, port, timeout, local_address, socket_options)
        self._cutter = stream.get_extra_info("socket").dup()
        return _Hurried(stream, self._until)

    def _connect(self, addresses: Sequence[str], port: int, *options: Any) -> Any:
        plain = httpcore.SyncBackend()
        for address in addresses[:-1]:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return plain.connect_tcp(address, port, *options)
        return plain.connect_tcp(addresses[-1], port, *options)

    def cut(self) -> None:
        if self._cutter is not None:
            with suppress(OSError):
                self._cutter.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._cutter is not None:
            self._cutter.close()


class _Hurried(httpcore.NetworkStream):
    """A connection whose every step is limited by the time left of the whole attempt."""

    def __init__(self, stream: httpcore.NetworkStream, until: float):
        self._stream = stream
        self._until = until

    def _left(self, timeout: float | None) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left if timeout is None else min(timeout, left)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read within the time left."""
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write within the time left."""
        self._stream.write(buffer, self._left(timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Start TLS within the time left."""
        inner = self._stream.start_tls(ssl_context, server_hostname, self._left(timeout))
        return _Hurried(inner, self._until)

    def get_extra_info(self, info: str) -> Any:
        """Return information about the inner connection."""
        return self._stream.get_extra_info(info)
