"""Errors outside of views: problem details under the API, pages elsewhere."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponseBase
from django.views import defaults

from interfaces.http import problems
from reprise.postgresql.plans import is_outdated

API = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Return a 400 for what Django itself refuses: an unknown host, too many parameters."""
    if request.path.startswith(API):
        return problems.bad_request(request, exception)
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Return a 404."""
    if request.path.startswith(API):
        return problems.not_found(request, exception)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Return a 500, or a 503 if the database caused it."""
    error = sys.exc_info()[1]
    if isinstance(error, OperationalError | InterfaceError):
        return unavailable(request, *problems.database_trouble(error))
    if isinstance(error, Exception) and is_outdated(error):
        response = unavailable(request, *problems.database_trouble(error))
        # Django would log a traceback, and as a rule the call begins anew.
        setattr(response, "_has_been_logged", True)  # noqa: B010  # no stub has it
        return response
    if request.path.startswith(API):
        return problems.server_error(request)
    return defaults.server_error(request)


def unavailable(request: HttpRequest, text: str, wait: str) -> HttpResponseBase:
    """Return a 503 with the seconds to `wait`. Only the API says why; the log says it, too."""
    response: HttpResponseBase
    if request.path.startswith(API):
        response = problems.unavailable(text)
    else:
        response = defaults.server_error(request)
        response.status_code = 503
    response.headers["Retry-After"] = wait
    return response
