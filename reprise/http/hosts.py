"""The hosts under which the server answers, and redirects."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.middleware import common

OPEN = frozenset({"/healthz", "/readyz", "/metrics"})


class CommonMiddleware(common.CommonMiddleware):
    """Django's middleware with two differences.

    Probes and Prometheus may use any host: they ask each process by its address, and the answer
    does not depend on the host. Only GET and HEAD are redirected to the address with a slash:
    clients follow a redirect of a POST with a GET, so that a creation would become a list, with a
    200.
    """

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        """Check the host and redirect, except for probes and metrics."""
        return None if request.path_info in OPEN else super().process_request(request)

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        """Return whether to redirect; GET and HEAD only."""
        return request.method in {"GET", "HEAD"} and super().should_redirect_with_slash(request)
