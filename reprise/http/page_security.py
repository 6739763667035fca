"""Headers that limit what browsers may do: Content-Security-Policy and Permissions-Policy."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

_CLOSED = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
OURS = (
    f"{_CLOSED}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'"
)
ADMIN = (
    f"{_CLOSED}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'"
)
"""The theme evaluates expressions in its attributes, and writes its colours into the page."""
GRAPHIQL = (
    f"{_CLOSED}; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; form-action 'self'"
)
"""The editor creates style elements."""
DOCS = (
    f"{_CLOSED}; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'"
)
_BY_PATH = {
    "/api/v2/docs/": DOCS,
    "/api/": f"{_CLOSED}; form-action 'none'",
    "/graphql/": GRAPHIQL,
    "/admin/": ADMIN,
}
# Only names that browsers know: each other one is a warning on every page.
_UNUSED = """
    accelerometer autoplay browsing-topics camera display-capture encrypted-media
    fullscreen
    geolocation gyroscope hid identity-credentials-get idle-detection local-fonts magnetometer
    microphone midi payment picture-in-picture publickey-credentials-get screen-wake-lock serial usb
    window-management xr-spatial-tracking
"""
PERMISSIONS = ", ".join(f"{each}=()" for each in _UNUSED.split())


class PageSecurity:
    """Middleware that sets the security headers of each answer."""

    def __init__(self, respond: Callable[[HttpRequest], HttpResponseBase]):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request, with the security headers."""
        response = self._respond(request)
        response.headers["Content-Security-Policy"] = policy(request.path)
        if not request.path.startswith("/api/") or request.path in _BY_PATH:
            response.headers["Permissions-Policy"] = PERMISSIONS
        return response


def policy(path: str) -> str:
    """Return the Content-Security-Policy of an answer."""
    return next((each for start, each in _BY_PATH.items() if path.startswith(start)), OURS)
