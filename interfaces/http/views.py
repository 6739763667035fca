"""The base of every REST view, with the action of the authorization table for each method."""

from typing import Any, ClassVar

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from pydantic import BaseModel, ConfigDict
from rest_framework.exceptions import (
    APIException,
    AuthenticationFailed,
    NotAuthenticated,
    UnsupportedMediaType,
)
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from interfaces.http.throttling import refusal_wait
from interfaces.requests.idempotency import refuse_key
from interfaces.requests.queries import query_of
from sessions_app.audit.context import identify
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput

UNKEPT = {"Cache-Control": "no-store"}
"""The headers of answers with a secret that is shown once."""


class LengthRequired(APIException):
    """The body came in chunks, and this server does not put them together."""

    status_code = 411
    default_detail = "send the body with its Content-Length, not in chunks"
    default_code = "length_required"


class _NoQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RestView(APIView):
    """A view that declares its actions. A method without one is a 405.

    `actions` maps an HTTP method to its action. The view's code passes it to `authorize` with the
    object. `body_limit` overrides the usual limit in bytes. `asks_when_writing` means that its
    writes have query parameters, too, and `takes_key` that its `POST` takes an `Idempotency-Key`.
    """

    actions: ClassVar[dict[str, Action]] = {}
    body_limit: ClassVar[int | None] = None
    asks_when_writing: ClassVar[bool] = False
    takes_key: ClassVar[bool] = False
    http_method_names = [name for name in APIView.http_method_names if name != "options"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the request before the method runs.

        A name with a NUL would be an error in the database. A body of unknown length would count as
        empty. A misplaced `?dry_run=true` must not be ignored.
        """
        try:
            super().initial(request, *args, **kwargs)
        except (AuthenticationFailed, NotAuthenticated):
            if self.throttle_classes and (wait := refusal_wait(request)):
                self.throttled(request, wait)
            raise
        user: object = request.user
        if isinstance(user, Actor):
            identify(token=user.token_prefix)
        if any("\x00" in str(part) for part in kwargs.values()):
            raise Http404
        if "Transfer-Encoding" in request.headers and not request.headers.get("Content-Length"):
            raise LengthRequired
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("", "send the body as it is, without a Content-Encoding")
        if request.method not in SAFE_METHODS and not self.takes_key:
            refuse_key(request)
        if request.method in self.actions.keys() - {"GET"} and not self.asks_when_writing:
            query_of(_NoQuery, request.query_params)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer the request, and untie view, request and answer.

        Django and Django REST framework make cycles of them: all that a call has read and answered
        would be kept until the garbage collector looks for it.
        """
        response = super().dispatch(request, *args, **kwargs)
        self.request.parser_context.clear()
        vars(request).pop("auser", None)  # what asks for the user in coroutines
        vars(self).pop("head", None)  # its own method `get`
        del self.response
        if isinstance(response, Response):
            response.add_post_render_callback(_untie)
        return response

    @property
    def required_action(self) -> Action:
        """Return the action of the present request."""
        method = str(self.request.method)
        return self.actions["GET" if method == "HEAD" else method]

    @property
    def actor(self) -> Actor:
        """Return the caller."""
        actor: Any = self.request.user
        assert isinstance(actor, Actor)  # noqa: S101  # IsActor has checked it
        return actor

    def created(self, body: Any, path: str) -> Response:
        """Return the answer to a POST that created something at `path` below this address."""
        headers = {"Location": self.request.build_absolute_uri(path), **UNKEPT}
        return Response(body, status=201, headers=headers)


def _untie(response: Any) -> None:
    response.renderer_context = None


def require_no_body(request: Request) -> None:
    """Raise `InvalidInput` if a call without a body got one."""
    if sent := body_of(request):
        raise InvalidInput({name: ["is not a known field"] for name in sent})


def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that was sent; an empty one for an empty body."""
    data: Any = request.data
    return data if isinstance(data, dict) else {}
