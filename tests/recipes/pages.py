"""The recipes as CONTRIBUTING.md has them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tests.prepared import ROOT


class Line(NamedTuple):
    """One bullet of a recipe; `written` is what `make schema` does."""

    path: str
    written: bool


def recipes() -> Mapping[str, list[Line]]:
    """Return the lines of each recipe by its title."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### Recipe: ([^\n]+)\n(.*?)(?=^##)", page, re.MULTILINE | re.DOTALL)
    return {title: _lines(text) for title, text in sections}


def _lines(text: str) -> list[Line]:
    bullets = re.findall(r"^\* `([^`]+)`(.*(?:\n  .*)*)", text, re.MULTILINE)
    return [Line(path, rest == " (written)") for path, rest in bullets]
