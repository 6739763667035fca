"""Documents as text: input of `apply -f`, with the place of every fault, and output of `get`.

A repeated key is refused, because one of its values would be lost silently. What JSON cannot
express is refused, too.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.unseen import has_unseen

SUFFIXES = (".yaml", ".yml", ".json")
STDIN, STDIN_WORDS = "-", "standard input"


@dataclass(frozen=True)
class Document:
    """One document of a file. `number` counts from 1."""

    source: str
    number: int
    data: dict[str, Any]
    node: yaml.Node | None = field(default=None, repr=False, compare=False)

    def fault(self, path: str, message: str) -> str:
        """Return a fault with its place: file, document, line and field."""
        line = _line_of(self.node, path)
        parts = [self.source, f"document {self.number}", line and f"line {line}", path]
        return f"{', '.join(str(part) for part in parts if part)}: {message}"


def read_documents(sources: Iterable[str]) -> list[Document]:
    """Return the documents of files, of directories (sorted, not recursive) and of `-`, in order.

    Raises `CommandError` for what cannot be read, and if there is no document at all.
    """
    named = list(sources)
    found = [document for source in named for document in _read(source)]
    if not found:
        where = ", ".join(STDIN_WORDS if source == STDIN else source for source in named)
        raise CommandError(f"there is no document in {where}", USAGE)
    return found


def _read(source: str) -> Iterator[Document]:
    try:
        if source == STDIN:
            yield from _parse(STDIN_WORDS, sys.stdin.read())
            return
        path = Path(source)
        for file in _files(path) if path.is_dir() else [path]:
            yield from _parse(str(file), file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(f"cannot read {source}: {why}", USAGE) from error


def _files(directory: Path) -> list[Path]:
    found = [each for each in directory.iterdir() if each.suffix in SUFFIXES and each.is_file()]
    return sorted(found)


def _parse(source: str, text: str) -> Iterator[Document]:
    try:
        values = list(_values(text))
        json.dumps([value for value, _ in values], allow_nan=False)
    except yaml.MarkedYAMLError as error:
        raise CommandError(f"{source}: {_yaml_fault(error)}", USAGE) from error
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise CommandError(f"{source} is neither YAML nor JSON: {why}", USAGE) from error
    for number, (value, node) in enumerate(values, 1):
        if not isinstance(value, dict):
            place = Document(source, number, {}, node).fault("", _FORM)
            raise CommandError(place, USAGE)
        yield Document(source, number, value, node)


_FORM = "must be a mapping with apiVersion, kind, metadata and spec"
_Found = tuple[Any, yaml.Node | None]


def _values(text: str) -> Iterator[_Found]:
    """Yield each document; a list counts as several documents."""
    for value, node in _json(text) or _yaml(text):
        if isinstance(value, list):
            nodes = node.value if isinstance(node, yaml.SequenceNode) else [None] * len(value)
            yield from zip(value, nodes, strict=True)
        elif value is not None:  # it may be None: an empty document between two separators
            yield value, node


def _json(text: str) -> list[_Found]:
    """Return the value of a JSON text.

    It is not parsed as YAML, which reads some of JSON's numbers and characters differently.
    """
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        return [(json.loads(text, object_pairs_hook=_once), None)]
    except json.JSONDecodeError:
        return []  # YAML may be written with braces, too


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {repeated!r} is repeated")
    return found


def _yaml(text: str) -> Iterator[_Found]:
    loader = StrictLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield loader.construct_document(node), node
    finally:
        loader.dispose()


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_NOT_READ = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value", _INT, _FLOAT}


class StrictLoader(yaml.SafeLoader):
    """Loads YAML with the types of JSON: dates stay text. Keys must be text and unique.

    Numbers are those of YAML 1.2: PyYAML's own are of YAML 1.1, where `012` is 10 and `1:30` is 90.
    """

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in known if tag not in _NOT_READ]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEYS:
                raise yaml.MarkedYAMLError(None, None, "a key must be text", key.start_mark)
            if key.value in seen:
                problem = f"the key {key.value!r} is repeated"
                raise yaml.MarkedYAMLError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Read an integer: decimal, also after zeros, or `0o17` or `0x1f`."""
        text = node.value
        return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


StrictLoader.add_constructor(_INT, StrictLoader.construct_yaml_int)
_KEYS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}


class _Dumper(yaml.SafeDumper):
    """Dumps YAML and quotes text that `StrictLoader` would read as another type."""

    def represent_text(self, text: str) -> yaml.Node:
        """Write multi-line text as a block. Escape Unicode line ends, which PyYAML would change."""
        style = '"' if _LINE_ENDS.search(text) else "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_Dumper.add_representer(str, _Dumper.represent_text)

# The numbers of YAML 1.2. The dumper also quotes those of YAML 1.1, for readers of that.
_NUMBERS = {
    _INT: re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    _FLOAT: re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
for _kind in (StrictLoader, _Dumper):
    for _tag, _form in _NUMBERS.items():
        _kind.add_implicit_resolver(_tag, _form, list("-+.0123456789"))


def write_documents(documents: Iterable[Any]) -> str:
    """Return the documents as YAML that parses back to the same values."""
    found = list(documents)
    text: str = yaml.dump_all(found, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if not has_unseen(text):
        return text
    # With escapes for what nobody sees, and for all else that is not ASCII.
    escaped: str = yaml.dump_all(found, Dumper=_Dumper, sort_keys=False, allow_unicode=False)
    return escaped


def _yaml_fault(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}{error.problem or error.context}"


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def _line_of(node: yaml.Node | None, path: str) -> int | None:
    """Return the line of a field such as `spec.rules[2].action`, or of its closest existing
    parent."""
    if node is None:
        return None
    mark = node.start_mark
    for name, position in _STEP.findall(path):
        if name and isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == name), None)
            if pair is None:
                break
            mark, node = pair[0].start_mark, pair[1]
        elif position and isinstance(node, yaml.SequenceNode) and int(position) < len(node.value):
            node = node.value[int(position)]
            mark = node.start_mark
        else:
            break
    return int(mark.line) + 1
