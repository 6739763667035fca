"""The rules of the house, over the syntax tree: what each forbids, and what to do instead."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERVER = ("reprise", "interfaces", "scheduler", "sessions_app")
PRODUCT = (*SERVER, "retry", "base", "executor", "client")
DOORS = (
    "interfaces/",
    *("reprise/admin_site/", "reprise/front/", "reprise/graphql/", "reprise/http/"),
    *("reprise/operations/page.py", "reprise/operations/views.py"),
)
TRANSITIONS = "sessions_app/services/write/transitions.py"
BIRTHS = (
    "sessions_app/services/sessions/new_root_rows.py",
    "sessions_app/services/chains/children.py",
)
"""Where sessions are inserted, with the status that they begin with."""
SQL_MADE_OF_PARTS = {
    "reprise/postgresql/schema.py": "the names of tables, as PostgreSQL tells them",
    "reprise/scale/judgement.py": "columns made of words that stand beside them",
    "sessions_app/db/bulk.py": "tables and columns, which callers have as constants",
    "sessions_app/db/writes.py": "statements, which callers have as constants",
    "sessions_app/eventlog/reading.py": "a condition whose argument is an alias",
    "sessions_app/selectors/session_pages.py": "conditions of `Where`, which keeps values apart",
    BIRTHS[0]: "an insert by the table of columns",
    "sessions_app/webhooks/reader.py": "a condition whose argument is an alias",
    TRANSITIONS: "the names of columns, each from a table of its own",
}
"""SQL with more in it than constants, and what that is."""

GENERATED = {"client/reprise_client/models.py"}
"""Files that `make schema` writes."""

MOST_LINES_OF_FILE = 400
MOST_LINES_OF_FUNCTION = 40
MOST_LINES_OF_VIEW = 25

_ROW_LOCK = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)\b")
_STATEMENT = re.compile(r"\b(?:SELECT|UPDATE|INSERT INTO|DELETE FROM)\b")
_SET = re.compile(
    r"\bUPDATE\s+sessions_app_session\b.*?\bSET\b(.*?)(?:\bFROM\b|\bWHERE\b|$)", re.DOTALL
)
_INSERT = re.compile(r"\bINSERT\s+INTO\s+sessions_app_session\b")
_STATUS = ("status", "phase", "retry_state")
_WRITTEN = re.compile(rf"\b(?:{'|'.join(_STATUS)})\b\s*=|{{}}")
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_VIEW = re.compile(r"get|post|put|patch|delete|perform|resolve_\w+")
_CLOCKS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("timezone.now", "timezone.localtime"),
    *("uuid.uuid1", "uuid.uuid4", "uuid.uuid7"),
}
_CLOCK_MODULES = {"time", "random", "secrets", "uuid_utils", "uuid_utils.compat", "executor.clock"}
_VALUES = {"random": {"Random"}}
"""What may come from such modules: a generator that is given its seed."""
_UNREPEATABLE = {"uuid1", "uuid4", "uuid7"}


@dataclass(frozen=True)
class Source:
    """A file of the repository."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.path)

    @property
    def is_locks(self) -> bool:
        """Return whether row locks belong into this file."""
        *folders, name = self.path.split("/")
        return "locks" in folders or name == "locks.py"

    @property
    def says_pure(self) -> bool:
        """Return whether its docstring calls it pure."""
        return re.search(r"\bpure\b", ast.get_docstring(self.tree) or "", re.IGNORECASE) is not None


@dataclass(frozen=True)
class Breach:
    """A place where a rule is broken, and what to do instead."""

    path: str
    line: int
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.advice}"


Rule = Callable[[Source], Iterator[Breach]]


def sources(*folders: str) -> list[Source]:
    """Read the files of folders, without migrations, which stay as they were."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [_source(path) for path in found if "migrations" not in path.parts]


@cache
def _source(path: Path) -> Source:
    return Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def pure_sources() -> list[Source]:
    """Read the modules that call themselves pure, and those of folders that do."""
    every = sources(*PRODUCT)
    pure = [source.path for source in every if source.says_pure]
    folders = tuple(
        path.removesuffix("__init__.py") for path in pure if path.endswith("__init__.py")
    )
    return [each for each in every if each.path in pure or each.path.startswith(folders)]


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings but docstrings, with their lines; `{}` is what an f-string puts in."""
    docs = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    parts = {
        id(part)
        for each in ast.walk(tree)
        if isinstance(each, ast.JoinedStr)
        for part in each.values
    }
    for each in ast.walk(tree):
        if id(each) in docs or id(each) in parts:
            continue
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value
        elif isinstance(each, ast.JoinedStr):
            yield (
                each.lineno,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in each.values
                ),
            )


def row_locks(source: Source) -> Iterator[Breach]:
    """Row locks stand in `locks`, so that their order can be read in one place."""
    advice = (
        "a row lock: make it a function of sessions_app/locks/ (or of the room's locks.py), whose "
        "docstring says what is locked before and after it, and call that"
    )
    if source.is_locks:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "select_for_update":
            yield Breach(source.path, node.lineno, advice)
    for line, text in texts(source.tree):
        if _ROW_LOCK.search(text):
            yield Breach(source.path, line, advice)


