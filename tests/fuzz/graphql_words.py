"""Collects the names that a GraphQL document can use: read over GraphQL itself, list by list."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from graphql import (
    GraphQLSchema,
    get_named_type,
    is_leaf_type,
    is_object_type,
    is_required_argument,
)

from tests.graphs import Graph

Values = list[str]
_ALSO = {
    # What an argument is called, and which field of which type it names.
    "project": ("Project", "address"),
    "projects": ("Project", "address"),
    "domain": ("Domain", "name"),
    "queue": ("Queue", "name"),
    "executor": ("Executor", "name"),
    "session": ("Session", "sessionId"),
    "root": ("Session", "sessionId"),
    "parent": ("Session", "sessionId"),
    "user": ("Membership", "user"),
    "defaultPolicy": ("RetryPolicy", "name"),
    "retryPolicies": ("RetryPolicy", "name"),
    "onFailureCategory": ("FailureCategory", "name"),
}
_FIXED: dict[str, Values] = {
    "url": ["https://example.org/hook"],
    "image": ["busybox"],
    "eventTypes": ["session.failed"],
    "overlap": ["3600"],
    "reason": ["maintenance"],
    "operator": ["In", "NotIn"],
    "action": ["Retry", "Fail", "Ignore"],
    "defaultAction": ["Retry", "Fail"],
    "mode": ["prefer", "require"],
    "onConditions": ["OOMKilled", "DisruptionTarget"],
    "initialDelay": ["10s", "1m"],
    "maxDelay": ["1h"],
    "pattern": ["disk (full|gone)"],
    "search": ["wait"],
    "door": ["rest", "graphql"],
    "cron": ["0 3 * * *"],
    "timeZone": ["Europe/Berlin"],
    "yaml": ["name: made\nspec:\n  retryLimit: 2\n", "a: &a [*a]", "name: ["],
}


@dataclass(frozen=True)
class Words:
    """Values of fields by type."""

    schema: GraphQLSchema
    found: dict[str, dict[str, Values]]

    def called(self, argument: str, root_field: str) -> Values:
        """Return the values that an argument or an input field of this name may have below a field
        of the root."""
        if argument in _FIXED:
            return _FIXED[argument]
        if argument in _ALSO:
            kind, name = _ALSO[argument]
            return self.found[kind].get(name, [])
        name = {"after": "cursor", "ifMatch": "version"}.get(argument, argument)
        about = self._about(root_field)
        if name == "id" and about is None:
            return list(chain.from_iterable(each.get("id", []) for each in self.found.values()))
        return self.found.get(about or "", {}).get(name, [])

    def _about(self, root_field: str) -> str | None:
        """The type whose name ends this one: `deleteRetryPolicy` is about a `RetryPolicy`."""
        singular = root_field.removesuffix("s").replace("Policie", "Policy").lower()
        known = [kind for kind in self.found if singular.endswith(kind.lower())]
        known += ["AuditEntry"] * (root_field == "audit")
        return max(known, key=len, default=None)


def words_of(schema: GraphQLSchema, graph: Graph, callers: list[str]) -> Words:
    """Ask each list of the root for its first rows; the tokens of `callers` are left out, since a
    call must not revoke its own."""
    found: dict[str, dict[str, Values]] = {}
    secrets = tuple(callers)
    for name, kind, leaves in _lists(schema):
        answer = graph.ask(f"{{ {name}(first: 4) {{ edges {{ cursor node {{ {leaves} }} }} }} }}")
        rows = [{**edge["node"], "cursor": edge["cursor"]} for edge in answer[name]["edges"]]
        safe = [row for row in rows if not _is_of(row, secrets)]
        fields = dict.fromkeys(chain.from_iterable(safe))
        found[kind] = {
            field: [str(row[field]) for row in safe if row.get(field) not in {None, ""}]
            for field in fields
            if not any(isinstance(row.get(field), list | dict) for row in safe)
        }
    return Words(schema, found)


def _is_of(row: dict[str, Any], secrets: tuple[str, ...]) -> bool:
    return any(secret.startswith(row.get("prefix") or "-") for secret in secrets)


def _lists(schema: GraphQLSchema) -> Iterator[tuple[str, str, str]]:
    assert schema.query_type is not None
    for name, field in schema.query_type.fields.items():
        connection: Any = get_named_type(field.type)
        needs = any(map(is_required_argument, field.args.values()))
        if needs or not connection.name.endswith("Connection"):
            continue
        node: Any = get_named_type(
            get_named_type(connection.fields["edges"].type).fields["node"].type
        )
        assert is_object_type(node)
        leaves = [
            each
            for each, field in node.fields.items()
            if is_leaf_type(get_named_type(field.type)) and each != "pendingReason"
        ]
        yield name, node.name, " ".join(leaves)
