"""The common parts of a policy's rules as a form. What the form does not show stays as it is."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from django import forms
from pydantic import ValidationError

from interfaces.forms.yaml_text import as_yaml
from interfaces.http.documents import parse_yaml
from interfaces.http.parsing import BODY
from interfaces.http.problems import field_errors
from retry.evidence.causes import NEVER_CAUSES, RetryCause
from retry.policies.documents import Rule
from retry.policies.fields import CONDITIONS
from sessions_app.core.errors import InvalidInput

PATHS = {
    "name": "name",
    "action": "action",
    "causes": "onCauses",
    "conditions": "onConditions",
    "operator": "onExitCodes.operator",
    "codes": "onExitCodes.values",
    "message": "onTerminationMessage.pattern",
    "categories": "onFailureCategory",
    "signatures": "onSignatures",
    "limit": "retryLimit",
    "window": "retryWindow",
    "resets": "resetOnProgress",
    "same": "stopAfterSame",
    "delay": "backoff.initialDelay",
    "longest": "backoff.maxDelay",
    "multiplier": "backoff.multiplier",
    "memory": "resources.memory.factor",
    "most_memory": "resources.memory.max",
    "node": "antiAffinity.mode",
    "after": "placement.after",
    "selector": "placement.nodeSelector",
    "executors": "placement.executors.labels",
}
"""The place of each field of the form in a rule."""
_OF_LABELS = ("selector", "executors")
_OF_NAMES = ("categories", "signatures")
_CAUSES = sorted(set(RetryCause) - NEVER_CAUSES)
_LONGEST = 8_192
"""Most characters of a field: all names that a rule may have in a list."""
_WHOLE = re.compile(r"-?\d{1,18}")
_DECIMAL = re.compile(r"-?\d{1,18}\.\d{1,18}")
_NO_MATCHER = (
    "Say when it applies: choose a cause or a condition, or give exit codes, a message, a category "
    "or a signature."
)


def _text(label: str, help_text: str = "") -> forms.CharField:
    return forms.CharField(label=label, help_text=help_text, required=False, max_length=_LONGEST)


def _choice(label: str, *choices: tuple[str, str], help_text: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=choices, required=False, help_text=help_text)


def _checks(label: str, values: Iterator[tuple[str, str]]) -> forms.MultipleChoiceField:
    widget = forms.CheckboxSelectMultiple
    return forms.MultipleChoiceField(label=label, choices=values, required=False, widget=widget)


class RuleForm(forms.Form):
    """The form of one rule. After `is_valid`, `rule` is the rule with what was changed in it."""

    name = _text("Name", "Decisions and counters name the rule so.")
    action = _choice("What it does", ("Retry", "Retry"), ("Fail", "Do not retry"))
    causes = _checks("Cause", ((each.value, each.replace("_", " ")) for each in _CAUSES))
    conditions = _checks("Condition of the pod", ((each, each) for each in CONDITIONS))
    operator = _choice("Exit code", ("In", "is one of"), ("NotIn", "is none of, and not 0"))
    codes = _text("Exit codes", "Such as 2, 65.")
    message = _text("Last words contain", "An RE2 pattern, such as TRANSIENT|connection reset.")
    message.strip = False
    categories = _text("Failure category", "Names, with commas between them.")
    signatures = _text("Signature", "12 hex digits; several with commas between them.")
    limit = _text("Most retries", "Empty: as many as the policy says.")
    window = _text("Time in which the limit counts", "Such as 24h. Empty: the life of the chain.")
    resets = _choice(
        "The limit counts",
        ("", "all retries by this rule"),
        ("true", "those since an attempt last made progress"),
    )
    same = _text("Stops after the same failure", "Times in a row, 2 or more. Empty: it does not.")
    delay = _text("First delay", "Such as 10s or 5m. Empty: as the policy says.")
    longest = _text("Longest delay", "Such as 10m.")
    multiplier = _text("Delay grows by the factor", "Empty: 2.")
    memory = _text("Memory grows by the factor", "Such as 1.5. Empty: it stays.")
    most_memory = _text("Most memory", "Such as 64Gi.")
    node = _choice(
        "Node of the next attempt",
        ("", "As the policy says"),
        ("node", "Not the one where it failed"),
        ("none", "Any"),
    )

    after = _text("Moves from its retry number on", "0 is its first. Empty: 0.")
    selector = _text("Moves to nodes with", "Labels, such as capacity-type=on-demand.")
    executors = _text("Moves to executors with", "Labels, such as zone=b.")

    def __init__(self, before: Mapping[str, Any], taken: set[str], data: Any = None) -> None:
        """Take the rule as it is, the names of the other rules, and what was sent."""
        super().__init__(data, prefix="rule", initial=shown_values(before))
        self._before, self._taken = before, taken
        self.rule: dict[str, Any] = {}

    def clean(self) -> dict[str, Any]:
        """Put what was changed into the rule, and let the policy's own model check that."""
        cleaned = self.cleaned_data
        values = {name: _sent(name, cleaned.get(name)) for name in PATHS}
        values["operator"] = values["codes"] and (values["operator"] or "In")
        changed = [*self.changed_data, *(["operator"] if "codes" in self.changed_data else [])]
        rule = deepcopy(dict(self._before))
        for name in changed:
            _put(rule, PATHS[name].split("."), values[name])
        self.rule = {"name": rule["name"], **rule} if "name" in rule else rule
        try:
            Rule.model_validate(rule)
        except ValidationError as error:
            for path, reasons in field_errors(error).items():
                self._refuse(path, reasons)
        if rule.get("name") in self._taken:
            self.add_error("name", "is the name of another rule")
        return cleaned

    def _refuse(self, path: str, reasons: list[str]) -> None:
        if path == BODY:
            self.add_error(None, _NO_MATCHER)
            return
        plain = re.sub(r"\[\d+\]", "", path)
        # A part as a whole is told at the first of its fields.
        found = next((name for name, at in PATHS.items() if f"{at}.".startswith(f"{plain}.")), None)
        shown = reasons if found else [f"{path}: {why}" for why in reasons]
        self.add_error(found, [*shown])


