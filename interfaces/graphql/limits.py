"""The limits on one document, checked before validation and before it runs.

A field costs one for each time that it can be in the answer: below a page of 100 rows, a hundred.
Fragments are measured once, however often they are used. docs/graphql.md lists the limits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLList,
    GraphQLSchema,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    StringValueNode,
    VariableNode,
    Visitor,
    get_named_type,
    get_nullable_type,
    value_from_ast_untyped,
    visit,
)

from interfaces.calls.bulk import MAX_SESSIONS
from interfaces.graphql.errors import LimitExceeded
from interfaces.http.paging import MAX_PAGE

MAX_TOKENS = 4_000
"""Most tokens in a document."""
MAX_COMMENTS = 500
MAX_DEPTH = 16
MAX_COST = 100_000
MAX_FIELDS = 500
"""Most fields written in a document; those of fragments count once."""
MAX_REPEATED = 50
"""Most fields of one name in a document, because validation compares each pair of them."""
MAX_ROOT_FIELDS = 20
MAX_ALIASES = 50
MAX_DIGITS = 1_000
"""Most digits of a number. Python itself reads at most 4,300."""
LISTED = 10
"""The assumed length of a list that is no page."""


@dataclass(frozen=True, slots=True)
class _Measure:
    """The cost and depth of a selection, for one object of its type."""

    cost: int
    depth: int


_NOTHING = _Measure(0, 0)


@dataclass(slots=True)
class _Walk:
    """Measures the selections of one operation."""

    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]
    _known: dict[tuple[str, str, int], _Measure] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _bulk: int = 0
    """The number of objects that the current mutation changes."""

    def selections(self, selected: SelectionSetNode | None, parent: Any) -> _Measure:
        """Return the measure of a selection on an object of type `parent`; None for an unknown
        type."""
        cost = depth = 0
        for node in selected.selections if selected else ():
            found = self._selection(node, parent)
            cost, depth = cost + found.cost, max(depth, found.depth)
        return _Measure(cost, depth)

    def _selection(self, node: Any, parent: Any) -> _Measure:
        if isinstance(node, FieldNode):
            return self._field(node, parent)
        if isinstance(node, FragmentSpreadNode):
            return self._spread(node.name.value, parent)
        condition = node.type_condition
        kind = self.schema.type_map.get(condition.name.value) if condition else parent
        return self.selections(node.selection_set, kind)

    def _spread(self, name: str, parent: Any) -> _Measure:
        fragment = self.fragments.get(name)
        # Validation refuses a fragment that is unknown or that contains itself.
        if fragment is None or name in self._open:
            return _NOTHING
        kind = self.schema.type_map.get(fragment.type_condition.name.value, parent)
        key = name, getattr(kind, "name", ""), self._bulk
        if key not in self._known:
            self._open.add(name)
            self._known[key] = self.selections(fragment.selection_set, kind)
            self._open.discard(name)
        return self._known[key]

    def _field(self, node: FieldNode, parent: Any) -> _Measure:
        if node.name.value.startswith("__"):
            return _Measure(1, 1)  # another rule limits introspection
        known = getattr(parent, "fields", {}).get(node.name.value)
        if parent is not None and parent is self.schema.mutation_type:
            self._bulk = _bulk_of(node, self.variables)
        below = self.selections(node.selection_set, get_named_type(known.type) if known else None)
        times = self._times(node, known)
        return _Measure(1 + times * below.cost, 1 + below.depth)

    def _times(self, node: FieldNode, known: Any) -> int:
        """Return the number of objects that a field returns."""
        if known is not None and "first" in known.args:
            return self._first(node, known.args["first"].default_value)
        if known is not None and isinstance(get_nullable_type(known.type), GraphQLList):
            # The edges of a page were counted with the page.
            if node.name.value == "results" and self._bulk:
                return self._bulk
            return 1 if node.name.value == "edges" else LISTED
        return 1

    def _first(self, node: FieldNode, default: Any) -> int:
        value: Any = default
        for argument in node.arguments:
            if argument.name.value == "first":
                value = self._number(argument.value, default)
        # A value outside of its bounds is refused by the field before anything is read.
        return min(max(value, 0), MAX_PAGE) if type(value) is int else MAX_PAGE

    def _number(self, value: Any, default: Any) -> Any:
        if isinstance(value, VariableNode):
            return self.variables.get(value.name.value, default)
        return int(value.value) if isinstance(value, IntValueNode) else None


def _bulk_of(node: FieldNode, variables: Mapping[str, Any]) -> int:
    """Return the number of objects that a bulk mutation changes; 0 for other mutations."""
    given = {each.name.value: each.value for each in node.arguments}.get("input")
    asked = value_from_ast_untyped(given, dict(variables)) if given else None
    if not isinstance(asked, dict):
        return 0
    if isinstance(asked.get("sessions"), list):
        return len(asked["sessions"])
    if "filter" not in asked:
        return 0
    limit = asked.get("limit")
    return min(max(limit, 1), MAX_SESSIONS) if type(limit) is int else MAX_SESSIONS


def check_limits(
    schema: GraphQLSchema,
    document: DocumentNode,
    operation: OperationDefinitionNode,
    variables: Mapping[str, Any],
) -> None:
    """Raise `LimitExceeded` if a document is too large, or its operation asks for too much."""
    found = _Counts()
    visit(document, found)
    _within(found.fields, MAX_FIELDS, "fields")
    _within(found.aliases, MAX_ALIASES, "aliases")
    _within(max(found.names.values(), default=0), MAX_REPEATED, "fields of one name")
    fragments = {
        each.name.value: each
        for each in document.definitions
        if isinstance(each, FragmentDefinitionNode)
    }
    root = schema.get_root_type(operation.operation)
    try:
        given = dict(_defaults(operation)) | dict(variables)
        measured = _Walk(schema, fragments, given).selections(operation.selection_set, root)
        roots = _root_fields(operation.selection_set, fragments, set())
    except RecursionError:
        raise LimitExceeded(f"the document is nested deeper than {MAX_DEPTH} levels") from None
    _within(roots, MAX_ROOT_FIELDS, "fields at its root")
    _within(measured.depth, MAX_DEPTH, "levels")
    _within(measured.cost, MAX_COST, "fields in its answer: ask for smaller pages")


def _within(found: int, most: int, what: str) -> None:
    if found > most:
        name, _, advice = what.partition(": ")
        fault = f"the query has {found:,} {name}, and at most {most:,} are allowed"
        raise LimitExceeded(f"{fault}; {advice}" if advice else fault)


def _root_fields(
    selected: SelectionSetNode, fragments: Mapping[str, FragmentDefinitionNode], seen: set[str]
) -> int:
    """Return the number of root fields. Each fragment counts once: its repetition adds nothing."""
    count = 0
    for node in selected.selections:
        if isinstance(node, FieldNode):
            count += 1
        elif not isinstance(node, FragmentSpreadNode):
            count += _root_fields(node.selection_set, fragments, seen)  # type: ignore[attr-defined]
        elif node.name.value in fragments and node.name.value not in seen:
            seen.add(node.name.value)
            count += _root_fields(fragments[node.name.value].selection_set, fragments, seen)
    return count


def _defaults(operation: OperationDefinitionNode) -> Iterator[tuple[str, Any]]:
    for each in operation.variable_definitions:
        if each.default_value is not None:
            yield each.variable.name.value, value_from_ast_untyped(each.default_value)


class _Counts(Visitor):
    """Counts the elements of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.fields = self.aliases = 0
        self.names: Counter[str] = Counter()

    def enter_field(self, node: FieldNode, *_args: Any) -> None:
        self.fields += 1
        self.aliases += node.alias is not None
        self.names[(node.alias or node.name).value] += 1

    def enter_int_value(self, node: IntValueNode, *_args: Any) -> None:
        if len(node.value) > MAX_DIGITS:
            raise LimitExceeded(f"a number has more than {MAX_DIGITS:,} digits")

    def enter_string_value(self, node: StringValueNode, *_args: Any) -> None:
        if "\x00" in node.value:
            raise LimitExceeded("a text contains a NUL, which cannot be stored")
