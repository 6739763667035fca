"""Documents in text fields: shown as YAML, in a fixed-width font."""

from collections.abc import Mapping
from typing import Any

import yaml
from django import forms

from interfaces.http.documents import Dumper, parse_yaml
from interfaces.http.policy_text import refusal
from sessions_app.core.errors import InvalidInput

LONGEST = 1_000_000
"""Most characters, as many as a request of the API may have bytes."""


def as_yaml(value: Any) -> str:
    """Return a JSON value as readable YAML: keys in their order, short values on one line."""
    return yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=96,
        default_flow_style=None,
    )  # fmt: skip


class YamlField(forms.CharField):
    """A large text field in a fixed-width font."""

    def __init__(self, *, rows: int, **options: Any):
        widget = forms.Textarea(
            {"rows": rows, "class": "yaml-text", "spellcheck": "false", "autocapitalize": "off"}
        )
        super().__init__(max_length=LONGEST, strip=False, widget=widget, **options)


class MappingField(YamlField):
    """A mapping as YAML, empty without any text. A change is one of its values, not of spelling."""

    def prepare_value(self, value: Any) -> Any:
        """Return the text of a mapping; what was sent stays as it is."""
        return as_yaml(dict(value)) if isinstance(value, Mapping) and value else value or ""

    def clean(self, value: Any) -> dict[str, Any]:
        """Read the mapping. Raises `ValidationError` with the place of each mistake."""
        text = super().clean(value)
        try:
            return parse_yaml(text.encode())
        except InvalidInput as error:
            raise refusal(text, error.errors) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether a text was sent that says something else than the mapping `initial`."""
        if data is None:
            return False
        try:
            return self.clean(data) != (initial or {})
        except forms.ValidationError:
            return True