def _sent(name: str, value: Any) -> Any:
    """Return the value of a field as a document has it; None for nothing."""
    if name == "codes":
        return [_number(each) for each in value.replace(",", " ").split()] if value else None
    if name == "resets":
        return True if value else None
    if name in _OF_NAMES and value:
        return [each.strip() for each in value.split(",") if each.strip()]
    if name in _OF_LABELS and value:
        return _labels(value)
    if name in {"limit", "same", "multiplier", "memory", "after"} and value:
        return _number(value)
    return value or None


def _labels(text: str) -> object:
    """Return the labels in a text. Other text stays, for the policy to refuse."""
    pairs = [each.partition("=") for each in text.replace(",", " ").split()]
    return {name: value for name, _, value in pairs} if all(pair[1] for pair in pairs) else text


def _number(text: str) -> object:
    """Return the number in a text. Other text stays, for the policy to refuse."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _put(inside: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a value, or take it away, and what is then empty with it."""
    key, *rest = path
    if rest:
        part = inside.get(key)
        part = part if isinstance(part, dict) else {}
        _put(part, rest, value)
        value = part or None
    if value is None:
        inside.pop(key, None)
    else:
        inside[key] = value


def _at(inside: Any, path: str) -> Any:
    for key in path.split("."):
        inside = inside.get(key) if isinstance(inside, Mapping) else None
    return inside


