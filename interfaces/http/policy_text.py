"""Documents that people type: read strictly, with errors by path and line, for forms."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import yaml
from django.core.exceptions import ValidationError as FormError
from pydantic import ValidationError

from interfaces.http.documents import parse_yaml
from interfaces.http.parsing import BODY
from interfaces.http.problems import field_errors
from retry.policies.documents import MAX_POLICIES, PolicyDocument
from retry.policies.matching import NamedPolicy, compile_policy
from sessions_app.core.errors import InvalidInput

_BETWEEN = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)


def read_policy(text: str) -> PolicyDocument:
    """Return the policy in a text.

    Raises a form's `ValidationError` with the path and line of each error.
    """
    try:
        sent = parse_yaml(text.encode())
        # The output of `reprise get -o yaml` is valid input. Its status is ignored.
        sent.pop("status", None)
        return PolicyDocument.model_validate(sent)
    except InvalidInput as error:
        raise refusal(text, error.errors) from None
    except ValidationError as error:
        raise refusal(text, field_errors(error)) from None


def read_policies(text: str) -> tuple[NamedPolicy, ...]:
    """Return the policies in a text of several documents, compiled, in their order.

    Raises a form's `ValidationError`.
    """
    parts = [part for part in _BETWEEN.split(text) if part.strip()]
    if not 0 < len(parts) <= MAX_POLICIES:
        raise FormError(f"Give 1 to {MAX_POLICIES} documents.")
    named = tuple(compile_policy(read_policy(part), revision=None) for part in parts)
    names = Counter(policy.name for policy in named)
    if repeated := [name for name, number in names.items() if number > 1]:
        raise FormError(f"Two documents have the name {repeated[0]}.")
    return named


def refusal(text: str, errors: Mapping[str, Iterable[str]], *, inside: str = "") -> FormError:
    """Return the errors of a text as the path of each field, its line if it exists, and the reason.

    `inside` is the field whose value is the whole text.
    """
    root = _root(text)
    return FormError(
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
