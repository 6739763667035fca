"""Move modules as `moves.toml` tells: files, imports, dotted names, and paths in texts.

    .venv/bin/python tools/move_modules.py           # move everything; the tree has to be clean
    .venv/bin/python tools/move_modules.py --names   # only rewrite imports of names that moved
    .venv/bin/python tools/move_modules.py --check   # only look for old names that are left

Run it on a tree in the old layout: it does the whole of the move. What `moves.toml` does not name
stays where it is, and is listed if it stands on a floor that was cleared. At the end it looks for
old names that are left, and fails if there are any.
"""
# ruff: noqa: INP001, T201, S607  # a script for people, of git and ruff alone

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads(Path(__file__).with_name("moves.toml").read_text())
PACKAGES = ("reprise", "scheduler", "sessions_app", "retry", "executor")
UNREAD = (
    *("tools/", "tests/fixtures/", "sessions_app/static/"),
    *("docs/openapi.yaml", "docs/schema.graphql"),
)
"""Texts that name no module: this table, recordings, what is bought in, what is generated."""
TEXTS = {".md", ".toml", ".yaml", ".yml", ".html", ".sql", ".txt", ".sh", ".cfg", ".example", ""}

WIDTH = 100
"""Of a line."""

Edit = tuple[int, int, str]
"""From one character of a source to another, and what comes there instead."""


def dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def tracked() -> list[str]:
    return [path for path in git("ls-files").splitlines() if (ROOT / path).is_file()]


@dataclass
class Layout:
    """Where each module goes: by its path and by its dotted name."""

    paths: dict[str, str]
    names: dict[tuple[str, str], str]
    """Names that left their module: (old module, name) -> new module."""
    files: frozenset[str]
    """All files as they were before."""
    doubts: list[str] = field(default_factory=list)

    @cached_property
    def modules(self) -> dict[str, str]:
        return {dotted(old): dotted(new) for old, new in self.paths.items()}

    @cached_property
    def folders(self) -> dict[str, str]:
        """Folders that moved as a whole."""
        return {
            str(Path(old).parent): str(Path(new).parent)
            for old, new in self.paths.items()
            if old.endswith("/__init__.py")
        }

    def module_of(self, module: str, name: str) -> str:
        """Return the new module of a name of an old module."""
        there = self.names.get((module, name), module)
        return self.modules.get(there, there)

    @cached_property
    def _dotted(self) -> re.Pattern[str]:
        either = "|".join(re.escape(each) for each in sorted(self.modules, key=len, reverse=True))
        return re.compile(rf"(?<![\w./{{-])({either})(?![\w/-]|\.py\b)(?:([.:])([A-Za-z_]\w*))?")

    @cached_property
    def _left(self) -> re.Pattern[str] | None:
        olds = {old for old, _ in self.names} - set(self.modules)
        if not olds:
            return None
        either = "|".join(re.escape(each) for each in sorted(olds, key=len, reverse=True))
        return re.compile(rf"(?<![\w./-])({either})([.:])([A-Za-z_]\w*)")

    _PATH = re.compile(r"(?<![\w.\-/])((?:\.{1,2}/)*)((?:[A-Za-z_][\w-]*/)*[A-Za-z_]\w*\.py)\b")

    def told(self, text: str, where: str) -> str:
        """Return a text with the names and paths of modules as they are now."""

        def name_of(found: re.Match[str]) -> str:
            old, mark, name = found.groups()
            if mark is None:
                return self.modules[old]
            return f"{self.module_of(old, name)}{mark}{name}"

        def name_left(found: re.Match[str]) -> str:
            old, mark, name = found.groups()
            return f"{self.module_of(old, name)}{mark}{name}"

        def path_of(found: re.Match[str]) -> str:
            up, path = found.groups()
            quoted = text[found.start() - 1 : found.start()] == "`"
            return up + self._path(path, where, quoted=quoted)

        if self.modules:
            text = self._dotted.sub(name_of, text)
            text = self.IMPORT.sub(self._imported, text)
            for old, new in self.folders.items():
                text = re.sub(rf"(?<![\w-]){re.escape(old)}/", f"{new}/", text)
            text = self._PATH.sub(path_of, text)
        if self._left is not None:
            text = self._left.sub(name_left, text)
        return text

    IMPORT = re.compile(r"\bfrom ([a-z_][\w.]*) import (\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)")

    def _imported(self, found: re.Match[str]) -> str:
        """Rewrite an import of modules that stands in a text, such as of code to be run."""
        base, names = found.groups()
        wanted: dict[str, list[str]] = defaultdict(list)
        for each in names.split(", "):
            name, _, local = each.partition(" as ")
            new = self.modules.get(f"{base}.{name}")
            if new is None:
                wanted[base].append(each)
                continue
            package, _, stem = new.rpartition(".")
            local = local or name
            wanted[package].append(stem if stem == local else f"{stem} as {local}")
        if wanted.keys() == {base}:
            return found[0]
        return "; ".join(f"from {module} import {', '.join(n)}" for module, n in wanted.items())

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for path in self.files:
            if path.endswith(".py"):
                found[path.rpartition("/")[2]].append(path)
        return found

    def _path(self, path: str, where: str, *, quoted: bool) -> str:
        if path in self.paths:
            return self.paths[path]
        name = path.rpartition("/")[2]
        if path in self.files or name == "__init__.py":
            return path
        mates = [p for p in self._by_name.get(name, ()) if p.endswith(f"/{path}")]
        beside = str(Path(where).parent / path)
        if beside in self.paths and not where.startswith(("tests/", "docs/")):
            mates = [beside]
        moved = [self.paths[each] for each in mates if each in self.paths]
        if "/" in path:
            if len(moved) == len(mates) == 1:
                return moved[0]
        elif quoted and len(moved) == len(mates) == 1:
            return moved[0].rpartition("/")[2]
        if moved and (quoted or "/" in path):
            self.doubts.append(f"{where}: {path} may be any of {', '.join(sorted(mates))}")
        return path