def shown_values(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fields show of a rule."""
    found = {name: _at(rule, path) for name, path in PATHS.items()}
    known = {"causes": {*map(str, _CAUSES)}, "conditions": {*CONDITIONS}}
    for name, offered in known.items():
        values = found[name] if isinstance(found[name], list) else []
        named = [str(each).lower() if name == "causes" else str(each) for each in values]
        found[name] = [each for each in named if each in offered]
    for name in ("codes", *_OF_NAMES):
        values = found[name]
        found[name] = ", ".join(map(str, values)) if isinstance(values, list) else values
    found["resets"] = "true" if found["resets"] is True else ""
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return value if isinstance(value, list) else "" if value is None else str(value)


def _leaves(inside: Any, path: str = "") -> Iterator[str]:
    if not isinstance(inside, Mapping):
        yield path
        return
    for key, value in inside.items():
        yield from _leaves(value, f"{path}.{key}" if path else str(key))


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A rule as a list shows it."""

    at: str
    """Its number and a mark of its content, for the buttons."""
    name: str
    action: str
    facts: list[tuple[str, str]]
    """Labels and values of the form's fields."""
    more: list[str]
    """The keys that the form does not show."""


def rule_lines(rules: list[Any]) -> list[RuleLine]:
    """Return the rules of a document as lines; the first that matches decides."""
    return [_line(number, rule) for number, rule in enumerate(rules)]


def _is_shown(path: str) -> bool:
    labels = (f"{PATHS[name]}." for name in _OF_LABELS)
    return path in PATHS.values() or path.startswith(tuple(labels))


def _line(number: int, rule: Any) -> RuleLine:
    values = shown_values(rule if isinstance(rule, Mapping) else {})
    if values["operator"] == "NotIn" and values["codes"]:
        values["codes"] = f"any but {values['codes']}"
    fields = RuleForm.base_fields
    choices = dict(fields["node"].choices)  # type: ignore[attr-defined]  # it is a choice
    values["node"] = values["node"] and choices.get(values["node"], values["node"])
    facts = [
        (str(fields[name].label), ", ".join(value) if isinstance(value, list) else str(value))
        for name, value in values.items()
        if value not in ("", []) and name not in {"name", "action", "operator"}
    ]
    more = [path for path in _leaves(rule) if not _is_shown(path)]
    action = values["action"]
    return RuleLine(
        f"{number}:{mark_of(rule)}",
        str(values["name"] or f"rule {number + 1}"),
        action,
        facts,
        more,
    )


def mark_of(rule: Any) -> str:
    """Return what tells whether a rule is still the one that was shown."""
    return hashlib.sha256(json.dumps(rule, sort_keys=True).encode()).hexdigest()[:12]


class Draft:
    """The document in a text, as it is read before anything is checked. Raises `InvalidInput`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._document = parse_yaml(text.encode())
        spec = self._document.setdefault("spec", {}) or {}
        rules = (spec.get("rules") or []) if isinstance(spec, dict) else None
        if not isinstance(rules, list):
            raise InvalidInput({"spec.rules": ["must be a list"]})
        self._document["spec"] = spec
        self.rules: list[Any] = rules

    def found(self, at: str) -> int | None:
        """Return the number of the rule that a line named; None if it is not there any more."""
        number, _, mark = at.partition(":")
        place = int(number) if re.fullmatch(r"\d{1,3}", number) else len(self.rules)
        same = place < len(self.rules) and mark_of(self.rules[place]) == mark
        return place if same else None

    def write(self) -> None:
        """Write the rules into the text."""
        self._document["spec"]["rules"] = self.rules
        self.text = as_yaml(self._document)


def may_be_retried(cause: str) -> bool:
    """Return whether a rule can retry failures of a cause; "" is none."""
    return cause in _CAUSES


def rule_for(cause: str, exit_code: int | None) -> dict[str, Any]:
    """Return a rule that retries such a failure, for somebody to begin with."""
    if cause == RetryCause.OOM_KILLED:
        more: dict[str, Any] = {
            "onConditions": ["OOMKilled"],
            "resources": {"memory": {"factor": 1.5}},
        }
    elif cause == RetryCause.KERNEL_NONZERO_EXIT and exit_code:
        more = {"onExitCodes": {"operator": "In", "values": [exit_code]}}
        cause = f"exit code {exit_code}"
    else:
        more = {"onCauses": [cause]}
    name = re.sub(r"[ _]", "-", cause)
    backoff = {"backoff": {"initialDelay": "10s"}}
    return {"name": name, "action": "Retry", "retryLimit": 3, **more, **backoff}


def policy_for(cause: str, exit_code: int | None, domain: str, project: str) -> str:
    """Return a policy of a project with that rule, as YAML."""
    rule = rule_for(cause, exit_code)
    return as_yaml(
        {
            "apiVersion": "reprise/v1",
            "kind": "RetryPolicy",
            "metadata": {"name": f"retry-{rule['name']}", "domain": domain, "project": project},
            "spec": {"rules": [rule]},
        }
    )
