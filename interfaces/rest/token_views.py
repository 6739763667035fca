"""API tokens over REST: made and shown once, listed, revoked."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.views import body_of
from interfaces.kinds import tokens as operations
from interfaces.kinds.tokens import TOKEN, TokenCreate
from interfaces.openapi.generator import query_parameters
from interfaces.render.tenant_render import token_json
from interfaces.requests.queries import query_of
from interfaces.requests.strict import StrictModel
from interfaces.rest.resource_views import ResourceList, ResourceOne
from interfaces.shapes import tenant_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.services.access import unisolated


class RevokeQuery(StrictModel):
    """The query parameters of a revocation. `made_with` also revokes the tokens created with it."""

    made_with: bool = False


class TokensView(ResourceList):
    of = TOKEN
    actions: ClassVar = {"POST": Action.TOKEN_CREATE}

    @extend_schema(
        operation_id="tokens_create",
        request=TokenCreate,
        responses={201: shapes.TokenWithSecret},
    )
    def post(self, request: Request) -> Response:
        """Create a token, which is shown only once. It grants no more than the token of this
        call."""
        present: Any = request.auth
        made, secret = operations.create(self.actor, present, body_of(request))
        body = {"token": secret, "warnings": unisolated.warnings()}
        return self.created({**token_json(made), **body}, f"{made.prefix}/")


class TokenView(ResourceOne):
    of = TOKEN
    actions: ClassVar = {"DELETE": Action.TOKEN_REVOKE}
    asks_when_writing = True

    @extend_schema(
        operation_id="token_revoke",
        parameters=query_parameters(RevokeQuery),
        responses={200: shapes.TokensRevoked},
    )
    def delete(self, request: Request, **names: str) -> Response:
        """Revoke a token at once. With `made_with`, also revoke all tokens that were created with
        it."""
        query = query_of(RevokeQuery, request.query_params)
        gone = operations.revoke(self.actor, names["prefix"], made_with=query.made_with)
        return Response({"revoked": [each.prefix for each in gone]})
