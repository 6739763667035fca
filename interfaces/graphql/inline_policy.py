"""Inline policies and bounds in GraphQL, with the fields that the inputs have."""

from typing import Any

import graphene
from graphene.utils.str_converters import to_camel_case

from interfaces.graphql.inputs import NULLABLE, PolicyNull, output_fields
from interfaces.graphql.nodes import RestObject
from retry.policies.inline import Bounds as BoundsModel
from retry.policies.inline import InlinePolicy as PolicyModel


class InlinePolicy(RestObject):
    """An inline policy. It can be sent as an input without change. In the defaults of a scope, a
    null field is not set unless `nulls` names it."""

    locals().update(output_fields(PolicyModel))
    nulls = graphene.List(
        graphene.NonNull(PolicyNull),
        required=True,
        description="The fields that are set to null. For them null is a value.",
    )

    @staticmethod
    def resolve_nulls(source: dict[str, Any], _info: Any) -> list[str]:
        return [to_camel_case(name) for name in NULLABLE if source.get(name, 0) is None]


class Bounds(RestObject):
    """The bounds that a scope sets for those below it. Null means no bound."""

    locals().update(output_fields(BoundsModel))


class FieldLayer(RestObject):
    """A field and the layer that sets it."""

    field = graphene.String(required=True)
    layer = graphene.String(required=True)


def layers_of(merged: dict[str, Any]) -> list[dict[str, str]]:
    """Return the layer of each field in the output of `effective_json`."""
    return [{"field": to_camel_case(name), "layer": each["layer"]} for name, each in merged.items()]


def values_of(merged: dict[str, Any]) -> dict[str, Any]:
    """Return the values in the output of `effective_json`."""
    return {name: each["value"] for name, each in merged.items()}
