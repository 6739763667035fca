"""Mutations of failure categories."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change, Deletion, IfMatch, expected_of
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.policies import FailureCategory, render_categories
from sessions_app.api.kinds import categories as operations
from sessions_app.api.kinds.categories import CategoryBody, CategoryChanges
from sessions_app.models import FailureCategory as Row


class OfCategory(IfMatch):
    """The input fields that name a category."""

    name = graphene.String(required=True)


def _peer(row: Row) -> Peer[Row]:
    return single_peer(FailureCategory, row, render_categories)


class CreateFailureCategory(Change, body=CategoryBody):
    """Create a failure category. Without a position it comes last."""

    failure_category = graphene.Field(FailureCategory)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"failure_category": _peer(operations.create(context.actor, given))}


class ReplaceFailureCategory(Change, body=CategoryBody):
    """Create or replace a failure category. Without a position, an existing one stays where it
    is."""

    Input = IfMatch
    failure_category = graphene.Field(FailureCategory)
    created = graphene.Boolean()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected = expected_of(given)
        row, created = operations.put(context.actor, given["name"], given, expected)
        return {"failure_category": _peer(row), "created": created}


class UpdateFailureCategory(Change, body=CategoryChanges):
    """Change the position, the matchers, or both. The name stays, since rules refer to it."""

    Input = OfCategory
    failure_category = graphene.Field(FailureCategory)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), given.pop("name")
        row = operations.change(context.actor, name, given, expected)
        return {"failure_category": _peer(row)}


class DeleteFailureCategory(Deletion):
    """Delete a failure category. Rules that name it no longer match."""

    Input = OfCategory

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.delete(context.actor, given["name"], expected_of(given))
        return {"deleted_id": to_global_id("FailureCategory", given["name"])}


class CategoryMutations:
    """The mutations of failure categories."""

    create_failure_category = CreateFailureCategory.Field()
    replace_failure_category = ReplaceFailureCategory.Field()
    update_failure_category = UpdateFailureCategory.Field()
    delete_failure_category = DeleteFailureCategory.Field()
