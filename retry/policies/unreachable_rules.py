"""Unreachable rules: an earlier rule always matches first."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from retry.policies.documents import ExitCodes, PolicyDocument, Rule

_CONTAINERS_OWN = ("onExitCodes", "onTerminationMessage")


def unreachable_rules(document: PolicyDocument) -> list[str]:
    """Return a warning for each rule that an earlier rule of the policy shadows.

    Only the matchers themselves are compared: two patterns count as different unless they are the
    same text.
    """
    rules = document.spec.rules or ()
    warnings = []
    for position, rule in enumerate(rules):
        earlier = next((at for at in range(position) if _covers(rules[at], rule)), None)
        if earlier is not None:
            warnings.append(
                f"spec.rules[{position}] ({_called(rule)}) is never reached: whatever it matches, "
                f"spec.rules[{earlier}] ({_called(rules[earlier])}) matches before"
            )
    return warnings


class Hidden(NamedTuple):
    """A rule that never decides in an order of policies, and the one that matches before it."""

    rule: str
    policy: str
    before: str


def hidden_rules(document: PolicyDocument, earlier: Sequence[PolicyDocument]) -> list[Hidden]:
    """Return the rules of a policy before which a rule of the `earlier` policies always matches."""
    hidden = []
    for rule in document.spec.rules or ():
        covering = next(
            (
                Hidden(_called(rule), policy.metadata.name, _called(wide))
                for policy in earlier
                for wide in policy.spec.rules or ()
                if _covers(wide, rule)
            ),
            None,
        )
        if covering is not None:
            hidden.append(covering)
    return hidden


def _called(rule: Rule) -> str:
    return rule.name or f"unnamed, counted as {rule.counter}"


def _covers(earlier: Rule, later: Rule) -> bool:
    """Return whether `earlier` matches everything that `later` matches."""
    if _looks_into_containers(earlier) and _container_choice(earlier) != _container_choice(later):
        return False
    wide, narrow = earlier.matchers(), later.matchers()
    return all(
        key in narrow and covers(earlier, later) for key, covers in _COVERS.items() if key in wide
    )


def _container_choice(rule: Rule) -> tuple[str | None, bool]:
    return rule.container_name, bool(rule.include_init_containers)


def _looks_into_containers(rule: Rule) -> bool:
    own = any(key in rule.matchers() for key in _CONTAINERS_OWN)
    return own or "OOMKilled" in (rule.on_conditions or ())


def _listed(attribute: str) -> Callable[[Rule, Rule], bool]:
    def covers(earlier: Rule, later: Rule) -> bool:
        wide: Any = getattr(earlier, attribute)
        narrow: Any = getattr(later, attribute)
        return set(narrow) <= set(wide)

    return covers


def _exit_codes(earlier: Rule, later: Rule) -> bool:
    return earlier.on_exit_codes is not None and (
        later.on_exit_codes is not None
        and _codes(later.on_exit_codes) <= _codes(earlier.on_exit_codes)
    )


def _codes(given: ExitCodes) -> frozenset[int]:
    codes = frozenset(given.values)
    # Exit codes beyond a byte exist on other systems; -1 stands for all of them.
    return codes if given.operator == "In" else frozenset(range(-1, 256)) - {0} - codes


def _same_pattern(earlier: Rule, later: Rule) -> bool:
    return earlier.on_termination_message == later.on_termination_message


_COVERS: dict[str, Callable[[Rule, Rule], bool]] = {
    "onConditions": _listed("on_conditions"),
    "onExitCodes": _exit_codes,
    "onTerminationMessage": _same_pattern,
    "onFailureCategory": _listed("on_failure_category"),
    "onCauses": _listed("on_causes"),
    "onSignatures": _listed("on_signatures"),
}
