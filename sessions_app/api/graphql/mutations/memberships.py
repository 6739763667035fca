"""Mutations of memberships."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.kinds import ID_HELP
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.graphql.nodes import key_of
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.tenant_queries import Membership, render_memberships
from sessions_app.api.kinds import memberships as operations
from sessions_app.api.kinds.memberships import MembershipChange, MembershipCreate
from sessions_app.core.errors import NotFound
from sessions_app.models import Membership as Row


class OfMembership:
    """The input fields that name a membership."""

    id = graphene.ID(required=True, description=ID_HELP)


def _key(given: dict[str, Any]) -> int:
    key = key_of("Membership", given.pop("id"))
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        raise NotFound(f"no membership {key[:100]}")
    return int(key)


def _peer(row: Row) -> Peer[Row]:
    return single_peer(Membership, row, render_memberships)


class CreateMembership(Change, body=MembershipCreate):
    """Give a user a role in a project or in all projects of a domain."""

    membership = graphene.Field(Membership)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"membership": _peer(operations.create(context.actor, given))}


class UpdateMembership(Change, body=MembershipChange):
    """Change the role of a membership."""

    Input = OfMembership
    membership = graphene.Field(Membership)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return {"membership": _peer(operations.change(context.actor, key, given))}


class DeleteMembership(Deletion):
    """Remove a membership, effective with the user's next request."""

    Input = OfMembership

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        operations.delete(context.actor, key)
        return {"deleted_id": to_global_id("Membership", key)}


class MembershipMutations:
    """The mutations of memberships."""

    create_membership = CreateMembership.Field()
    update_membership = UpdateMembership.Field()
    delete_membership = DeleteMembership.Field()
