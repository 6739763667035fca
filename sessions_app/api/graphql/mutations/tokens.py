"""Mutations of API tokens."""

from typing import Any

import graphene

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change
from sessions_app.api.graphql.nodes import key_of
from sessions_app.api.graphql.peers import alone
from sessions_app.api.graphql.tenant_queries import Token, tokens_told
from sessions_app.api.operations import tokens as operations
from sessions_app.api.operations.tokens import TokenCreate


class CreateToken(Change, body=TokenCreate):
    """Make a token that gives no more than the one it is made with.

    One that is made in a browser's session has no end but `expiresAt`.
    """

    token = graphene.Field(Token)
    secret = graphene.String(description="What is sent as the bearer; told this once.")

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made, secret = operations.create(context.actor, context.token, given)
        return {"token": alone(Token, made, tokens_told), "secret": secret}


class RevokeToken(Change):
    """Revoke a token, effective at once."""

    class Input:
        id = graphene.ID(required=True, description="Global, or the token's `prefix`.")
        made_with = graphene.Boolean(description="Revoke all that were made with it, too.")

    revoked = graphene.List(
        graphene.NonNull(graphene.String), description="The prefixes of those that are gone."
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        prefix = key_of("Token", given["id"])
        gone = operations.revoke(context.actor, prefix, made_with=bool(given.get("made_with")))
        return {"revoked": [each.prefix for each in gone]}


class TokenMutations:
    """The mutations of tokens."""

    create_token = CreateToken.Field()
    revoke_token = RevokeToken.Field()
