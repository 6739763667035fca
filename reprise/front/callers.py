"""Who sends a large body: asked before the body is read."""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.cookie import parse_cookie
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, Throttled

from interfaces.http.authentication import TokenAuthentication
from interfaces.http.throttling import refusal_wait

_Sessions = import_module(settings.SESSION_ENGINE).SessionStore


def caller(peer: str, headers: list[tuple[bytes, bytes]], throttled: bool) -> str:
    """Return the user or the executor with the token, or the browser's session, of a call.

    Raises `AuthenticationFailed` or `NotAuthenticated`; if `throttled`, `Throttled` after too many
    of these from one address.
    """
    request = _request(peer, headers)
    authentication = TokenAuthentication()
    try:
        if found := authentication.authenticate(request):  # type: ignore[arg-type]
            actor, _ = found
            return str(actor.name)
        user = get_user(request)
        if not user.is_authenticated:
            raise NotAuthenticated("a body of this length needs a token or a login")
    except (AuthenticationFailed, NotAuthenticated) as error:
        if throttled and (wait := refusal_wait(request)):  # type: ignore[arg-type]
            raise Throttled(wait) from None
        error.auth_header = authentication.authenticate_header(request)  # type: ignore[union-attr, arg-type]
        raise
    return str(user.get_username())


def _request(peer: str, headers: list[tuple[bytes, bytes]]) -> HttpRequest:
    """Return the head of a call as Django has it."""
    request = HttpRequest()
    meta: dict[str, Any] = {"REMOTE_ADDR": peer}
    for name, value in headers:
        key = f"HTTP_{name.decode('latin-1').upper().replace('-', '_')}"
        text = value.decode("latin-1")
        meta[key] = f"{meta[key]},{text}" if key in meta else text
    request.META = meta
    request.COOKIES = parse_cookie(meta.get("HTTP_COOKIE", ""))
    request.session = _Sessions(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    return request
