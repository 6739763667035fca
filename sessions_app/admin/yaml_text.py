"""Documents in text fields: shown as YAML, parsed strictly, with errors by path and line."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from sessions_app.api.http.parsing import BODY

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
        widget = UnfoldAdminTextareaWidget(
            {"rows": rows, "class": "yaml-text", "spellcheck": "false", "autocapitalize": "off"}
        )
        super().__init__(max_length=LONGEST, strip=False, widget=widget, **options)


def refusal(
    text: str, errors: Mapping[str, Iterable[str]], *, inside: str = ""
) -> forms.ValidationError:
    """Return the errors of a text as the path of each field, its line if it exists, and the reason.

    `inside` is the field whose value is the whole text.
    """
    root = _root(text)
    return forms.ValidationError(
        [
            f"The text {why}" if path == BODY else f"{_placed(root, path, inside)}: {why}"
            for path, reasons in errors.items()
            for why in reasons
        ]
    )


def _root(text: str) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    return root


def _placed(root: yaml.Node | None, path: str, inside: str) -> str:
    line = line_of(root, path.removeprefix(inside))
    return path if line is None else f"{path} (line {line})"


_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def line_of(node: yaml.Node | None, path: str) -> int | None:
    """Return the line of a field such as `spec.rules[2].action`, or of the closest existing
    parent."""
    line = None
    for index, key in _STEP.findall(path):
        found = _item(node, index) if index else _member(node, key)
        if found is None:
            return line
        marked, node = found
        line = marked.start_mark.line + 1
    return line


def _item(node: yaml.Node | None, index: str) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(node, yaml.SequenceNode) or int(index) >= len(node.value):
        return None
    return node.value[int(index)], node.value[int(index)]


def _member(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((name, value) for name, value in node.value if name.value == key), None)
