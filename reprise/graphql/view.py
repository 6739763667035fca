"""`/graphql/`: the door. It knows who asks and what they sent; graphene is behind it."""

from typing import Annotated, Any, ClassVar

from django.conf import settings
from django.http import HttpResponseBase
from django.shortcuts import render
from django.utils.module_loading import import_string
from pydantic import BaseModel, ConfigDict, Field, StrictStr
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from loglines.context import bind
from sessions_app.api.http.authentication import TokenAuthentication, login_first, wants_page
from sessions_app.api.http.throttling import BrowserThrottle, TokenThrottle
from sessions_app.api.http.views import RestView, body_of
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.models import ApiToken


class BrowserAuthentication(SessionAuthentication):
    """A browser's session; what it sends must carry the CSRF token of its page."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """DRF's hook."""
        found = super().authenticate(request)
        if found is None:
            return None
        actor = Actor(user=found[0])
        bind(actor=actor.name)
        return actor, None


class GraphQLCall(BaseModel):
    """The body of a call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: Annotated[StrictStr, Field(min_length=1)]
    variables: dict[str, Any] | None = None
    operationName: StrictStr | None = None  # noqa: N815  # GraphQL's own spelling
    extensions: dict[str, Any] | None = None
    """Of clients; none is known here."""


class GraphQLRenderer(JSONRenderer):
    """The media type of GraphQL over HTTP, for clients that ask for it."""

    media_type = "application/graphql-response+json"
    format = "graphql"


class OwnNegotiation(BaseContentNegotiation):
    """JSON, whatever is asked for; under GraphQL's own name, if that is."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """DRF's hook."""
        return next((each for each in parsers if _is(request.content_type, each.media_type)), None)

    def select_renderer(
        self,
        request: Request,
        renderers: Any,
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """DRF's hook."""
        plain, named = renderers
        chosen = named if named.media_type in request.headers.get("Accept", "") else plain
        return chosen, chosen.media_type


def _is(content_type: str, media_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == media_type


class GraphQLDoor(RestView):
    """One document a call. What each of its fields asks for is checked where it is carried out."""

    actions: ClassVar = {"GET": Action.WHOAMI, "POST": Action.WHOAMI}
    authentication_classes = (TokenAuthentication, BrowserAuthentication)
    throttle_classes = (TokenThrottle, BrowserThrottle)
    renderer_classes = (JSONRenderer, GraphQLRenderer)
    content_negotiation_class = OwnNegotiation
    schema = None

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Django's hook: pages are for people who are logged in, and need no token."""
        if settings.REPRISE_GRAPHIQL and wants_page(request):
            return login_first(request) or render(request, "graphiql.html")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: Request) -> Response:
        """A link that carries a query would end in logs and histories."""
        raise MethodNotAllowed(str(request.method), "send the query in the body of a POST")

    def post(self, request: Request) -> Response:
        """Carry out one document."""
        require_user(self.actor)
        call = GraphQLCall.model_validate(body_of(request))
        token: object = request.auth
        # graphene comes with the first call, and not with the server.
        carry_out = import_string("reprise.graphql.schema.carry_out")
        told, status = carry_out(
            self.actor,
            token if isinstance(token, ApiToken) else None,
            call.query,
            call.variables or {},
            call.operationName,
        )
        return Response(told, status=status)