def managers(source: Source) -> Iterator[Breach]:
    """Doors call selectors and services; what they read is read alike by all doors."""
    if not source.path.startswith(DOORS):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in {
            "objects",
            "_default_manager",
            "_base_manager",
        }:
            advice = f"`.{node.attr}` in a door: read by a selector, write by a service"
            yield Breach(source.path, node.lineno, advice)


def statuses(source: Source) -> Iterator[Breach]:
    """One module writes the statuses of sessions, and the events that tell of them."""
    advice = (
        f"writes a session's status, phase or retry_state: hand a `Change` to {TRANSITIONS}, which "
        "writes the event with it"
    )
    if source.path == TRANSITIONS:
        return
    for line, text in texts(source.tree):
        if any(_WRITTEN.search(found) for found in _SET.findall(text)):
            yield Breach(source.path, line, advice)
        if _INSERT.search(text) and source.path not in BIRTHS:
            yield Breach(source.path, line, "sessions are inserted by submit and children only")
    for node in ast.walk(source.tree):
        if _sets_status(node):
            yield Breach(source.path, node.lineno, advice)  # type: ignore[attr-defined]
        if _inserts_sessions(node) and source.path not in BIRTHS:
            advice = "sessions are inserted by submit and children only"
            yield Breach(source.path, node.lineno, advice)  # type: ignore[attr-defined]


def _inserts_sessions(node: ast.AST) -> bool:
    """Return whether this makes the statement by `sessions_app.db.bulk.inserted`."""
    return isinstance(node, ast.Call) and ast.unparse(node).startswith(
        "inserted('sessions_app_session',"
    )


def _sets_status(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method, on = node.func.attr, ast.unparse(node.func.value)
        if method == "update" and ("objects" in on or "filter(" in on):
            return any(keyword.arg in _STATUS for keyword in node.keywords)
        return on == "Session.objects" and method in {"create", "bulk_create", "bulk_update"}
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(target, ast.Attribute)
            and target.attr in _STATUS
            and ast.unparse(target.value) != "self"
            for target in targets
        )
    return False


def clocks(source: Source) -> Iterator[Breach]:
    """Pure modules give the same answer to the same arguments, whenever they are asked."""
    for node in ast.walk(source.tree):
        if used := _clock(node):
            advice = f"{used} in a pure module: make the time or the random value an argument"
            yield Breach(source.path, node.lineno, advice)  # type: ignore[attr-defined]


def _clock(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return ", ".join(name.name for name in node.names if name.name in _CLOCK_MODULES)
    if isinstance(node, ast.ImportFrom):
        names = {name.name for name in node.names}
        if node.module in _CLOCK_MODULES:
            return ", ".join(sorted(names - _VALUES.get(node.module, set())))
        return ", ".join(sorted(names & _UNREPEATABLE)) if node.module == "uuid" else ""
    if isinstance(node, ast.Attribute):
        name = f"{ast.unparse(node.value).rpartition('.')[2]}.{node.attr}"
        return name if name in _CLOCKS else ""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Random" and not node.args:
        return "Random()"
    return ""


def sql_parts(source: Source) -> Iterator[Breach]:
    """SQL is put together from constants alone; all else is a parameter."""
    if source.path in SQL_MADE_OF_PARTS:
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        fixed = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        for part in node.values if _STATEMENT.search(fixed) else ():
            name = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
            if name and not _CONSTANT.fullmatch(name):
                advice = f"{name} is put into SQL: pass it as a parameter, or make it a constant"
                yield Breach(source.path, node.lineno, advice)


def sizes(source: Source) -> Iterator[Breach]:
    """Files and functions are short enough to be read at once; docstrings are not counted."""
    lines = len(source.text.splitlines()) - sum(map(_lines_of_docs, ast.walk(source.tree)))
    if lines > MOST_LINES_OF_FILE and source.path not in GENERATED:
        advice = f"{lines} lines, at most {MOST_LINES_OF_FILE}: split it by what it is about"
        yield Breach(source.path, 1, advice)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            view = source.path.startswith(DOORS) and _VIEW.fullmatch(node.name) is not None
            most = MOST_LINES_OF_VIEW if view else MOST_LINES_OF_FUNCTION
            length = _length(node)
            if length > most:
                what = "a door parses, calls and renders" if view else "give its steps names"
                advice = f"{node.name} has {length} lines, at most {most}: {what}"
                yield Breach(source.path, node.lineno, advice)


def _lines_of_docs(node: ast.AST) -> int:
    """Return the lines of a string that stands alone, which is a docstring; of others 0."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return (node.end_lineno or node.lineno) - node.lineno + 1
    return 0


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first, last = node.body[0], node.end_lineno or node.lineno
    documented = ast.get_docstring(node) is not None
    doc = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return last - node.lineno + 1 - doc
