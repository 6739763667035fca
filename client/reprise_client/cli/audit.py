"""`reprise audit`: who changed what, and who brought which session back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprise_client.cli.filters import age_option, moment
from reprise_client.cli.output import Format, OutputOption, emit, grid, local_now, plain
from reprise_client.cli.spec import with_options
from reprise_client.cli.state import client_of
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reprise_client.models import AuditEntry

LONGEST = 60
"""Most characters of a value in a table."""


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The filters of the command; None means that an option was not given."""

    actor: Annotated[str | None, typer.Option(help="Author, such as ann or reprise.")] = None
    action: Annotated[str | None, typer.Option(help="Action, such as queue.change.")] = None
    object_type: Annotated[
        str | None, typer.Option("--type", help="Object type, such as queue or retry_policy.")
    ] = None
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Object name; with --type.")] = (
        None
    )
    project: Annotated[str | None, typer.Option(metavar="DOMAIN/NAME")] = None
    domain: Annotated[str | None, typer.Option(help="Domain, including its projects.")] = None
    door: Annotated[
        str | None, typer.Option(help="rest, graphql, admin, web, task, command or sql.")
    ] = None
    automatic: Annotated[
        bool | None,
        typer.Option("--automatic/--people", help="Only actions of the engine, or only of people."),
    ] = None
    session: Annotated[str | None, typer.Option(metavar="ID")] = None
    chain: Annotated[
        str | None, typer.Option(metavar="ID", help="ID of the chain's first session.")
    ] = None
    since: Annotated[str | None, age_option("Maximum age: 30m, 2h, 7d.")] = None
    until: Annotated[str | None, age_option("Minimum age.")] = None

    def filters(self) -> dict[str, Any]:
        """Return the filters for the API."""
        fields = asdict(self)
        return {
            "object_id": fields.pop("name"),
            "created_after": moment("--since", fields.pop("since")),
            "created_before": moment("--until", fields.pop("until")),
            **fields,
        }


@with_options(Entries)
def audit(
    wanted: Entries,
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 50,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the audit log, newest first."""
    entries = client_of(ctx).audit(page_size=min(limit, 500), **wanted.filters())
    found = list(islice(entries, limit))
    emit(
        output,
        [plain(entry) for entry in found],
        table=lambda: _table(found, local_now()),
        names=(str(entry.id) for entry in found),
    )


def _table(entries: Iterable[AuditEntry], now: datetime) -> RenderableType:
    return grid(
        ["WHEN", "WHO", "DOOR", "ACTION", "NAME", "CHANGES"],
        (
            [
                when(entry.time, now),
                entry.actor,
                entry.door or "",
                entry.action,
                entry.object_id,
                "; ".join(_changes(entry)),
            ]
            for entry in entries
        ),
    )


def _changes(entry: AuditEntry) -> Iterable[str]:
    if entry.before is None or entry.after is None:
        return [f"{name} {_short(value)}" for name, value in entry.data.items()]
    names = dict.fromkeys([*entry.before, *entry.after])
    return [_change(entry.before, entry.after, name) for name in names]


def _change(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    if not before:
        return f"{name} {_short(after[name])}"
    return f"{name} {_short(before.get(name))} → {_short(after.get(name))}"


def _short(value: Any) -> str:
    if value is None or value == "":
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
