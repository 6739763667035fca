"""Calls of /graphql/ that hypothesis-graphql makes from the schema, made useful and made wild."""

import random
from dataclasses import dataclass
from typing import Any

from graphql import (
    REMOVE,
    ArgumentNode,
    BooleanValueNode,
    DocumentNode,
    EnumValueNode,
    FieldNode,
    FloatValueNode,
    GraphQLSchema,
    IntValueNode,
    ListValueNode,
    NameNode,
    NullValueNode,
    ObjectFieldNode,
    OperationDefinitionNode,
    SelectionSetNode,
    StringValueNode,
    TypeInfo,
    TypeInfoVisitor,
    ValueNode,
    VariableDefinitionNode,
    VariableNode,
    Visitor,
    is_abstract_type,
    is_non_null_type,
    parse_type,
    print_ast,
    value_from_ast_untyped,
    visit,
)
from hypothesis import strategies as st
from hypothesis_graphql import Mode, nodes
from hypothesis_graphql import from_schema as documents

from tests.fuzz.graphql_words import Words

REFUSALS = "refusals"
"""Under this name each mutation is asked for its errors."""
_SURROGATE = "\ue000"
"""Stands for an escaped lone surrogate, which no document that is made of nodes can have."""
_JSON: list[Any] = [
    {"cpu": "1", "memory": "1Gi"}, {"a": "b"}, {}, [], None, "text", 1, 1.5, True, "10s",
    {"max_retries": 2, "backoff": "exponential"}, {"max_retries": -1},
    {"name": "made", "spec": {"retryLimit": 2, "rules": [{"action": "Retry"}]}},
    {"containers": [{"name": "main", "image": "busybox"}]},
    {"name": "data", "mount_path": "/data"}, {"image": "busybox", "command": ["true"]},
    {"causes": ["oom_killed", "node_lost"], "policies": ["policy-0"]},
]  # fmt: skip
WILD_JSON: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, float("inf"), float("nan"),
    "", " ", "a\x00b", "\ud800", "\u202e", "x" * 70_000, "2030-02-30T00:00:00Z",
    "0001-01-01T00:00:00+23:59", [], {}, [[[[]]]], [None], {"": None}, {"a\x00": 1},
    {"__proto__": {}}, "U2Vzc2lvbjo=", "9" * 30,
]  # fmt: skip


def _nested(levels: int) -> ValueNode:
    value: ValueNode = NullValueNode()
    for _ in range(levels):
        value = ListValueNode(values=(value,))
    return value


_WILD: list[ValueNode] = [
    *(
        StringValueNode(value=each.replace("\ud800", _SURROGATE))
        for each in WILD_JSON
        if isinstance(each, str)
    ),
    *(IntValueNode(value=each) for each in ("-1", "9" * 20, "-" + "9" * 30, "9" * 5_000)),
    *(FloatValueNode(value=each) for each in ("1e400", "-0.0", "1e-400")),
    *(_nested(each) for each in (1, 70, 600)),
    BooleanValueNode(value=True), NullValueNode(), EnumValueNode(value="NOWHERE"),
]  # fmt: skip


def _node_of(value: Any) -> Any:
    if value is None:
        return nodes.Null
    if isinstance(value, dict):
        return nodes.Object([
            ObjectFieldNode(name=NameNode(value=key), value=_node_of(item))
            for key, item in value.items()
        ])  # fmt: skip
    if isinstance(value, list):
        return nodes.List([_node_of(item) for item in value])
    made: Any = {bool: nodes.Boolean, int: nodes.Int, float: nodes.Float, str: nodes.String}
    return made[type(value)](value)


SCALARS = {
    "DateTime": st.datetimes().map(lambda at: nodes.String(at.isoformat() + "Z")),
    "UUID": st.uuids().map(nodes.String),
    "BigInt": st.integers(-(2**63), 2**63 - 1).map(nodes.Int),
    "JSON": st.sampled_from(_JSON).map(_node_of),
}


@dataclass(frozen=True)
class Case:
    """One call."""

    query: str
    variables: dict[str, Any]
    operation: str | None = None


def cases(
    schema: GraphQLSchema, words: Words, fields: list[str], mode: Mode
) -> st.SearchStrategy[Case]:
    """Calls of these fields of the root, with all that can be asked below them."""
    made = documents(
        schema, fields=fields, custom_scalars=SCALARS, mode=mode, print_ast=lambda found: found
    )

    def dressed(document: DocumentNode, seed: int) -> Case:
        return _dressed(schema, words, document, random.Random(seed))

    return st.builds(dressed, made, st.integers(0, 2**32))


def _dressed(
    schema: GraphQLSchema, words: Words, document: DocumentNode, chance: random.Random
) -> Case:
    info = TypeInfo(schema)
    document = visit(document, TypeInfoVisitor(info, _Dress(schema, info, words, chance)))
    document, variables = _with_variables(schema, document, chance)
    if variables and chance.random() < 0.3:
        name = chance.choice(list(variables))
        variables[name] = _broken(variables[name], chance)
    return Case(print_ast(document).replace(_SURROGATE, "\\ud800"), variables)


