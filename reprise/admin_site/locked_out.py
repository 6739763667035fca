"""The answer to a client that sent too many wrong passwords."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def locked_out(
    request: HttpRequest, _response: HttpResponse | None, _credentials: dict[str, Any] | None
) -> HttpResponse:
    """Return the page that says how long no password is checked."""
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    context = {"minutes": max(1, round(seconds / 60))}
    answer = render(request, "locked_out.html", context, status=429)
    answer.headers["Retry-After"] = str(seconds)
    return answer
