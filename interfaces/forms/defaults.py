"""The form of a scope's retry defaults, generated from the policy model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django import forms
from pydantic import ValidationError

from retry.evidence.causes import NEVER_CAUSES, RetryCause
from retry.policies.inline import BOUNDS, FIELDS, Bounds, InlinePolicy, error_texts
from retry.policies.limits import UNLIMITED
from retry.policies.meaning import Meaning, PolicyField
from retry.policies.merge import Merged, MergedBounds

LONGEST = 2_000
BOUND = "bound_"
SET = "set_"
_TRUTH = {"true": True, "false": False}
_BOUND_OF = {name: name for name in Bounds.model_fields} | {"retry_delay": "min_retry_delay"}


@dataclass(frozen=True, slots=True)
class Line:
    """A field of the policy, as the page shows it."""

    name: str
    set_here: forms.BoundField | None
    value: forms.BoundField
    effective: str
    layer: str
    bound: str
    help: str


class DefaultsForm(forms.Form):
    """The form of retry defaults: a checkbox at each field says whether this scope sets it.

    A checked field that is empty means null. After `is_valid`, `policy` and `bounds` hold the
    values. The policy model reports the errors.
    """

    policy: InlinePolicy
    bounds: Bounds

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in InlinePolicy.model_fields:
            self.fields[SET + name] = forms.BooleanField(
                required=False,
                label=f"set {name} here",
                widget=forms.CheckboxInput({"aria-label": f"set {name} here"}),
            )
            self.fields[name] = _field(FIELDS[name])
        for name in Bounds.model_fields:
            self.fields[BOUND + name] = _text(f"bound of {name}")

    def clean(self) -> dict[str, Any]:
        """Build the policy and the bounds, and collect their errors."""
        cleaned = self.cleaned_data
        policy = {
            name: _raw(FIELDS[name], cleaned.get(name))
            for name in InlinePolicy.model_fields
            if cleaned.get(SET + name) and name in cleaned
        }
        for name in InlinePolicy.model_fields:
            # If a field was set here, an empty, unchecked one means that it is inherited again.
            boxed = cleaned.get(SET + name) or self.initial.get(SET + name)
            if cleaned.get(name) and not boxed:
                self.add_error(name, "Tick the box beside it, or leave it empty to inherit.")
        bounds = {
            name: _number(cleaned[BOUND + name])
            for name in Bounds.model_fields
            if cleaned.get(BOUND + name)
        }
        self.policy = self._read(InlinePolicy, policy, "")
        self.bounds = self._read(Bounds, bounds, BOUND)
        return cleaned

    def _read(self, kind: type[Any], values: dict[str, Any], prefix: str) -> Any:
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            for name, texts in error_texts(error).items():
                self.add_error(prefix + name, [*texts])
            return kind()

    def policy_lines(self, merged: Merged, bounds: MergedBounds) -> Iterator[Line]:
        """Yield the policy's fields, each with its effective value and the layer that sets it."""
        values = merged.policy.model_dump(mode="json")
        for name in InlinePolicy.model_fields:
            yield Line(
                name,
                self[SET + name],
                self[name],
                shown(values[name], empty="any" if name == "retry_on_exit_codes" else "none"),
                merged.source[name].value,
                _bound_text(_BOUND_OF.get(name), bounds),
                _help(FIELDS[name].meaning, unlimited=FIELDS[name].unlimited),
            )

    def bound_lines(self, bounds: MergedBounds) -> Iterator[Line]:
        """Yield the bounds that the scope may set, with the strictest ones that apply to it."""
        for name in Bounds.model_fields:
            bound = getattr(bounds, name)
            yield Line(
                name,
                None,
                self[BOUND + name],
                shown(bound.value) if bound else "none",
                bound.layer.value if bound else "",
                "",
                _help(BOUNDS[name].meaning),
            )


def initial(policy: Mapping[str, Any], bounds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's initial values for a stored row."""
    found: dict[str, Any] = {SET + name: name in policy for name in InlinePolicy.model_fields}
    found |= {
        name: value if _is_checked(FIELDS[name]) else shown(value, empty="")
        for name, value in policy.items()
        if name in FIELDS
    }
    return found | {BOUND + name: shown(value) for name, value in bounds.items()}


def shown(value: object, empty: str = "none") -> str:
    """Return a value of a policy for people; `empty` stands for null and for an empty list."""
    if value is None or value in ([], ""):
        return empty
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _bound_text(name: str | None, bounds: MergedBounds) -> str:
    bound = getattr(bounds, name) if name else None
    if bound is None:
        return ""
    least = "at least" if name == "min_retry_delay" else "at most"
    return f"{least} {shown(bound.value)} ({bound.layer.value})"


def _help(meaning: Meaning, *, unlimited: bool = False) -> str:
    """Return a meaning as the page shows it beside its field."""
    unit = f"{meaning.unit}; " if meaning.unit else ""
    text = f"{unit}{meaning.text}" + (f", or {UNLIMITED}" if unlimited else "")
    return text + (f"; empty: {meaning.empty}" if meaning.empty else "")


def _is_checked(field: PolicyField) -> bool:
    """Return whether the members of a list are boxes to check."""
    return field.many and issubclass(field.kind, StrEnum)


def _choices(field: PolicyField) -> list[str]:
    """Return the values among which a field is chosen; none if it is typed."""
    if field.kind is bool:
        return [*_TRUTH]
    if field.kind is RetryCause:
        return sorted(set(RetryCause) - NEVER_CAUSES)
    return [*field.kind] if issubclass(field.kind, StrEnum) else []


def _field(field: PolicyField) -> forms.Field:
    choices = [(str(value), str(value)) for value in _choices(field)]
    if _is_checked(field):
        return forms.MultipleChoiceField(
            choices=choices,
            required=False,
            label=field.name,
            widget=forms.CheckboxSelectMultiple,
        )
    if choices:
        return forms.ChoiceField(
            choices=[("", "-"), *choices],
            required=False,
            label=field.name,
        )
    return _text(field.name, "text" if field.unlimited else "decimal")


def _text(label: str, keys: str = "decimal") -> forms.CharField:
    return forms.CharField(
        required=False,
        max_length=LONGEST,
        label=label,
        widget=forms.TextInput({"inputmode": keys, "aria-label": label}),
    )


def _number(text: str) -> object:
    """Return the number in a text as JSON would have it.

    Other text stays, for the policy to refuse.
    """
    kinds: tuple[Callable[[str], object], ...] = (int, float)
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _raw(field: PolicyField, value: Any) -> object:
    """Return the value of a form field as the body of a REST call would have it."""
    if _is_checked(field):
        return value
    if field.many:
        return [_number(each) for each in value.replace(",", " ").split()]
    if field.kind is bool:
        return _TRUTH.get(value, value)
    if not value and field.nullable:
        return None
    return _number(value) if field.kind in {int, float} else value
