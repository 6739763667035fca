"""Where the words go: tables for people, JSON and YAML for programs, colours for terminals only."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reprise_client.cli.documents import write_documents

if TYPE_CHECKING:
    from reprise_client.answers import Answer

PIPE_WIDTH = 10_000  # lines in a pipe are for grep: never wrapped
UNCUT = frozenset(
    {"ID", "NAME", "SCOPE", "STATUS", "ATTEMPT", "QUEUE"}
)  # what people copy or look for
STYLES = {
    "TERMINATED": "green",
    "ERROR": "red",
    "CANCELLED": "magenta",
    "RUNNING": "cyan",
    "PENDING": "yellow",
}


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="How to print the answer; name prints ids only.")
]


def console(*, err: bool = False, wide: bool = False) -> Console:
    """Standard output or error as it is now; plain and never wrapped if it is no terminal.

    What is `wide` is not cut to fit a terminal either.
    """
    file = sys.stderr if err else sys.stdout
    width = None if file.isatty() and not wide else PIPE_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def note(text: str, style: str = "") -> None:
    """A line beside the answer, on standard error."""
    console(err=True).print(Text(text, style))


def local_now() -> datetime:
    return datetime.now(UTC).astimezone()


def plain(answer: Answer) -> dict[str, Any]:
    """Exactly the fields that the server sent."""
    return answer.model_dump(mode="json", exclude_unset=True)


def emit(
    form: Format, data: Any, *, table: Callable[[], RenderableType], names: Iterable[str]
) -> None:
    """Prints `data` (JSON values) as asked; `table` is called only for people."""
    match form:
        case Format.JSON:
            typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        case Format.YAML:
            typer.echo(write_documents([data]), nl=False)
        case Format.NAME:
            for name in names:
                typer.echo(name)
        case Format.TABLE:
            console().print(table())


def emit_followed(form: Format, items: Iterable[Answer], line: Callable[[Any], str]) -> None:
    """Prints each item as it comes: a JSON object a line, or a `line` for people."""
    for item in items:
        as_json = form is Format.JSON
        typer.echo(item.model_dump_json(exclude_unset=True) if as_json else line(item))


def grid(heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A borderless table of one line a row; where the screen is narrow, `UNCUT` stays whole."""
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    made = Table(box=None, pad_edge=False, header_style="bold")
    for index, head in enumerate(heads):
        widest = max((len(row[index]) for row in cells), default=0)
        least = max(len(head), widest) if head in UNCUT else None
        made.add_column(head, no_wrap=True, min_width=least)
    for row in cells:
        made.add_row(*row)
    return made


def facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and values below each other; pairs without a value are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(name, Text(value) if isinstance(value, str) else value)
    return made


def numbered(items: Iterable[str]) -> Table:
    """Items below each other with their numbers from 1."""
    made = Table.grid(padding=(0, 1))
    made.add_column(justify="right", min_width=4, no_wrap=True)
    made.add_column(overflow="fold")
    for number, item in enumerate(items, 1):
        made.add_row(f"{number}.", Text(item))
    return made


def heading(text: str) -> RenderableType:
    """A title of what follows, after an empty line."""
    return Text(f"\n{text}", "bold")


def status_text(status: str) -> Text:
    return Text(status, STYLES.get(status, ""))


def link(text: str, url: str) -> Text:
    """Text that terminals open (OSC 8); plain elsewhere."""
    return Text(text, f"link {url}")
