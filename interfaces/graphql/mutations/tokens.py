"""Mutations of API tokens."""

from typing import Any

import graphene

from interfaces.graphql.context import Context
from interfaces.graphql.mutations.base import Change
from interfaces.graphql.nodes import key_of
from interfaces.graphql.tenant_queries import TOKENS, Token
from interfaces.kinds import tokens as operations
from interfaces.kinds.tokens import TokenCreate


class CreateToken(Change, body=TokenCreate):
    """Create a token. It grants no more than the token of this call. A token created in a browser's
    session ends only at `expiresAt`."""

    token = graphene.Field(Token)
    secret = graphene.String(
        description="The secret to send as the bearer token. It is shown only once."
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made, secret = operations.create(context.actor, context.token, given)
        return {"token": TOKENS.peer(context.actor, made), "secret": secret}


class RevokeToken(Change):
    """Revoke a token at once."""

    class Input:
        id = graphene.ID(required=True, description="The global id, or the token's `prefix`.")
        made_with = graphene.Boolean(
            description="Also revoke all tokens that were created with it."
        )

    revoked = graphene.List(
        graphene.NonNull(graphene.String), description="The prefixes of the revoked tokens."
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