@dataclass
class Source:
    """One Python file on its way."""

    text: str
    path: str
    layout: Layout

    def __post_init__(self) -> None:
        self._starts = [0]
        for line in self.text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = self.text.splitlines(keepends=True)
        self._tree = ast.parse(self.text)

    def moved(self) -> str:
        """Return the file with the imports and names of the new layout."""
        edits: list[Edit] = []
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                edits += self._import_from(node)
            elif isinstance(node, ast.Import):
                edits += self._import(node)
        edits += self._words()
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _at(self, line: int, column: int) -> int:
        """Turn the place that `ast` gives, which counts bytes, into one in the text."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: PT018, S101
        return (
            self._at(node.lineno, node.col_offset),
            self._at(node.end_lineno, node.end_col_offset),
        )

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Edit]:
        base = node.module or ""
        wanted: dict[str, list[str]] = defaultdict(list)
        changed = False
        for each in node.names:
            whole = f"{base}.{each.name}"
            if whole in self.layout.modules:
                changed = True
                package, _, stem = self.layout.modules[whole].rpartition(".")
                local = each.asname or each.name
                better = stem if each.asname is None else TABLE["aliases"].get(local, local)
                if better != local and self._can_rename(local, better):
                    yield from self._renamed(local, better)
                    local = better
                wanted[package].append(stem if stem == local else f"{stem} as {local}")
            else:
                module = self.layout.module_of(base, each.name)
                changed = changed or module != base
                wanted[module].append(f"{each.name} as {each.asname}" if each.asname else each.name)
        if not changed:
            return
        start, end = self._span(node)
        if "#" in self.text[start:end]:
            self.layout.doubts.append(f"{self.path}:{node.lineno}: a comment inside is lost")
        rest = self.text[end : self.text.find("\n", end)]
        comment = rest if rest.strip().startswith("#") else ""
        lines = [f"from {module} import {', '.join(names)}" for module, names in wanted.items()]
        yield start, end, f"{comment}\n{' ' * node.col_offset}".join(lines)

    def _import(self, node: ast.Import) -> Iterator[Edit]:
        names = [each.name for each in node.names]
        if not any(name in self.layout.modules for name in names):
            return
        told = [
            self.layout.modules.get(each.name, each.name)
            + (f" as {each.asname}" if each.asname else "")
            for each in node.names
        ]
        yield (*self._span(node), f"import {', '.join(told)}")
        plain = {each.name for each in node.names if each.asname is None}
        for use in ast.walk(self._tree):
            if isinstance(use, ast.Attribute) and ast.unparse(use) in plain & set(
                self.layout.modules
            ):
                yield (*self._span(use), self.layout.modules[ast.unparse(use)])

    @cached_property
    def _identifiers(self) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
        return found

    def _can_rename(self, old: str, new: str) -> bool:
        """Return whether a module may go by its new name in this file, and should."""
        if new in self._identifiers or new in TABLE["plain_words"]:
            return False
        bound = 0
        for node in ast.walk(self._tree):
            if isinstance(node, ast.JoinedStr):
                # Python 3.11 does not tell where in an f-string a name stands.
                if any(isinstance(n, ast.Name) and n.id == old for n in ast.walk(node)):
                    return False
            elif isinstance(node, ast.Name) and node.id == old:
                if not isinstance(node.ctx, ast.Load):
                    return False
            elif isinstance(node, ast.arg) and node.arg == old:
                return False
            elif isinstance(node, ast.alias) and (node.asname or node.name) == old:
                bound += 1
        return bound == 1

    def _renamed(self, old: str, new: str) -> Iterator[Edit]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id == old:
                yield (*self._span(node), new)

    def _words(self) -> Iterator[Edit]:
        """Strings and comments, which name modules, too."""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type in {tokenize.STRING, tokenize.COMMENT}:
                told = self.layout.told(token.string, self.path)
                if told != token.string:
                    start = self._starts[token.start[0] - 1] + token.start[1]
                    yield start, start + len(token.string), told


def layout_now() -> Layout:
    files = frozenset(tracked())
    paths = {old: new for old, new in TABLE["moves"].items() if old in files}
    both = [f"{old} and {new}" for old, new in paths.items() if new in files]
    if both:
        sys.exit(f"these are both there, and one is to become the other: {'; '.join(both)}")
    names = {
        (module, name): new
        for key, new in TABLE["names"].items()
        for module, name in [key.split(":")]
    }
    return Layout(paths, names, files)


def read_by_us(path: str) -> bool:
    if path.startswith(UNREAD) or path.endswith(".lock"):
        return False
    return path.endswith(".py") or Path(path).suffix in TEXTS


def rewrite(layout: Layout) -> None:
    """Write each file anew with the names of the new layout; none has moved yet."""
    for path in sorted(layout.files):
        if not read_by_us(path):
            continue
        text = (ROOT / path).read_text()
        if path.endswith(".py"):
            told = Source(text, path, layout).moved()
        else:
            told = layout.told(text, path)
        if told != text:
            (ROOT / path).write_text(told)


def move(layout: Layout) -> None:
    for old, new in layout.paths.items():
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        # A module and the folder of its name are never there at once: nothing is imported here.
        git("mv", old, new)
    for folder in {str(Path(new).parent) for new in layout.paths.values()} | set(TABLE["folders"]):
        face = ROOT / folder / "__init__.py"
        says = TABLE["folders"].get(folder)
        if face.exists() and face.read_text().strip():
            continue
        if says is None:
            sys.exit(f"moves.toml does not say what belongs in {folder}")
        face.parent.mkdir(parents=True, exist_ok=True)
        face.write_text(f'"""{says}"""\n')
    # Folders that are empty now would still be taken for packages.
    for old in layout.paths:
        left = (ROOT / old).parent
        if left.is_dir() and not any(each.name != "__pycache__" for each in left.iterdir()):
            subprocess.run(["rm", "-r", str(left)], check=True)
    git("add", "--all")


def in_style() -> None:
    ruff = str(Path(sys.executable).with_name("ruff"))
    subprocess.run([ruff, "check", "--quiet", "--select", "I", "--fix", "."], cwd=ROOT, check=True)
    subprocess.run([ruff, "format", "--quiet", "."], cwd=ROOT, check=True)
    wrap()
    git("add", "--all")


def wrap() -> None:
    """Wrap the lines of prose that longer names have made too long."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    words = [ruff, "check", "--select", "E501", "--output-format", "json", "."]
    told = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True).stdout
    long: dict[Path, list[int]] = defaultdict(list)
    for each in json.loads(told):
        long[Path(each["filename"])].append(each["location"]["row"] - 1)
    for path in tracked():
        if path.endswith(".md"):
            known = set(git("show", f"HEAD:{path}").splitlines())
            lines = (ROOT / path).read_text().splitlines()
            long[ROOT / path] = [
                at
                for at, line in enumerate(lines)
                if len(line) > WIDTH and line not in known and not line.startswith("|")
            ]
    for place, rows in long.items():
        lines = place.read_text().splitlines()
        # From the end, so that the rows before stay where they are.
        for row in reversed(rows):
            fold(lines, row)
        if rows:
            place.write_text("\n".join(lines) + "\n")


