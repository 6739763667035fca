"""Bodies that are JSON or YAML documents. They are read more strictly than others.

A repeated key is refused, because one of its values would be lost silently. YAML may only express
what JSON can. Its numbers are those of YAML 1.2: PyYAML's own are of YAML 1.1, where `012` is 10
and `1:30` is 90.
"""

import json
import re
from collections.abc import Hashable
from typing import Any

import yaml
from rest_framework.renderers import JSONRenderer

from interfaces.http.parsing import (
    BODY,
    MAX_DEPTH,
    StrictJSONParser,
    checked,
    load_object,
    once,
)
from sessions_app.core.errors import InvalidInput

MEDIA_TYPE = "application/yaml"
MAX_VALUES = 100_000
"""Most values in a document when its aliases are expanded."""
MAX_ANCHORS = 1000
MAX_DIGITS = 100


class JSONDocumentParser(StrictJSONParser):
    """Parses a JSON object without repeated keys."""

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the checked content of the body."""
        return checked(load_object(body, object_pairs_hook=once))


class YAMLDocumentParser(StrictJSONParser):
    """Parses one YAML mapping. It refuses non-JSON values, repeated keys and alias bombs.

    Raises the same errors as `StrictJSONParser`.
    """

    media_type = MEDIA_TYPE

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the checked content of the body."""
        return parse_yaml(body)


def parse_yaml(body: bytes) -> dict[str, Any]:
    """Return the mapping in `body`; empty for an empty body. Raises `InvalidInput`."""
    value = yaml_value(body)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _refused("must be a YAML mapping")
    return checked(value)


def yaml_value(body: bytes) -> Any:
    """Return the unchecked value in `body`; None if it is empty. Raises `InvalidInput`."""
    try:
        _Measure().check(body)
        # This is a safe loader: it creates plain values only.
        return yaml.load(body, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        raise _refused(f"is not valid YAML: {_yaml_fault(error)}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _refused(f"is not valid YAML: {error}") from None


def _refused(why: str) -> InvalidInput:
    return InvalidInput({BODY: [why]})


def _yaml_fault(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return f"{error.problem or error.context}{place}"


class _Loader(yaml.CSafeLoader):
    """Refuses repeated keys and keys that are no text. Dates stay text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEYS:
                raise yaml.MarkedYAMLError(None, None, "a key must be text", key.start_mark)
            if key.value in seen:
                problem = f"the key {key.value[:100]!r} is repeated"
                raise yaml.MarkedYAMLError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Read an integer of limited length, as hexadecimal ones could have millions of digits."""
        if len(node.value) > MAX_DIGITS:
            raise yaml.MarkedYAMLError(None, None, "the number is too long", node.start_mark)
        return _whole(node.value)


def _whole(text: str) -> int:
    """Return the value of an integer: decimal, also after zeros, or `0o17` or `0x1f`."""
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


_TEXT = "tag:yaml.org,2002:str"
_KEYS = {_TEXT, "tag:yaml.org,2002:merge"}
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_NOT_READ = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value", _INT, _FLOAT}
_Loader.add_constructor(_INT, _Loader.construct_yaml_int)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in known if tag not in _NOT_READ]
    for first, known in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class Dumper(yaml.CSafeDumper):
    """Quotes text that `parse_yaml` would read as another type."""


# The numbers of YAML 1.2. The dumper also quotes those of YAML 1.1, for readers of that.
_NUMBERS = {
    _INT: re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    _FLOAT: re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
for _kind in (_Loader, Dumper):
    for _tag, _form in _NUMBERS.items():
        _kind.add_implicit_resolver(_tag, _form, list("-+.0123456789"))


class _Measure:
    """Counts the values of a document with its aliases expanded, before anything is built."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        # For each open collection: its anchor, and the number of values in it so far.
        self._open: list[tuple[str | None, int]] = [(None, 0)]

    def check(self, body: bytes) -> None:
        """Raise `YAMLError` if the document is too deep or too large, or has tags."""
        for event in yaml.parse(body, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                self._add(self._sizes.get(event.anchor or ""), event)
            elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
                self._start(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, size = self._open.pop()
                self._name(anchor, size)
                self._add(size, event)

    def _start(self, event: Any) -> None:
        if event.tag is not None:
            raise _problem("tags are not allowed", event)
        if len(self._sizes) > MAX_ANCHORS:
            raise _problem(f"it has more than {MAX_ANCHORS} anchors", event)
        if isinstance(event, yaml.ScalarEvent):
            self._name(event.anchor, 1)
            self._add(1, event)
            return
        # An alias inside of its own anchor refers to something whose size is unknown.
        self._sizes.pop(event.anchor, None)
        self._open.append((event.anchor, 1))
        if len(self._open) > MAX_DEPTH + 1:
            raise _problem(f"is nested deeper than {MAX_DEPTH} levels", event)

    def _name(self, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._sizes[anchor] = size

    def _add(self, size: int | None, event: Any) -> None:
        if size is None:
            raise _problem("an alias needs an anchor that ended before it", event)
        anchor, before = self._open[-1]
        if before + size > MAX_VALUES:
            raise _problem(f"it comes to more than {MAX_VALUES} values", event)
        self._open[-1] = (anchor, before + size)


def _problem(text: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, text, event.start_mark)


class YAMLRenderer(JSONRenderer):
    """Renders as YAML what would otherwise be JSON."""

    media_type = MEDIA_TYPE
    format = "yaml"
    charset = "utf-8"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """Render the data."""
        text = super().render(data, *args, **kwargs)
        value = json.loads(text) if text else None
        return yaml.dump(
            value, Dumper=Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8"
        )
