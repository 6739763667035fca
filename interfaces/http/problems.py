"""Error answers as RFC 9457 problem details."""

import logging
import re
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import DataError, IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from psycopg.errors import (
    DiskFull,
    FeatureNotSupported,
    ForeignKeyViolation,
    LockNotAvailable,
    QueryCanceled,
)
from pydantic import ValidationError
from rest_framework.exceptions import APIException

from sessions_app.core.errors import (
    Conflict,
    DomainError,
    InvalidInput,
    NotFound,
    NotPermitted,
    Outdated,
    QuotaExceeded,
    SecretUnreadable,
    TooLarge,
)
from sessions_app.core.near import did_you_mean

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_STATUS_OF = {
    InvalidInput: 400,
    NotPermitted: 403,
    QuotaExceeded: 403,
    NotFound: 404,
    Conflict: 409,
    Outdated: 412,
    TooLarge: 413,
    SecretUnreadable: 503,
}


def problem(
    status: int,
    detail: str,
    *,
    title: str | None = None,
    errors: dict[str, list[str]] | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Return the members of a problem detail; `errors` maps fields to what is wrong with them."""
    return {
        "type": "about:blank",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": errors or {},
        **extra,
    }


def field_errors(error: ValidationError, prefix: str = "") -> dict[str, list[str]]:
    """Return pydantic's errors by the path of each field, such as `retry_policy.max_retries`."""
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        found.setdefault(_path(prefix, item["loc"]), []).append(_words(item))
    return found


def _path(prefix: str, location: tuple[int | str, ...]) -> str:
    path = prefix
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path += f".{part}" if path else part
    return path or "body"


def _words(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "is not a known field"
    if item["type"] == "missing":
        return "is required"
    if item["type"] in {"model_type", "dict_type"}:
        return "must be an object"
    if item["type"] == "literal_error":
        return f"must be {item['ctx']['expected']}{_near(item)}"
    return f"{str(item['msg']).removeprefix('Value error, ')}{_near(item)}"


_CHOICE = re.compile(r"'([^']+)'")


def _near(item: Any) -> str:
    """Return a hint at the allowed word that is close to the given one, or ""."""
    context, given = item.get("ctx", {}), item["input"]
    if not isinstance(given, str):
        return ""
    if "members" in context:
        return did_you_mean(given, str(context["members"]).split(", "))
    if item["type"] in {"literal_error", "enum"}:
        choices = _CHOICE.findall(str(context["expected"]))
        # With a single choice the error already names it.
        return did_you_mean(given, choices) if len(choices) > 1 else ""
    return ""


def exception_handler(error: Exception, context: dict[str, Any]) -> JsonResponse | None:
    """DRF's hook: an exception as a problem; None lets Django answer with its 500 handler.

    A problem is always JSON, whatever renderer the request chose.
    """
    body, headers = _problem_of(error)
    if body is None:
        return None
    return JsonResponse(body, status=body["status"], content_type=MEDIA_TYPE, headers=headers)


def problem_of(error: Exception) -> dict[str, Any]:
    """Return the problem of a refusal that is only part of an answer."""
    body, _ = _problem_of(error)
    if body is None:
        raise error
    return body


_Problem = tuple[dict[str, Any], dict[str, str]]


def _problem_of(error: Exception) -> _Problem | tuple[None, dict[str, str]]:
    """Return the problem of an exception and its headers; None if the exception is a bug."""
    for kind, render in _RENDERERS.items():
        if isinstance(error, kind):
            found: _Problem = render(error)
            return found
    return None, {}


def _invalid(error: ValidationError) -> _Problem:
    return _domain_problem(InvalidInput(field_errors(error)))


def _refused_value(error: DataError) -> _Problem:
    logger.warning("the database refused a value: %s", error)
    return problem(400, "a value cannot be stored"), {}


def _gone_meanwhile(error: IntegrityError) -> _Problem | tuple[None, dict[str, str]]:
    if not isinstance(error.__cause__, ForeignKeyViolation):
        return None, {}
    return problem(409, "what this belongs to was deleted at the same time"), {}


_UNAVAILABLE: tuple[tuple[type[Exception], str, str], ...] = (
    (LockNotAvailable, "another change holds what this call needs; try again", "2"),
    (QueryCanceled, "the database took too long for this call; try again, or ask for less", "5"),
    (DiskFull, "the disk of the database is full: nothing can be written at present", "10"),
    (FeatureNotSupported, "the tables have just changed; try again", "1"),
)
"""Database error -> message and seconds until the next try."""


def database_trouble(error: Exception) -> tuple[str, str]:
    """Return why the database does not serve a call, in words, and the seconds to wait."""
    for kind, text, wait in _UNAVAILABLE:
        if isinstance(error.__cause__, kind):
            return text, wait
    return "the database does not answer; try again", "1"


def _database_down(error: Exception) -> _Problem:
    text, wait = database_trouble(error)
    logger.error("%s: %s", text, error)
    return problem(503, text), {"Retry-After": wait}


def _domain_problem(error: DomainError) -> _Problem:
    extra = dict(error.extra) if isinstance(error, Conflict | QuotaExceeded) else {}
    named: Any = error.errors if isinstance(error, InvalidInput) else extra.pop("errors", None)
    status = next(code for kind, code in _STATUS_OF.items() if isinstance(error, kind))
    return problem(status, error.detail, title=error.title, errors=named, **extra), {}


def _rest_problem(error: APIException) -> _Problem:
    # DRF sets these two on the exceptions that have them.
    auth_header, wait = getattr(error, "auth_header", None), getattr(error, "wait", None)
    headers = {}
    if auth_header:
        headers["WWW-Authenticate"] = auth_header
    if wait:
        headers["Retry-After"] = str(int(wait) + 1)
    return problem(error.status_code, str(error.detail)), headers


_RENDERERS: dict[Any, Any] = {
    DomainError: _domain_problem,
    ValidationError: _invalid,
    Http404: lambda _: (problem(404, "there is no resource at this address"), {}),
    PermissionDenied: lambda _: (problem(403, "not permitted"), {}),
    DataError: _refused_value,
    IntegrityError: _gone_meanwhile,
    (OperationalError, InterfaceError): _database_down,
    APIException: _rest_problem,
}


def _answer(status: int, detail: str) -> JsonResponse:
    return JsonResponse(problem(status, detail), status=status, content_type=MEDIA_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> JsonResponse:
    """Answer 400 for the API."""
    return _answer(400, str(exception) or "the request cannot be read")


def not_found(request: HttpRequest, exception: Exception) -> JsonResponse:
    """Answer 404 for the API."""
    hint = "" if request.path.endswith("/") else ": addresses of the API end with a slash"
    return _answer(404, f"there is nothing at {request.path}{hint}")


def server_error(request: HttpRequest) -> JsonResponse:
    """Answer 500 without revealing anything internal."""
    return _answer(500, "an error on our side; it was logged")


def unavailable(why: str) -> JsonResponse:
    """Return a 503 outside of any view."""
    return _answer(503, why)
