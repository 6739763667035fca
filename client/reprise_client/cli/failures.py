"""`reprise failures`: which failures there are, how often, and what became of their chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.filters import age_option, moment
from reprise_client.cli.output import Format, OutputOption, emit, facts, grid, local_now, plain
from reprise_client.cli.spec import with_options
from reprise_client.cli.state import client_of
from reprise_client.cli.words import span, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reprise_client.models import Failure, FailureShare


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The filters of the command; None means that an option was not given."""

    project: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN/NAME", help="Project (default: the context's)."),
    ] = None
    since: Annotated[str | None, age_option("Maximum age: 30m, 2h, 7d. Default: a day.")] = None
    until: Annotated[str | None, age_option("Minimum age.")] = None
    cause: Annotated[str | None, typer.Option(help="Cause, such as oom_killed.")] = None
    queue: Annotated[str | None, typer.Option(help="Only failures in this queue.")] = None
    image: Annotated[str | None, typer.Option(help="Only failures of this image.")] = None
    node: Annotated[
        str | None, typer.Option(help="Only failures on this node: NAME or EXECUTOR/NAME.")
    ] = None
    order: Annotated[
        str,
        typer.Option(
            metavar="FIGURE",
            help="sessions, chains, recovered_chains, lost_run_seconds, last_seen or first_seen.",
        ),
    ] = "sessions"
    all_: Annotated[bool, typer.Option("--all", help="Also what is muted.")] = False

    def time(self) -> dict[str, Any]:
        """Return the time for the API."""
        return {"since": moment("--since", self.since), "until": moment("--until", self.until)}

    def filters(self) -> dict[str, Any]:
        """Return the filters for the API, without the project."""
        named = {name: getattr(self, name) for name in ("cause", "queue", "image", "node")}
        heard = {} if self.all_ else {"muted": False}
        return {**self.time(), **named, **heard, "ordering": f"-{self.order}"}


@with_options(Wanted)
def failures(
    wanted: Wanted,
    ctx: typer.Context,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Signature to show, as of a session.")
    ] = None,
    *,
    mute: Annotated[
        bool | None, typer.Option("--mute/--unmute", help="Mute KEY, or take that back.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 20,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the kinds of failures of a project, or one of them."""
    client, project = client_of(ctx), wanted.project
    if key is None and mute is not None:
        raise CommandError("--mute needs a KEY", USAGE)
    if key is None:
        filters = {**wanted.filters(), "page_size": min(limit, 500)}
        found = list(islice(client.failures(project=project or client.project, **filters), limit))
    elif mute is not None:
        found = [client.failure_mute(key, project=project, muted=mute)]
    else:
        found = [client.failure(key, project=project, **wanted.time())]
    emit(
        output,
        [plain(each) for each in found],
        table=lambda: _one(found[0], local_now()) if key else _table(found, local_now()),
        names=(each.key for each in found),
    )


def _table(found: Iterable[Failure], now: datetime) -> RenderableType:
    return grid(
        ["KEY", "FAILED", "CHAINS", "RECOVERED", "LOST", "LAST SEEN", "ENDED BY", "TITLE"],
        (
            [
                each.key,
                str(each.sessions),
                str(each.chains),
                str(each.recovered_chains),
                span(each.lost_run_seconds),
                when(each.last_seen, now),
                _ended_by(each),
                each.title,
            ]
            for each in found
        ),
    )


def _one(failure: Failure, now: datetime) -> RenderableType:
    return facts(
        [
            ("Signature", failure.key),
            ("Title", failure.title),
            ("Ended by", _ended_by(failure)),
            ("Project", failure.project),
            ("Failed", f"{failure.sessions} attempts of {failure.chains} chains"),
            ("Recovered", f"{failure.recovered_chains} chains"),
            ("Lost", f"{span(failure.lost_run_seconds)} of run time"),
            ("First seen", when(failure.first_seen, now)),
            ("Last seen", when(failure.last_seen, now)),
            ("Queues", _shares(failure.queues)),
            ("Images", _shares(failure.images)),
            ("Nodes", _shares(failure.nodes)),
            ("Newest", failure.example),
            ("Muted", "yes" if failure.muted else ""),
        ]
    )


def _ended_by(failure: Failure) -> str:
    """Return the cause, or the exit code where that is all it says."""
    if failure.exit_code is None:
        return failure.cause
    plain = failure.cause == "kernel_nonzero_exit"
    return f"exit code {failure.exit_code}" if plain else f"{failure.cause}, {failure.exit_code}"


def _shares(found: Sequence[FailureShare]) -> str:
    return ", ".join(f"{each.value} ({each.sessions})" for each in found)