def fold(lines: list[str], at: int) -> None:
    """Give the words that are too many in one line to the next one of its paragraph."""
    while len(line := lines[at]) > WIDTH:
        start = re.match(r"\s*(?:# |[*-] |\d+\. )?", line)
        lead = start[0] if start else ""
        cut = line.rfind(" ", len(lead), WIDTH + 1)
        if cut <= len(lead):
            return
        lines[at], rest = line[:cut], line[cut + 1 :]
        lead = lead if "#" in lead else " " * len(lead)
        at += 1
        after = lines[at] if at < len(lines) else ""
        if re.match(rf"{re.escape(lead)}(?![*-] |\d+\. |\"\"\"|\||#|```)\S", after):
            lines[at] = f"{lead}{rest} {after[len(lead) :]}"
        else:
            lines.insert(at, f"{lead}{rest}")


def words_of(path: str) -> Iterator[tuple[int, str]]:
    """Give the lines that may name modules: of code the imports, the strings and the comments."""
    if not read_by_us(path):
        return
    text = (ROOT / path).read_text()
    if not path.endswith(".py"):
        yield from enumerate(text.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node.lineno, ast.unparse(node)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.STRING, tokenize.COMMENT}:
            yield from enumerate(token.string.splitlines(), token.start[0])


def left_over() -> list[str]:
    """Return the places that still name a module as it was called before."""
    files = tracked()
    modules = {dotted(path) for path in files if path.endswith(".py")}
    packages = {dotted(path) for path in files if path.endswith("/__init__.py")}
    olds = {dotted(old): old for old in TABLE["moves"] if old not in files}
    either = "|".join(re.escape(each) for each in sorted(olds, key=len, reverse=True))
    named = re.compile(
        rf"(?<![\w./{{-])({either})(?![\w/-]|\.py\b)(?:\.([A-Za-z_]\w*)|( import ))?"
    )
    paths = "|".join(re.escape(each) for each in olds.values())
    imported = Layout.IMPORT
    placed = re.compile(rf"(?<![\w-])({paths})\b")
    found = []
    for path in files:
        for number, line in words_of(path):
            bad = [each[1] for each in placed.finditer(line)]
            for each in imported.finditer(line):
                bases = (f"{each[1]}.{name.split()[0]}" for name in each[2].split(", "))
                bad += [name for name in bases if name in olds and name not in modules]
            for each in named.finditer(line):
                old, name, imports = each.groups()
                # The folder that now bears the name of the module may be named, and what is in it.
                shadow = old in packages and (
                    f"{old}.{name}" in modules or (name is None and not imports) or imports
                )
                if not shadow:
                    bad.append(old)
            found += [f"{path}:{number}: {each}" for each in bad]
    return found


