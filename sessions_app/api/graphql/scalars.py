"""Scalars beyond GraphQL's own; each is written as REST writes it."""

from typing import Any

from graphene import Scalar
from graphql import GraphQLError, IntValueNode, StringValueNode, ValueNode, print_ast
from graphql.utilities import value_from_ast_untyped

from sessions_app.api.http.parsing import BODY, checked


class _Text(Scalar):
    """Comes as a string, which is checked where all input is checked."""

    class Meta:
        abstract = True

    @staticmethod
    def serialize(value: Any) -> Any:
        """graphene's hook; the renderer of the answer writes it."""
        return value

    @staticmethod
    def parse_value(value: Any) -> str:
        """graphene's hook for variables."""
        if not isinstance(value, str):
            raise GraphQLError("must be a string")
        return value

    @classmethod
    def parse_literal(cls, node: ValueNode, _variables: Any = None) -> str:
        """graphene's hook for values in the document."""
        if not isinstance(node, StringValueNode):
            raise GraphQLError(f"must be a string, not {print_ast(node)[:100]}")
        return node.value


class DateTime(_Text):
    """A time in ISO 8601 with its zone, such as `2030-01-31T12:00:00Z`."""


class UUID(_Text):
    """An id of 32 hexadecimal digits with hyphens."""


class BigInt(Scalar):
    """A whole number of up to 64 bits, written as a JSON number."""

    @staticmethod
    def serialize(value: Any) -> int:
        """graphene's hook."""
        return int(value)

    @staticmethod
    def parse_value(value: Any) -> int:
        """graphene's hook for variables."""
        if type(value) is not int:
            raise GraphQLError("must be a whole number")
        return value

    @classmethod
    def parse_literal(cls, node: ValueNode, _variables: Any = None) -> int:
        """graphene's hook for values in the document."""
        if not isinstance(node, IntValueNode):
            raise GraphQLError(f"must be a whole number, not {print_ast(node)[:100]}")
        return int(node.value)


class JSON(Scalar):
    """Any JSON value: an object of REST, with the names that it has there."""

    @staticmethod
    def serialize(value: Any) -> Any:
        """graphene's hook."""
        return value

    @staticmethod
    def parse_value(value: Any) -> Any:
        """graphene's hook for variables, which were checked with the body."""
        return value

    @classmethod
    def parse_literal(cls, node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
        """graphene's hook for values in the document; raises `InvalidInput`."""
        return checked({BODY: value_from_ast_untyped(node, variables)})[BODY]
