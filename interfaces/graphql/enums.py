"""Enumerations with the API's values: statuses in upper case, all others in lower case."""

from collections.abc import Iterable
from typing import Any

import graphene
from graphql import EnumValueNode as Named
from graphql import GraphQLEnumType, GraphQLError, GraphQLSchema, StringValueNode, ValueNode

from retry.engine.decide import Mode
from retry.evidence.causes import RetryCause as Causes
from sessions_app.core.states import RetryState, Status
from sessions_app.models.sessions import SessionType as SessionTypes
from sessions_app.models.tenants import Role as Roles
from sessions_app.models.webhooks import DeliveryState as DeliveryStates


def enumeration(name: str, values: Iterable[str], description: str) -> Any:
    """Return a GraphQL enumeration whose names are its values."""
    members = [(str(value), str(value)) for value in values]
    return graphene.Enum(name, members, description=lambda value: None if value else description)


SessionStatus = enumeration("SessionStatus", Status, "The status of one attempt.")
SessionType = enumeration(
    "SessionType", SessionTypes.values, "The type of a session. Only `batch` sessions are retried."
)
RetryCause = enumeration("RetryCause", Causes, "The cause of a session's end.")
RetryStateName = enumeration("RetryStateName", RetryState, "The retry state of a session.")
RetryMode = enumeration("RetryMode", Mode, "The kill switch of a scope.")
Role = enumeration(
    "Role", Roles.values, "The role of a member. Each role includes those before it."
)
DeliveryState = enumeration(
    "DeliveryState", DeliveryStates.values, "The state of a delivery of a webhook."
)


def read_in_any_case(schema: GraphQLSchema) -> None:
    """Make all our enumerations accept any case and return text."""
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLEnumType) and not kind.name.startswith("__"):
            _AnyCase(kind).take_over()


class _AnyCase:
    """Reads and writes one enumeration."""

    def __init__(self, kind: GraphQLEnumType):
        self._kind = kind
        self._names = {name.lower(): name for name in kind.values}

    def take_over(self) -> None:
        kind: Any = self._kind
        kind.serialize = str
        kind.parse_value = self._read
        kind.parse_literal = self._read_literal

    def _read(self, value: object, *_: object) -> str:
        name = self._names.get(value.lower()) if isinstance(value, str) else None
        if name is None:
            known = ", ".join(self._kind.values)
            raise GraphQLError(f"{self._kind.name} must be one of {known}")
        return name

    def _read_literal(self, node: ValueNode, *_more: object, **_options: object) -> str:
        return self._read(node.value if isinstance(node, Named | StringValueNode) else None)
