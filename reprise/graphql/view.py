"""`/graphql/`: authenticates and reads the call; graphene executes it."""

from typing import Annotated, Any, ClassVar

from django.conf import settings
from django.http import HttpResponseBase
from django.shortcuts import render
from django.utils.module_loading import import_string
from pydantic import Field, StrictStr
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from base.loglines.context import bind
from interfaces.http.authentication import TokenAuthentication, login_first, wants_page
from interfaces.http.throttling import BrowserThrottle, TokenThrottle
from interfaces.http.views import RestView, body_of
from interfaces.requests.strict import StrictModel
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.models import ApiToken


class BrowserAuthentication(SessionAuthentication):
    """Authentication by a browser's session; the request must carry the page's CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the actor of the session, or None without one."""
        found = super().authenticate(request)
        if found is None:
            return None
        actor = Actor(user=found[0])
        bind(actor=actor.name)
        return actor, None


class GraphQLCall(StrictModel):
    """The body of a call."""

    query: Annotated[StrictStr, Field(min_length=1)]
    variables: dict[str, Any] | None = None
    operationName: StrictStr | None = None  # noqa: N815  # GraphQL's own spelling
    extensions: dict[str, Any] | None = None
    """Sent by some clients; ignored here."""


class GraphQLRenderer(JSONRenderer):
    """A renderer for the media type of GraphQL over HTTP, for clients that ask for it."""

    media_type = "application/graphql-response+json"
    format = "graphql"


class OwnNegotiation(BaseContentNegotiation):
    """Negotiation that always answers JSON, under GraphQL's own media type if that is asked for."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return the parser for the content type, if there is one."""
        return next((each for each in parsers if _is(request.content_type, each.media_type)), None)

    def select_renderer(
        self,
        request: Request,
        renderers: Any,
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer and its media type."""
        plain, named = renderers
        chosen = named if named.media_type in request.headers.get("Accept", "") else plain
        return chosen, chosen.media_type


def _is(content_type: str, media_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == media_type


class GraphQLView(RestView):
    """The view of `/graphql/`. Each field checks permission where it is executed."""

    actions: ClassVar = {"GET": Action.WHOAMI, "POST": Action.WHOAMI}
    authentication_classes = (TokenAuthentication, BrowserAuthentication)
    throttle_classes = (TokenThrottle, BrowserThrottle)
    renderer_classes = (JSONRenderer, GraphQLRenderer)
    content_negotiation_class = OwnNegotiation
    schema = None

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer browsers with the GraphiQL page, which needs a login but no token."""
        if settings.REPRISE_GRAPHIQL and wants_page(request):
            return login_first(request) or render(request, "graphiql.html")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: Request) -> Response:
        """Refuse queries in the address: they would end up in logs and histories."""
        raise MethodNotAllowed(str(request.method), "send the query in the body of a POST")

    def post(self, request: Request) -> Response:
        """Execute one document."""
        require_user(self.actor)
        call = GraphQLCall.model_validate(body_of(request))
        token: object = request.auth
        # graphene is imported with the first call, not when the server starts.
        carry_out = import_string("reprise.graphql.schema.carry_out")
        answer, status = carry_out(
            self.actor,
            token if isinstance(token, ApiToken) else None,
            call.query,
            call.variables or {},
            call.operationName,
        )
        return Response(answer, status=status)
