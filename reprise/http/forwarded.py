"""What a proxy says of a call in its headers, believed of trusted proxies only."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from interfaces.http.addresses import is_proxy

HEADERS = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
)


class Forwarded:
    """The first middleware: removes these headers if the caller itself has made them up."""

    def __init__(self, respond: Callable[[HttpRequest], HttpResponseBase]):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request, with the headers that may be believed."""
        if not is_proxy(str(request.META.get("REMOTE_ADDR", ""))):
            for name in HEADERS:
                request.META.pop(name, None)
        return self._respond(request)
