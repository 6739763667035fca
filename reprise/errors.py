"""Errors outside any view: problem details under the API, pages elsewhere."""

from django.http import HttpRequest, HttpResponseBase
from django.views import defaults

from sessions_app.api import problems

API = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """400, of what Django refuses by itself: an unknown Host, thousands of parameters."""
    if request.path.startswith(API):
        return problems.bad_request(request, exception)
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """404."""
    if request.path.startswith(API):
        return problems.not_found(request, exception)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """500."""
    if request.path.startswith(API):
        return problems.server_error(request)
    return defaults.server_error(request)
