"""Calls to a process whose code needs tables that are not there yet."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from reprise.http.errors import unavailable
from reprise.postgresql.tables import tables

ANSWERED = ("/healthz", "/readyz", "/metrics")
"""Calls that say how the process is, with or without tables."""
AGAIN_SECONDS = "5"


class TablesThere:
    """Middleware that answers 503 until `migrate` has made what this code needs."""

    def __init__(self, respond: Callable[[HttpRequest], HttpResponseBase]):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request, or say what is missing."""
        if request.path not in ANSWERED and (missing := tables.missing()):
            return unavailable(request, missing, AGAIN_SECONDS)
        return self._respond(request)
