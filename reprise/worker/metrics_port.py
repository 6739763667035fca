"""An HTTP port for the metrics of a Celery worker, which has no other port."""

import hmac
import logging
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from celery import signals
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from reprise.environment import given
from reprise.shared_metrics import counted

logger = logging.getLogger(__name__)

PATH = "/metrics"


def passes(authorization: str, wanted: str) -> bool:
    """Return whether an Authorization header holds the bearer token `wanted`."""
    scheme, _, secret = authorization.partition(" ")
    given = secret.strip().encode()
    return scheme.lower() == "bearer" and hmac.compare_digest(given, wanted.encode())


class _Scrape(BaseHTTPRequestHandler):
    server_version, sys_version = "reprise", ""
    timeout = 10.0
    """Seconds after which a slow request is dropped."""
    token = ""

    def do_GET(self) -> None:  # http.server's name
        """Answer `/metrics`; requires the token if there is one."""
        if self.path.partition("?")[0] != PATH:
            self._say(404, b"there is nothing but /metrics here\n")
        elif self.token and not passes(self.headers.get("Authorization", ""), self.token):
            self._say(401, b"send the token: Authorization: Bearer <REPRISE_METRICS_TOKEN>\n")
        else:
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._say(200, encode(_everything()), content_type)

    def _say(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", 'Bearer realm="reprise"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's names
        logger.debug(format, *args)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log the error in one line; with a traceback only if it is a bug of ours."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):  # the client disconnected, or is too slow
            logger.info("a scrape failed: %s: %s", type(error).__name__, error)
        else:
            logger.error("a scrape failed", exc_info=error)


def _everything() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(counted())
    return registry


def serve(port: int, token: str) -> ThreadingHTTPServer:
    """Answer on all addresses, from a thread. Raises `OSError` if the port is taken."""
    server = _Server(("", port), type("Scrape", (_Scrape,), {"token": token}))
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


_servers: list[ThreadingHTTPServer] = []


@signals.worker_ready.connect
def _open(**_kwargs: Any) -> None:
    # Celery sends this signal again after each reconnection to the broker.
    port = given().metrics_port
    if _servers or port is None:
        return
    try:
        _servers.append(serve(port, given().metrics_token))
    except OSError as error:
        # The worker works without metrics, too.
        logger.error("no metrics on port %s: %s", port, error)


@signals.worker_process_init.connect
def _leave(**_kwargs: Any) -> None:
    # A pool process that outlives the worker would keep the port.
    while _servers:
        _servers.pop().socket.close()
