"""Under which names and addresses the server answers."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.middleware import common

OPEN = frozenset({"/healthz", "/readyz", "/metrics"})


class CommonMiddleware(common.CommonMiddleware):
    """Django's, but for two things.

    Names that are not allowed are not refused to probes and to Prometheus: those ask each process
    by its address, and nothing they are told depends on the name. To the address with a slash at
    its end only those are led on who read: clients follow a redirect of a POST with a GET, so that
    a creation would become a list, with a 200.
    """

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        """Django's hook."""
        return None if request.path_info in OPEN else super().process_request(request)

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        """Django's hook."""
        return request.method in {"GET", "HEAD"} and super().should_redirect_with_slash(request)
