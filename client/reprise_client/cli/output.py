"""Output: tables for people, JSON and YAML for programs, colours for terminals only."""

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

from reprise_client.cli.documents import write_documents
from reprise_client.cli.text import Text
from reprise_client.cli.unseen import json_escaped, say

if TYPE_CHECKING:
    from reprise_client.answers import Answer

PIPE_WIDTH = 10_000  # lines in a pipe are for grep, so they are never wrapped
UNCUT = frozenset(
    {"ID", "NAME", "SCOPE", "STATUS", "ATTEMPT", "QUEUE"}
)  # columns that people copy or search for
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
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow", "-f", help="Show new events as they happen; with JSON, one object per line."
    ),
]


def console(*, err: bool = False, wide: bool = False) -> Console:
    """Return a console on standard output or error, plain and never wrapped without a terminal.

    With `wide` it is not cut to the terminal's width either.
    """
    file = sys.stderr if err else sys.stdout
    width = None if file.isatty() and not wide else PIPE_WIDTH
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def note(text: str, style: str = "") -> None:
    """Print a line on standard error, beside the answer."""
    console(err=True).print(Text(text, style))


def local_now() -> datetime:
    return datetime.now(UTC).astimezone()


def plain(answer: Answer) -> dict[str, Any]:
    """Return exactly the fields that the server sent."""
    return answer.model_dump(mode="json", exclude_unset=True, by_alias=True)


def emit(
    form: Format, data: Any, *, table: Callable[[], RenderableType], names: Iterable[str]
) -> None:
    """Print `data` (JSON values) in the chosen format; `table` is called for tables only."""
    match form:
        case Format.JSON:
            typer.echo(json_escaped(json.dumps(data, indent=2, ensure_ascii=False)))
        case Format.YAML:
            typer.echo(write_documents([data]), nl=False)
        case Format.NAME:
            for name in names:
                say(name)
        case Format.TABLE:
            console().print(table())


def emit_followed(form: Format, items: Iterable[Answer], line: Callable[[Any], str]) -> None:
    """Print each item as it arrives: as a JSON object per line, or as `line` for people."""
    for item in items:
        if form is Format.JSON:
            typer.echo(json_escaped(item.model_dump_json(exclude_unset=True)))
        else:
            say(line(item))


def grid(heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Return a borderless table with one line per row.

    On a narrow screen `UNCUT` columns stay whole.
    """
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
    """Return a table of names and values. Pairs without a value are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(name, Text(value) if isinstance(value, str) else value)
    return made


def numbered(items: Iterable[str]) -> Table:
    """Return the items as a list numbered from 1."""
    made = Table.grid(padding=(0, 1))
    made.add_column(justify="right", min_width=4, no_wrap=True)
    made.add_column(overflow="fold")
    for number, item in enumerate(items, 1):
        made.add_row(f"{number}.", Text(item))
    return made


def heading(text: str) -> RenderableType:
    """Return a title after an empty line."""
    return Text(f"\n{text}", "bold")


def status_text(status: str) -> Text:
    return Text(status, STYLES.get(status, ""))


def link(text: str, url: str) -> Text:
    """Return a hyperlink for terminals (OSC 8); plain text elsewhere."""
    return Text(text, f"link {url}")
