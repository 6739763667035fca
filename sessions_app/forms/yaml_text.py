"""Documents in text fields: shown as YAML, in a fixed-width font."""

from typing import Any

import yaml
from django import forms

LONGEST = 1_000_000
"""Most characters, as many as a request of the API may have bytes."""


def as_yaml(value: Any) -> str:
    """Return a JSON value as readable YAML: keys in their order, short values on one line."""
    return yaml.dump(
        value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=96,
        default_flow_style=None,
    )  # fmt: skip


class YamlField(forms.CharField):
    """A large text field in a fixed-width font."""

    def __init__(self, *, rows: int, **options: Any):
        widget = forms.Textarea(
            {"rows": rows, "class": "yaml-text", "spellcheck": "false", "autocapitalize": "off"}
        )
        super().__init__(max_length=LONGEST, strip=False, widget=widget, **options)
