"""Write what follows from the server's declarations and stands elsewhere, too.

    python tools/write_tables.py           # write
    python tools/write_tables.py --check   # print what is out of date, and fail if anything is

The client must not import the server: it gets copies. `make schema` runs this, and `make lint` the
check.
"""
# ruff: noqa: INP001, T201  # a script for people, of ruff alone

import argparse
import difflib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

from retry.engine.reasons import EXHAUSTED, REASONS, RETRIED, Reason
from retry.policies.inline import FIELDS, InlinePolicy
from retry.policies.limits import UNLIMITED
from retry.policies.meaning import SECONDS, PolicyField

ROOT = Path(__file__).resolve().parents[1]
CLIENT = "client/reprise_client"
PAGE = "docs/retries.md"
HEAD = "| field of `retry_policy` | default | allowed | meaning |"


def reasons(_old: str) -> str:
    """Return the reasons of decisions as the command tells them."""
    granted = [each for each in REASONS.values() if each.state == RETRIED]
    refused = [each for each in REASONS.values() if each.state != RETRIED]
    spent = [each.name for each in refused if each.state == EXHAUSTED]
    return _python(
        f'''"""Why a session is retried, or is not: each reason of a decision as a clause.

Written by `make schema` after retry/engine/reasons.py.
"""

RETRY_REASONS = {_clauses(granted)}
REFUSALS = {_clauses(refused)}
SPENT = frozenset({spent})
"""The refusals that come after retries."""
'''
    )


def _clauses(reasons: Iterable[Reason]) -> str:
    lines = (f"    {each.name!r}: {each.clause!r},\n" for each in reasons)
    return f"{{\n{''.join(lines)}}}"


def policy_fields(_old: str) -> str:
    """Return the fields of the inline policy as the SDK and the command know them."""
    fields = "".join(_client_field(each) for each in FIELDS.values())
    options = "".join(_client_option(each) for each in FIELDS.values())
    return _python(
        f'''"""The fields of the inline retry policy, and the command's option for each.

Written by `make schema` after retry/policies/inline.py.
"""

from typing import Literal

from pydantic import BaseModel, Field


# The command reads the fields at each start, and never needs what would check them.
class RetryPolicyFields(BaseModel, defer_build=True):
    """What a retry policy may say; the server checks the values."""

{fields}


OPTIONS: dict[str, tuple[str, str | None]] = {{
{options}
}}
"""By field: the option without its dashes, and what stands for its value in a help text."""
'''
    )


def _client_field(field: PolicyField) -> str:
    kind = field.kind.__name__
    if issubclass(field.kind, StrEnum):
        # The list of causes grows with the server; the client passes on what it does not know.
        values = ", ".join(repr(str(each)) for each in field.kind)
        kind = "str" if field.many else f"Literal[{values}]"
    kind = f"tuple[{kind}, ...]" if field.many else kind
    kind += f" | Literal[{UNLIMITED!r}]" if field.unlimited else ""
    kind += " | None" if field.nullable else ""
    default = InlinePolicy().model_dump(mode="json")[field.name]
    shown = tuple(default) if field.many else default
    return f"    {field.name}: {kind} = Field({shown!r}, description={_sentence(field)!r})\n"


def _client_option(field: PolicyField) -> str:
    option = field.meaning.option or (field.name.removesuffix("s") if field.many else field.name)
    metavar = "SECONDS" if field.meaning.unit == SECONDS else None
    if field.many:
        metavar = field.name.removesuffix("s").rpartition("_")[2].upper()
    elif field.unlimited:
        metavar = f"N|{UNLIMITED}"
    elif issubclass(field.kind, StrEnum):
        metavar = "|".join(field.kind)
    return f"    {field.name!r}: ({option.replace('_', '-')!r}, {metavar!r}),\n"


def _sentence(field: PolicyField) -> str:
    meaning = field.meaning
    text = meaning.text[0].upper() + meaning.text[1:]
    unit = f", in {meaning.unit}" if meaning.unit else ""
    return f"{text}{unit}."


def retries_page(old: str) -> str:
    """Return the page on retries with the table of fields in the place of the one it has."""
    before, head, rest = old.partition(HEAD + "\n")
    after = rest[rest.index("\n\n") :]
    rows = [_row(each) for each in FIELDS.values()]
    return before + head + "\n".join(["| --- | --- | --- | --- |", *rows]) + after


def _row(field: PolicyField) -> str:
    default = InlinePolicy().model_dump(mode="json")[field.name]
    if field.many:
        shown = "all of these" if default else "empty"
    else:
        shown = f"`{json.dumps(default).removesuffix('.0').strip(chr(34))}`"
    meaning = field.meaning
    empty = f"; {'empty' if field.many else 'null'}: {meaning.empty}" if meaning.empty else ""
    allowed = _allowed(InlinePolicy.model_json_schema()["properties"][field.name])
    allowed += f", {meaning.unit}" if meaning.unit else ""
    return f"| `{field.name}` | {shown} | {allowed} | {meaning.text}{empty} |"


def _allowed(schema: dict[str, Any]) -> str:
    """Return what JSON Schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(_allowed(each) for each in schema["anyOf"])
    if "$ref" in schema:
        schema = InlinePolicy.model_json_schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        kind = "" if "enum" in schema["items"] else "numbers, "
        return f"list of {kind}{_allowed(schema['items'])}"
    if schema["type"] in {"integer", "number"}:
        return _range(schema)
    return {"null": "null", "boolean": "`true`, `false`", "string": "text"}[schema["type"]]


def _range(schema: dict[str, Any]) -> str:
    if "exclusiveMinimum" in schema:
        return f"more than {schema['exclusiveMinimum']:,}"
    return f"{schema['minimum']:,} to {schema['maximum']:,}"


def _python(text: str) -> str:
    """Return a module as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "written.py", "-"]
    done = subprocess.run(ruff, input=text, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


WRITTEN: dict[str, Callable[[str], str]] = {
    f"{CLIENT}/cli/reasons.py": reasons,
    f"{CLIENT}/retry_policy_fields.py": policy_fields,
    PAGE: retries_page,
}
"""Each file with what makes its text out of the one that it has."""


def main() -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = False
    for name, made in WRITTEN.items():
        path = ROOT / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = made(old)
        if old == new:
            continue
        if check:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, lineterm="")
            print(*lines, sep="\n")
            stale = True
        else:
            path.write_text(new, encoding="utf-8")
    if stale:
        print("Declarations changed: run 'make schema' and commit the files above")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
