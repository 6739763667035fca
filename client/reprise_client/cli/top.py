"""`reprise top`: a live overview until Ctrl-C."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from reprise_client.cli.live import whole_screen
from reprise_client.cli.output import Format, OutputOption, console, emit, plain
from reprise_client.cli.state import client_of
from reprise_client.cli.top_view import top_line, top_view
from reprise_client.cli.unseen import json_escaped, say
from reprise_client.errors import ApiError, RepriseError
from reprise_client.outage import OutageTolerance

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Operations, Overview

LINES_EVERY = 5.0
SCREEN_EVERY = 2.0
OPERATIONS_EVERY = 5.0
"""Seconds between two looks at what operators are told, which changes less often than the rest."""


def top(
    ctx: typer.Context,
    *,
    project: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN/NAME", help="Only this project, not all that you may see."),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            min=0.2,
            metavar="SECONDS",
            help="Seconds between updates (default: 2; without a terminal 5).",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Watch queues, executors, retries and causes of failures.

    Operators are also told what is wrong, the worst first, and which schedules come next or are
    paused. Without a terminal it prints a line every few seconds; with -o json an object per line.
    """
    if not once and output not in {Format.TABLE, Format.JSON}:
        raise typer.BadParameter(f"-o {output.value} goes with --once")
    client = client_of(ctx)
    where = f"{client.url}   {project or 'all that you may see'}"
    if once:
        _print_once(look := Look(client, project), look.at_once(), where, output)
        return
    look = Look(client, project)
    shown = console()
    if shown.is_terminal and output is Format.TABLE:
        whole_screen(shown, lambda: _screen(look, where), every or SCREEN_EVERY)
    else:
        _lines(look, output, every or LINES_EVERY)


class Look:
    """Fetches the overview repeatedly, and what operators are told of the whole deployment.

    It tolerates outages; meanwhile `trouble` says what is wrong. `operations` is None for all
    others.
    """

    def __init__(self, client: Client, project: str | None):
        self._client = client
        self._project = project
        self._outage = OutageTolerance()
        self._last: Overview | None = None
        self._looked = float("-inf")
        self.trouble = ""
        self.operations: Operations | None = None

    def at_once(self) -> Overview:
        """Return the present overview, and read what operators are told if it is time."""
        seen = self._client.overview(project=self._project)
        # Only operators are shown executors, and what they are told is of all projects.
        if seen.executors is None or self._project is not None:
            self.operations = None
        elif time.monotonic() >= self._looked + OPERATIONS_EVERY:
            self.operations = self._asked()
            self._looked = time.monotonic()
        return seen

    def _asked(self) -> Operations | None:
        try:
            return self._client.operations()
        except ApiError as error:
            if error.status == 404:  # a server from before there was this call
                return None
            raise

    def again(self) -> Overview:
        """Return the present overview, or during an outage the last one."""
        try:
            self._last = self.at_once()
        except RepriseError as error:
            self._outage.endure(error)
            self.trouble = str(error)
        else:
            self._outage.answered()
            self.trouble = ""
        assert self._last is not None  # noqa: S101  # outages before an answer are raised
        return self._last


def _print_once(look: Look, seen: Overview, where: str, output: Format) -> None:
    emit(
        output,
        _plain(seen, look.operations),
        table=lambda: top_view(seen, where, width=console().width, operations=look.operations),
        names=(queue.address for queue in seen.queues),
    )


def _screen(look: Look, where: str) -> RenderableType:
    seen = look.again()
    size = console().size
    return top_view(
        seen,
        where,
        width=size.width,
        height=size.height,
        trouble=look.trouble,
        operations=look.operations,
    )


def _plain(seen: Overview, operations: Operations | None) -> dict[str, Any]:
    told = {} if operations is None else plain(operations)
    return plain(seen) | {name: told[name] for name in ("problems", "schedules") if name in told}


def _lines(look: Look, output: Format, every: float) -> None:
    try:
        while True:
            seen = look.again()
            if look.trouble:
                say(look.trouble, err=True)
            elif output is Format.JSON:
                shown = json.dumps(_plain(seen, look.operations), ensure_ascii=False)
                typer.echo(json_escaped(shown))
            else:
                say(top_line(seen, look.operations))
            time.sleep(every)
    except KeyboardInterrupt:
        return