class _Dress(Visitor):
    """Names what is there, leaves out what need not be, and asks mutations for their errors."""

    def __init__(self, schema: GraphQLSchema, info: TypeInfo, words: Words, chance: random.Random):
        super().__init__()
        self._schema, self._info, self._words = schema, info, words
        self._field, self._chance = "", chance
        # Many optional fields at a time are hardly ever all good.
        self._dropped = chance.choice((0.1, 0.5, 0.9))
        self._wild = chance.choice((0, 0, 0.1))

    def enter_field(self, node: FieldNode, *_: Any) -> Any:
        extra = []
        parent = self._info.get_parent_type()
        if parent in {self._schema.query_type, self._schema.mutation_type}:
            self._field = node.name.value
        if node.selection_set is None:
            return None
        if parent is self._schema.mutation_type:
            asked = [FieldNode(name=NameNode(value=each)) for each in ("code", "field", "message")]
            extra.append(
                FieldNode(
                    alias=NameNode(value=REFUSALS),
                    name=NameNode(value="errors"),
                    selection_set=SelectionSetNode(selections=tuple(asked)),
                )
            )
        if is_abstract_type(self._info.get_type()):
            extra.append(FieldNode(name=NameNode(value="__typename")))
        if not extra:
            return None
        selected = SelectionSetNode(selections=(*node.selection_set.selections, *extra))
        return replaced(node, selection_set=selected)

    def enter_argument(self, node: ArgumentNode, *_: Any) -> Any:
        return self._named(node)

    def enter_object_field(self, node: ObjectFieldNode, *_: Any) -> Any:
        return self._named(node)

    def _named(self, node: Any) -> Any:
        kind = self._info.get_input_type()
        if not is_non_null_type(kind) and self._chance.random() < self._dropped:
            return REMOVE
        value = self._value(node.name.value, node.value)
        return None if value is node.value else replaced(node, value=value)

    def _value(self, name: str, value: Any) -> Any:
        chance = self._chance
        if chance.random() < self._wild:
            return chance.choice(_WILD)
        if isinstance(value, ListValueNode):
            return replaced(value, values=tuple(self._value(name, each) for each in value.values))
        if chance.random() < 0.15:
            return value
        if isinstance(value, IntValueNode | FloatValueNode) and name != "delivery":
            return IntValueNode(value=str(chance.choice((0, 1, 2, 3, 10, 100))))
        words = self._words.called(name, self._field)
        if not isinstance(value, StringValueNode | IntValueNode) or not words:
            return value
        word = chance.choice(words)
        if name == "name" and self._field.startswith("create"):
            word = f"made-{chance.randrange(10**6)}"
        return (
            type(value)(value=word)
            if isinstance(value, StringValueNode) or word.isdigit()
            else value
        )


def replaced(node: Any, **changed: Any) -> Any:
    return type(node)(**{key: getattr(node, key) for key in node.keys} | changed)


def _with_variables(
    schema: GraphQLSchema, document: DocumentNode, chance: random.Random
) -> tuple[DocumentNode, dict[str, Any]]:
    """The same call with some arguments of the root sent as variables."""
    (operation,) = document.definitions
    assert isinstance(operation, OperationDefinitionNode)
    root: Any = schema.get_root_type(operation.operation)
    variables: dict[str, Any] = {}
    defined: list[VariableDefinitionNode] = []

    def taken(argument: ArgumentNode, known: Any) -> Any:
        name = argument.name.value
        if name not in known or name in variables or chance.random() < 0.5:
            return argument
        try:
            variables[name] = value_from_ast_untyped(argument.value)
        except (ValueError, RecursionError):
            return argument
        variable = VariableNode(name=NameNode(value=name))
        defined.append(
            VariableDefinitionNode(
                variable=variable, type=parse_type(str(known[name].type)), directives=()
            )
        )
        return replaced(argument, value=variable)

    selections = []
    for node in operation.selection_set.selections:
        known = (
            root.fields[node.name.value].args
            if isinstance(node, FieldNode) and node.name.value in root.fields
            else {}
        )
        arguments = tuple(taken(each, known) for each in getattr(node, "arguments", ()))
        selections.append(replaced(node, arguments=arguments) if arguments else node)
    operation = replaced(
        operation,
        variable_definitions=tuple(defined),
        selection_set=SelectionSetNode(selections=tuple(selections)),
    )
    return DocumentNode(definitions=(operation,)), variables


def _broken(value: Any, chance: random.Random) -> Any:
    """The value with one of its parts made what no type is likely to take."""
    if isinstance(value, dict | list) and value and chance.random() < 0.8:
        keys: Any = list(value) if isinstance(value, dict) else range(len(value))
        key = chance.choice(keys)
        changed: Any = value.copy()
        changed[key] = _broken(value[key], chance)
        return changed
    return chance.choice(WILD_JSON)
