"""Node rules: on which nodes a session's pods may run: labels, taints, tolerations. Pure.

The rules are those of Kubernetes, read from the session's own pod specification. A rule that is not
understood excludes no node: the cluster has the last word.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FORBIDDING = frozenset({"NoSchedule", "NoExecute"})
LABEL, TAINT = "label", "taint"
"""The first words of refusals."""
AFFINITY = "of the node affinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, eq=False)
class NodeRules:
    """The labels that a node must have and the taints that are tolerated. Equal only to itself."""

    selector: Mapping[str, str]
    """Labels that a node must have, all of them."""
    terms: Sequence[Mapping[str, Any]] = ()
    """Node selector terms, one of which must match; empty if any node will do."""
    tolerations: Sequence[Mapping[str, Any]] = ()

    @property
    def any_node(self) -> bool:
        """Return whether no label is required; taints may still exclude a node."""
        return not self.selector and not self.terms

    def refusal(self, node: Mapping[str, Any]) -> str:
        """Return why a node is excluded, "label ..." or "taint ..."; "" if it is allowed."""
        return next(self.refusals(node), "")

    def refusals(self, node: Mapping[str, Any]) -> Iterator[str]:
        """Yield everything that excludes a node, in the same words."""
        labels = node.get("labels") or {}
        for name, value in sorted(self.selector.items()):
            if labels.get(name) != value:
                yield f"{LABEL} {name}={value}"
        if self.terms and not any(_term_matches(term, node) for term in self.terms):
            yield f"{LABEL} {AFFINITY}"
        for taint in node.get("taints") or ():
            if not self._tolerates(taint):
                yield f"{TAINT} {taint.get('key', '')}"

    def _tolerates(self, taint: Mapping[str, Any]) -> bool:
        if taint.get("effect") not in _FORBIDDING:
            return True
        return any(_tolerates(each, taint) for each in self.tolerations)


ANY_NODE = NodeRules({})
ALL_NODES = NodeRules({}, tolerations=({"operator": "Exists"},))
"""Rules that exclude no node, whatever its taints are."""


def node_rules(pod_spec: object) -> NodeRules:
    """Return the rules in a pod specification; `ANY_NODE` if there are none."""
    if not isinstance(pod_spec, Mapping):
        return ANY_NODE
    spec = pod_spec.get("spec") if isinstance(pod_spec.get("spec"), Mapping) else pod_spec
    assert isinstance(spec, Mapping)  # noqa: S101  # for the type checker: it was asked above
    selector = _mapping(spec.get("nodeSelector"))
    affinity = _mapping(_mapping(spec.get("affinity")).get("nodeAffinity"))
    terms = _mappings(_mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms"))
    tolerations = _mappings(spec.get("tolerations"))
    if not (selector or terms or tolerations):
        return ANY_NODE
    return NodeRules({str(k): str(v) for k, v in selector.items()}, terms, tolerations)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    given = value if isinstance(value, list) else []
    return tuple(each for each in given if isinstance(each, Mapping))


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    exists = toleration.get("operator") == "Exists"
    key = toleration.get("key") or ""
    if not key:
        return exists
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(key == taint.get("key") and (exists or same_value))


def _term_matches(term: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    labels = node.get("labels") or {}
    fields = {"metadata.name": node.get("name", "")}
    wanted = [
        *((labels, each) for each in _mappings(term.get("matchExpressions"))),
        *((fields, each) for each in _mappings(term.get("matchFields"))),
    ]
    # As in Kubernetes, a term without requirements matches nothing.
    return bool(wanted) and all(_expression_matches(facts, each) for facts, each in wanted)


def _expression_matches(facts: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    name, values = expression.get("key", ""), expression.get("values") or []
    test = _OPERATORS.get(str(expression.get("operator")))
    return test is None or test(facts.get(name), values)


def _compared(have: str | None, values: Sequence[Any], sign: int) -> bool:
    try:
        return have is not None and len(values) == 1 and sign * (int(have) - int(values[0])) > 0
    except (TypeError, ValueError):
        return False


_OPERATORS: dict[str, Callable[[str | None, Sequence[Any]], bool]] = {
    "In": lambda have, values: have in values,
    "NotIn": lambda have, values: have not in values,
    "Exists": lambda have, _: have is not None,
    "DoesNotExist": lambda have, _: have is None,
    "Gt": lambda have, values: _compared(have, values, 1),
    "Lt": lambda have, values: _compared(have, values, -1),
}
