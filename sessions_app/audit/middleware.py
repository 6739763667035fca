"""The middleware that names the door of a request, for the audit log."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from base.loglines.context import bound
from sessions_app.audit.context import ADMIN, GRAPHQL, REST, WEB, through

_DOORS = {"/api/": REST, "/graphql/": GRAPHQL, "/admin/": ADMIN}
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class DoorMiddleware:
    """Names the door for the changes of a request; requests that only read make none."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, with its door in the audit context."""
        if request.method in _READING:
            return self.get_response(request)
        # The id under which the log lines of this request can be found.
        with through(_door(request.path), request_id=bound("request_id")):
            return self.get_response(request)


def _door(path: str) -> str:
    return next((door for start, door in _DOORS.items() if path.startswith(start)), WEB)
