"""Mutations of priority classes."""

from functools import partial
from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change, Deletion, IfMatch, expected_of
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.priority_classes import PriorityClass
from sessions_app.api.kinds import priority_classes as operations
from sessions_app.api.kinds.priority_classes import PriorityClassBody, PriorityClassChanges
from sessions_app.api.render.policy_render import priority_classes_json
from sessions_app.models import PriorityClass as Row


class OfPriorityClass(IfMatch):
    """The input fields that name a class."""

    name = graphene.String(required=True)


def _peer(context: Context, row: Row) -> Peer[Row]:
    return single_peer(PriorityClass, row, partial(priority_classes_json, context.actor))


class CreatePriorityClass(Change, body=PriorityClassBody):
    """Create a priority class."""

    priority_class = graphene.Field(PriorityClass)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"priority_class": _peer(context, operations.create(context.actor, given))}


class ReplacePriorityClass(Change, body=PriorityClassBody):
    """Create or replace a priority class."""

    Input = IfMatch
    priority_class = graphene.Field(PriorityClass)
    created = graphene.Boolean()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected = expected_of(given)
        row, created = operations.put(context.actor, given["name"], given, expected)
        return {"priority_class": _peer(context, row), "created": created}


class UpdatePriorityClass(Change, body=PriorityClassChanges):
    """Change some fields. The name and the value stay, since sessions have them."""

    Input = OfPriorityClass
    priority_class = graphene.Field(PriorityClass)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), given.pop("name")
        row = operations.change(context.actor, name, given, expected)
        return {"priority_class": _peer(context, row)}


class DeletePriorityClass(Deletion):
    """Delete a class that no session which waits or runs has."""

    Input = OfPriorityClass

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.delete(context.actor, given["name"], expected_of(given))
        return {"deleted_id": to_global_id("PriorityClass", given["name"])}


class PriorityClassMutations:
    """The mutations of priority classes."""

    create_priority_class = CreatePriorityClass.Field()
    replace_priority_class = ReplacePriorityClass.Field()
    update_priority_class = UpdatePriorityClass.Field()
    delete_priority_class = DeletePriorityClass.Field()
