"""Bearer tokens for REST. Only health and the login page need none."""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseRedirect
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from base.loglines.context import bind
from sessions_app.authorization import Action, Actor, Held, authorize
from sessions_app.models import ApiToken
from sessions_app.services.access.tokens import token_find


class TokenAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer <token>`.

    `request.user` is an `Actor`, `request.auth` the token.
    """

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer" or not secret.strip():
            raise AuthenticationFailed("the Authorization header must be: Bearer <token>")
        token = token_find(secret.strip())
        if token is None:
            raise AuthenticationFailed("the token is unknown, expired or revoked")
        actor = actor_of(token)
        bind(actor=actor.name, token=token.prefix)
        if actor.executor_name:
            bind(executor=actor.executor_name)
        return actor, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="reprise"'


def actor_of(token: ApiToken) -> Actor:
    """Return the caller with this token."""
    return Actor(
        user=token.user,
        executor_name=token.executor_name,
        only_project_id=token.project_id,
        read_only=token.read_only,
        token_name=token.name,
        token_prefix=token.prefix,
        memberships=[Held(*each) for each in token.memberships or ()],
    )


def wants_page(request: HttpRequest) -> bool:
    """Return whether a browser opens an address, instead of an API client."""
    return (
        request.method in {"GET", "HEAD"}
        and "text/html" in request.headers.get("Accept", "")
        and "Authorization" not in request.headers
    )


def login_first(request: HttpRequest) -> HttpResponseRedirect | None:
    """Return a redirect to the login page and back for a browser without a login, else None."""
    if not wants_page(request) or request.user.is_authenticated:
        return None
    return redirect_to_login(request.get_full_path())


class IsActor(BasePermission):
    """Allows callers with a valid token."""

    def has_permission(self, request: Request, view: Any) -> bool:
        user: object = request.user
        if not isinstance(user, Actor):
            raise NotAuthenticated("send a token: Authorization: Bearer <token>")
        return True


class IsActorOrBrowserUser(BasePermission):
    """Allows tokens and logged-in browsers. It is for the documentation pages."""

    def has_permission(self, request: Request, view: Any) -> bool:
        user: object = request.user
        if isinstance(user, Actor):
            authorize(user, Action.DOCUMENTATION)
        return isinstance(user, Actor | User)
