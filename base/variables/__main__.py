"""Prints a page with tables of the variables that some modules declare.

`python -m variables MODULE...`
"""

import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

from base.variables.kinds import YES
from base.variables.reading import Variable, declared

INTRODUCTION = f"""# Settings

Each process reads its settings from its environment when it starts. If a value is not allowed, the
process says so in a line that names the variable, and does not start. An empty value counts as
absent, except in `DATABASE_URL` and `BROKER_URL`, which must not be empty. For a flag,
{", ".join(YES)} mean yes.

This page is written by `make schema`, from the declarations.
"""


def text_of(value: object) -> str:
    """Return a default as one would write it in the environment."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return ",".join(map(text_of, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def page(modules: list[str]) -> str:
    """Return the whole page."""
    sections = [_section(each) for name in modules for each in _declarations(name)]
    return "\n".join([INTRODUCTION, *sections])


def _declarations(module: str) -> Iterator[type[Any]]:
    """Yield the dataclasses of a module that declare variables themselves, in their order."""
    for each in vars(import_module(module)).values():
        ours = isinstance(each, type) and is_dataclass(each) and each.__module__ == module
        if ours and "__annotations__" in vars(each):
            yield each


def _section(declarations: type[Any]) -> str:
    title, _, text = (declarations.__doc__ or "").partition("\n")
    head = f"## {title.rstrip('.')}\n\n"
    if text.strip():
        head += " ".join(text.split()) + "\n\n"
    rows = [_row(each) for each in declared(declarations)]
    return (
        head
        + "| variable | default | allowed | meaning |\n| --- | --- | --- | --- |\n"
        + "".join(rows)
    )


def _row(each: Variable) -> str:
    default = text_of(each.default)
    shown = each.absent or (f"`{default}`" if default else "")
    return f"| `{each.name}` | {shown} | {each.kind.allowed} | {each.meaning} |\n"


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1:]))
