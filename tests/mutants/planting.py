"""Planting a bug in a copy of the tree: a snippet of one named function or constant is replaced.

A place is named `module:name`, such as `retry.engine.decide:decide`, a method with its class before
it. The snippet has to occur there exactly once; how its words are spaced and wrapped does not
matter. So what moves about in a file, and how it is formatted, changes nothing.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path


class NotApplicable(Exception):
    """The place or the snippet is not there any more."""


@dataclass(frozen=True)
class Edit:
    """In the place `where` the snippet `old` becomes `new`."""

    where: str
    old: str
    new: str

    @property
    def module(self) -> str:
        """Its dotted name."""
        return self.where.partition(":")[0]

    def path(self, tree: Path) -> Path:
        """The module's file below a tree."""
        return tree.joinpath(*self.module.split(".")).with_suffix(".py")

    def applied(self, source: str) -> str:
        """The module's source with the edit; raises `NotApplicable`."""
        first, last = _lines_of(source, self.where)
        lines = source.splitlines(keepends=True)
        before, place, after = lines[:first], "".join(lines[first:last]), lines[last:]
        found = list(re.finditer(_pattern(self.old), place))
        if len(found) != 1:
            raise NotApplicable(f"{self.where} has {len(found)} times: {self.old}")
        start, end = found[0].span()
        changed = "".join([*before, place[:start], self.new, place[end:], *after])
        try:
            compile(changed, self.where, "exec")
        except SyntaxError as error:
            raise NotApplicable(f"{self.where} is no Python with: {self.new}") from error
        return changed


def plant(tree: Path, edits: tuple[Edit, ...]) -> None:
    """Write the edits into a tree; raises `NotApplicable`."""
    for edit in edits:
        path = edit.path(tree)
        if not path.is_file():
            raise NotApplicable(f"there is no module {edit.module}")
        path.write_text(edit.applied(path.read_text()))


def _pattern(snippet: str) -> str:
    return r"\s+".join(map(re.escape, snippet.split()))


def _lines_of(source: str, where: str) -> tuple[int, int]:
    """The first and the last line of a place, as a slice."""
    _, _, qualified = where.partition(":")
    found: ast.AST = ast.parse(source)
    for name in qualified.split("."):
        inside = [each for each in ast.iter_child_nodes(found) if name in _names(each)]
        if len(inside) != 1:
            raise NotApplicable(f"{where} is there {len(inside)} times")
        (found,) = inside
    assert isinstance(found, ast.stmt)
    return found.lineno - 1, found.end_lineno or found.lineno


def _names(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()
