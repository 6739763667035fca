"""Bulk retry, cancel, give up, preempt and update: page after page, with an outcome for each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from reprise_client.cli.exits import INVALID
from reprise_client.cli.graph import downstream_words
from reprise_client.cli.output import Format, console, emit, grid, local_now, note, plain
from reprise_client.cli.text import Text
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.models import BulkChange, BulkChanges

AllOption = Annotated[
    bool,
    typer.Option("--all", help="The newest attempts that match the filters, instead of one ID."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="With --all: show what would happen, and change nothing.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="With --all: do not ask for confirmation.")
]
STYLES = {
    **dict.fromkeys(("retried", "cancelled", "given_up", "preempted", "updated"), "green"),
    "scheduled": "yellow",
    "refused": "red",
}

Call = Callable[..., "BulkChanges"]
"""A bulk call that takes `dry_run`, `limit` and `after`."""


def one_or_all(typed: str | None, everything: bool, only_all: bool) -> str | None:
    """Return the ID that was typed, or None for --all.

    `only_all` says that an option was given which needs --all.
    """
    if everything == (typed is not None):
        raise typer.BadParameter("give one session's ID, or --all with filters")
    if only_all and not everything:
        raise typer.BadParameter("filters, --dry-run and --yes go with --all")
    return typed


def act_on_all(call: Call, verb: str, *, dry_run: bool, yes: bool, output: Format) -> None:
    """Change all sessions that match, and print the outcome of each.

    Exits with the code of an invalid request if all were refused.
    """
    if not dry_run and not yes and sys.stdin.isatty():
        _confirm(call, verb)
    results, downstream = _walk(call, dry_run)
    emit(
        output,
        [plain(item) for item in results],
        table=lambda: _table(results),
        names=(item.next_session_id or item.session_id for item in results if item.done),
    )
    note(_summary(results, dry_run))
    if downstream:
        note(downstream_words(downstream, dry=dry_run))
    if results and not any(item.done for item in results):
        raise typer.Exit(INVALID)


def _confirm(call: Call, verb: str) -> None:
    first = call(dry_run=True, limit=1)
    count = len(first.results) + first.remaining
    if count:
        typer.confirm(f"{verb} {count} session{'s' * (count > 1)}?", abort=True, err=True)


def _walk(call: Call, dry_run: bool) -> tuple[list[BulkChange], list[str]]:
    """Return the results of all pages, and the ids downstream of them.

    A terminal shows a progress bar if there are several pages.
    """
    results: list[BulkChange] = []
    downstream: list[str] = []
    shown = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("sessions", visible=False)
        after: str | None = None
        while True:
            page = call(dry_run=dry_run, after=after)
            results += page.results
            downstream += page.downstream
            after = page.next
            if after is None:
                return results, downstream
            total = len(results) + page.remaining
            bar.update(task, completed=len(results), total=total, visible=True)


def _table(results: Iterable[BulkChange]) -> RenderableType:
    now = local_now()
    return grid(
        ["ID", "OUTCOME", "NEXT", "WHY"],
        (
            [
                item.session_id,
                Text(_words(item.outcome), STYLES.get(item.outcome, "")),
                item.next_session_id or when(item.due_at, now),
                _why(item),
            ]
            for item in results
        ),
    )


def _why(item: BulkChange) -> str:
    """Return why it was refused, or what its new attempt does not get, and whether it fits."""
    told = list(item.warnings)
    if names := ", ".join(item.secrets_dropped):
        told.insert(0, f"without the secrets {names}: somebody else gave them")
    return "; ".join(told) or str((item.problem or {}).get("detail", ""))


def _words(outcome: str) -> str:
    return outcome.replace("_", " ")


def _summary(results: Iterable[BulkChange], dry_run: bool) -> str:
    counts = Counter(item.outcome for item in results)
    summary = ", ".join(f"{count} {_words(outcome)}" for outcome, count in counts.items())
    if not summary:
        return "no session matches"
    return f"a dry run, nothing was changed: {summary}" if dry_run else summary
