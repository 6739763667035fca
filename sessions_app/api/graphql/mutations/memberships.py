"""Mutations of memberships."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import ID_HELP, Change, Deletion
from sessions_app.api.graphql.nodes import key_of
from sessions_app.api.graphql.peers import Peer, alone
from sessions_app.api.graphql.tenant_queries import Membership, memberships_told
from sessions_app.api.operations import memberships as operations
from sessions_app.api.operations.memberships import MembershipChange, MembershipCreate
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


def _told(row: Row) -> Peer[Row]:
    return alone(Membership, row, memberships_told)


class CreateMembership(Change, body=MembershipCreate):
    """Give somebody a role in a project or in all projects of a domain."""

    membership = graphene.Field(Membership)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"membership": _told(operations.create(context.actor, given))}


class UpdateMembership(Change, body=MembershipChange):
    """Give another role in the same place."""

    Input = OfMembership
    membership = graphene.Field(Membership)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return {"membership": _told(operations.change(context.actor, key, given))}


class DeleteMembership(Deletion):
    """Take a role away, effective with the next request."""

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
