"""Scalars beyond GraphQL's own, in REST's format."""

from typing import Any

from graphene import Scalar
from graphql import GraphQLError, IntValueNode, StringValueNode, ValueNode, print_ast
from graphql.utilities import value_from_ast_untyped

from interfaces.http.parsing import BODY, checked


class _Text(Scalar):
    """A scalar that arrives as a string. Its value is checked together with all other input."""

    class Meta:
        abstract = True

    @staticmethod
    def serialize(value: Any) -> Any:
        """Return the value; the renderer of the answer formats it."""
        return value

    @staticmethod
    def parse_value(value: Any) -> str:
        """Read a variable."""
        if not isinstance(value, str):
            raise GraphQLError("must be a string")
        return value

    @classmethod
    def parse_literal(cls, node: ValueNode, _variables: Any = None) -> str:
        """Read a value in the document."""
        if not isinstance(node, StringValueNode):
            raise GraphQLError(f"must be a string, not {print_ast(node)[:100]}")
        return node.value


class DateTime(_Text):
    """A time in ISO 8601 with its zone, such as `2030-01-31T12:00:00Z`."""


class UUID(_Text):
    """A UUID: 32 hexadecimal digits with hyphens."""


class BigInt(Scalar):
    """A whole number of up to 64 bits, written as a JSON number."""

    @staticmethod
    def serialize(value: Any) -> int:
        """Return the value as an integer."""
        return int(value)

    @staticmethod
    def parse_value(value: Any) -> int:
        """Read a variable."""
        if type(value) is not int:
            raise GraphQLError("must be a whole number")
        return value

    @classmethod
    def parse_literal(cls, node: ValueNode, _variables: Any = None) -> int:
        """Read a value in the document."""
        if not isinstance(node, IntValueNode):
            raise GraphQLError(f"must be a whole number, not {print_ast(node)[:100]}")
        return int(node.value)


class JSON(Scalar):
    """Any JSON value. Objects have the field names of REST."""

    @staticmethod
    def serialize(value: Any) -> Any:
        """Return the value."""
        return value

    @staticmethod
    def parse_value(value: Any) -> Any:
        """Return a variable, which was checked with the body."""
        return value

    @classmethod
    def parse_literal(cls, node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
        """Read a value in the document. Raises `InvalidInput`."""
        return checked({BODY: value_from_ast_untyped(node, variables)})[BODY]
