"""Fields of Django's forms as parts of pages."""

from collections.abc import Mapping
from typing import Any

from django import forms

from interfaces.web.parts import Choice, Field


def shown_field(bound: forms.BoundField, label: str = "", **more: Any) -> Field:
    """Return a field of a form with its value and its errors; `more` are fields of `Field`."""
    widget = bound.field.widget
    value = bound.value()
    kind, choices = _KINDS.get(type(widget), "text"), _choices(widget)
    shown: dict[str, Any] = {"choices": [each for each in choices if each.value]}
    if kind == "checks":
        shown["chosen"] = [str(each) for each in value or ()]
    elif kind == "checkbox":
        shown["value"] = "1" if value else ""
    else:
        shown["value"] = "" if value is None else str(value)
    if kind == "select":
        shown["empty"] = next((each.label for each in choices if not each.value), "")
    limit = getattr(bound.field, "max_length", None)
    if limit:
        shown["max_length"] = limit
    shown |= {
        "help": str(bound.field.help_text),
        "error": " ".join(str(each) for each in bound.errors),
        "required": bound.field.required and kind not in {"checkbox", "checks"},
    }
    whole = {"kind": kind} | shown | more
    return Field(bound.html_name, label or str(bound.label), **whole)


_KINDS: Mapping[type[forms.Widget], str] = {
    forms.Textarea: "textarea",
    forms.Select: "select",
    forms.CheckboxInput: "checkbox",
    forms.CheckboxSelectMultiple: "checks",
    forms.NumberInput: "number",
    forms.DateTimeInput: "datetime-local",
}


def _choices(widget: forms.Widget) -> list[Choice]:
    pairs = getattr(widget, "choices", ())
    return [Choice(str(value), str(label)) for value, label in pairs]
