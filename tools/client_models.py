"""Print the SDK's models: the answers of `docs/openapi.yaml` that `client_models.toml` names.

    make schema

A model takes more than the document promises: what is missing or null has a default, and the words
of an enumeration stay text. So an older SDK understands a newer server. Generators that one can
install keep to the document: they make its fields required and its enumerations closed.
"""
# ruff: noqa: INP001, T201  # a script for people

import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
SCHEMAS: Mapping[str, Any] = yaml.load((ROOT / "docs/openapi.yaml").read_bytes(), yaml.CSafeLoader)[
    "components"
]["schemas"]
MODELS = {schema: model for model, row in TABLE.items() for schema in row.get("of", [model])}
"""The SDK's name of each schema that it has a model of."""

TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
EMPTY = {"str": "", "int": 0, "float": 0.0, "bool": False}
HEAD = '''"""The server's answers as typed values. `make schema` writes this file.

`docs/openapi.yaml` says which fields an answer has, `tools/client_models.toml` what stands for one
that is missing. What models can do is in `answers.py`. Times are aware datetimes, durations
seconds. A field with a word, such as a `Status`, is plain text: a newer server may send words that
are not listed here.
"""
# ruff: noqa: N815  # the spelling of the document

from datetime import datetime
from typing import Any

from pydantic import Field

from reprise_client.answers import {bases}
'''


def main() -> None:
    """Print the module, in the format of the house."""
    models = [model(name, **row) for name, row in TABLE.items()]
    bases = {"Answer", *(base for row in TABLE.values() for base in row.get("bases", ()))}
    head = HEAD.format(bases=", ".join(sorted(bases)))
    source = "\n".join([head, *words(), *models])
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(ROOT / "client/reprise_client/models.py")]
    for step in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        done = subprocess.run(
            [*ruff, *step, *name, "-"], input=source, capture_output=True, text=True, check=True
        )
        source = done.stdout
    print(source, end="")


def references(schema: Any) -> Iterator[str]:
    """Return the names of the schemas that a schema refers to."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for part in schema.values():
            yield from references(part)
    if isinstance(schema, list):
        for part in schema:
            yield from references(part)


def fields(schemas: list[str]) -> Iterator[tuple[str, Any]]:
    """Return the fields of schemas, each once, as the first of them has it."""
    seen: set[str] = set()
    for name in schemas:
        for field, schema in SCHEMAS[name]["properties"].items():
            if field not in seen:
                seen.add(field)
                yield field, schema


def words() -> Iterator[str]:
    """Return the enumerations of the models' fields, as text and what it may be."""
    used = {
        found
        for name, row in TABLE.items()
        for _, schema in fields(row.get("of", [name]))
        for found in references(schema)
        if "enum" in SCHEMAS[found]
    }
    for name in sorted(used):
        listed = ", ".join(f"`{word}`" for word in SCHEMAS[name]["enum"])
        yield f"{word_type(name)} = str\n{docstring(f'One of {listed}.', '')}\n"


def word_type(name: str) -> str:
    """Return the SDK's name of an enumeration, which may not be that of a model."""
    return f"{name}Word" if name in TABLE else name


def model(
    name: str,
    of: list[str] | None = None,
    bases: tuple[str, ...] = ("Answer",),
    needs: tuple[str, ...] = (),
    defaults: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
) -> str:
    """Return the class of one row of the table."""
    schemas = of or [name]
    lines = [f"class {name}({', '.join(bases)}):", docstring(described(schemas)), ""]
    for field, schema in fields(schemas):
        kind = (types or {}).get(field) or annotation(schema)
        default_text = "" if field in needs else default(kind, (defaults or {}).get(field))
        if default_text != " = None":
            kind = kind.removesuffix(" | None")
        elif kind != "Any" and not kind.endswith("None"):
            kind += " | None"
        lines.append(f"    {named(field, kind, default_text)}")
    return "\n".join(lines) + "\n\n"


def named(field: str, kind: str, default_text: str) -> str:
    """Return a field, with a `_` behind its name if that is a word of Python."""
    if not iskeyword(field):
        return f"{field}: {kind}{default_text}"
    return f"{field}_: {kind} = Field({default_text.removeprefix(' = ')}, alias={field!r})"


def annotation(schema: Mapping[str, Any]) -> str:
    """Return the type of what a schema describes; what the SDK has no model of stays JSON."""
    match schema:
        case {"$ref": path}:
            name = path.rpartition("/")[2]
            known = word_type(name) if "enum" in SCHEMAS[name] else MODELS.get(name)
            return known or "dict[str, Any]"
        case {"anyOf": choices}:
            return " | ".join(annotation(each) for each in choices)
        case {"type": "array", "items": items}:
            return f"list[{annotation(items)}]"
        case {"type": "object", "additionalProperties": {**values}}:
            return f"dict[str, {annotation(values)}]"
        case {"format": "date-time"}:
            return "datetime"
    return TYPES.get(schema.get("type", ""), "Any")


def default(kind: str, wanted: Any) -> str:
    """Return what a field is if the server does not send it, as source."""
    factory = kind.removesuffix(" | None").partition("[")[0]
    if wanted is None and (kind.endswith("None") or kind in {"datetime", "Any"}):
        return " = None"
    if factory in {"list", "dict"} or factory in TABLE:
        return f" = Field(default_factory={factory})"
    return f" = {EMPTY.get(kind, '') if wanted is None else wanted!r}"


def described(schemas: list[str]) -> str:
    """Return what the document says of schemas: of the first, and of what others add to it."""
    texts = []
    seen: set[str] = set()
    for name in schemas:
        added = [field for field in SCHEMAS[name]["properties"] if field not in seen]
        seen.update(added)
        text = SCHEMAS[name].get("description", "")
        if texts:
            text = f"With {', '.join(f'`{field}`' for field in added)}: {text}"
        if added:
            texts.append(text)
    return "\n\n".join(texts)


def docstring(text: str, indent: str = "    ") -> str:
    """Return a text as a docstring."""
    wrap = textwrap.TextWrapper(
        width=100 if "\n\n" in text or len(text) > 100 else 97,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    parts = [" ".join(part.split()) for part in f'"""{text}'.split("\n\n")]
    whole = "\n\n".join("\n".join(wrap.wrap(part)) for part in parts)
    several = "\n" in whole or len(whole) > 97
    return f'{whole}\n{indent}"""' if several else f'{whole}"""'


if __name__ == "__main__":
    main()
