"""Mutations of quotas."""

from typing import Any

import graphene

from interfaces.graphql.context import Context
from interfaces.graphql.mutations.base import Change
from interfaces.graphql.mutations.scopes import OfScope, taken_names
from interfaces.graphql.shapes import type_of
from interfaces.kinds import quotas as operations
from interfaces.kinds.quotas import QuotasBody
from interfaces.render.tenant_render import quotas_json
from interfaces.shapes import session_shapes
from sessions_app.core.errors import InvalidInput


def _names(given: dict[str, Any]) -> dict[str, str]:
    names = taken_names(given)
    if not names:
        raise InvalidInput({"project": ["name a domain or a project"]})
    return names


def _put(context: Context, given: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    scope = operations.put(context.actor, _names(given), given, keep=keep)
    return {"quotas": quotas_json(scope)}


class UpdateQuotas(Change, body=QuotasBody):
    """Change the given limits of a project or a domain. Null removes a limit."""

    Input = OfScope
    quotas = graphene.Field(type_of(session_shapes.Quotas))

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _put(context, given, keep=True)


class ReplaceQuotas(Change, body=QuotasBody):
    """Replace the limits of a project or a domain."""

    Input = OfScope
    quotas = graphene.Field(type_of(session_shapes.Quotas))

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _put(context, given, keep=False)


class DeleteQuotas(Change):
    """Remove all limits of a project or a domain."""

    Input = OfScope

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.delete(context.actor, _names(given))
        return {}


class QuotaMutations:
    """The mutations of quotas."""

    update_quotas = UpdateQuotas.Field()
    replace_quotas = ReplaceQuotas.Field()
    delete_quotas = DeleteQuotas.Field()
