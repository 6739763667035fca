"""The request log: each call gets an id, is counted, and is a line in the log."""

import logging
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from base.loglines.context import bind, clear
from sessions_app.instruments import REQUEST_SECONDS, REQUESTS

logger = logging.getLogger("reprise.requests")

HEADER = "X-Request-ID"
WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=+/@-]{0,127}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET = frozenset({"operations", "static"})
"""Doors whose calls are logged at DEBUG only: probes, scrapes and static files."""
WIRE_DOOR = "wire"
"""The door of executors, who call all the time; only refused calls are logged at INFO."""
NO_ROUTE = "none"
WIRE = re.compile(r"api/v2/executors/<str:name>/(lease|reports|return|logs)/")
UNCOUNTED = "reprise.uncounted"
"""Key of an ASGI scope: the server itself makes this call, for example to check permission."""
METHOD = "reprise.method"
"""Key of an ASGI scope: the method that the client used."""

Respond = Callable[[HttpRequest], HttpResponseBase]


class RequestLog:
    """The outermost middleware: gives each call an id, counts it and logs it."""

    def __init__(self, respond: Respond):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        scope = request.META.get("asgi.scope", {})
        if UNCOUNTED in scope:
            return self._respond(request)
        began = time.perf_counter()
        clear()
        request_id = request_id_of(request.headers.get(HEADER, ""))
        bind(request_id=request_id)
        try:
            response = self._respond(request)
            response.headers[HEADER] = request_id
            method = scope.get(METHOD, request.method)
            _log_request(request, method, response.status_code, time.perf_counter() - began)
            return response
        finally:
            # The thread serves other calls next.
            clear()

    def process_view(
        self, _request: HttpRequest, _view: Any, _args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Bind the session's id to the log lines, once the address is resolved."""
        if (session_id := kwargs.get("session_id")) is not None:
            bind(session_id=str(session_id))


def request_id_of(given: str) -> str:
    """Return the caller's id if it is well-formed, else a new one."""
    return given if WELL_FORMED.fullmatch(given) else uuid.uuid4().hex


def _log_request(request: HttpRequest, method: str, status: int, seconds: float) -> None:
    route, door = place_of(request)
    method = method if method in METHODS else "other"
    REQUESTS.labels(door, route, method, str(status)).inc()
    REQUEST_SECONDS.labels(door, route, method).observe(seconds)
    quiet = door in QUIET or (door == WIRE_DOOR and status < 400)
    level = logging.DEBUG if quiet else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields = {
        "door": door,
        "route": route,
        "method": method,
        "status": status,
        "duration_ms": round(seconds * 1000, 2),
    }
    # The user of a session cookie, if the call loaded one.
    if (user := getattr(request, "_cached_user", None)) is not None and user.is_authenticated:
        fields["actor"] = user.get_username()
    logger.log(level, "request", extra=fields)


def place_of(request: HttpRequest) -> tuple[str, str]:
    """Return the template of the address, never the address itself, and its door."""
    match = request.resolver_match
    if match is None:
        if request.path_info.startswith(settings.STATIC_URL):
            return settings.STATIC_URL.strip("/"), "static"
        return NO_ROUTE, "none"
    return match.route or "/", _door(match.route)


def _door(route: str) -> str:
    if route.startswith("api/"):
        return WIRE_DOOR if WIRE.fullmatch(route) else "rest"
    first = route.partition("/")[0]
    if first in {"healthz", "readyz", "metrics"}:
        return "operations"
    return first if first in {"admin", "graphql"} else "web"