def unplaced() -> list[str]:
    """Return the modules on cleared floors that the table does not name."""
    table = set(TABLE["moves"].values()) | set(TABLE["stay"])
    return [
        path
        for path in tracked()
        if path.endswith(".py")
        and path.startswith(tuple(f"{each}/" for each in PACKAGES))
        and str(Path(path).parent) in {*PACKAGES, *TABLE["floors"]}
        and path not in table
        and not path.endswith("/__init__.py")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--names", action="store_true", help="only imports of names that moved")
    parser.add_argument("--check", action="store_true", help="only look for old names")
    given = parser.parse_args()
    if not given.check:
        if git("status", "--porcelain", "--untracked-files=no"):
            sys.exit("the tree is not clean: commit or stash what is there")
        layout = layout_now()
        if not layout.paths:
            sys.exit("nothing stands in the old layout")
        if given.names:
            layout.paths = {}
        rewrite(layout)
        if not given.names:
            move(layout)
        in_style()
        for doubt in sorted(set(layout.doubts)):
            print("look at", doubt)
    if given.names:
        return
    for path in unplaced():
        print("not in the table:", path)
    left = left_over()
    print(*left, sep="\n")
    if left:
        sys.exit(f"{len(left)} old names are left")


if __name__ == "__main__":
    main()
