"""`reprise top`: a live overview until Ctrl-C."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from reprise_client.cli.live import whole_screen
from reprise_client.cli.output import Format, OutputOption, console, emit, plain
from reprise_client.cli.state import client_of
from reprise_client.cli.top_view import top_line, top_view
from reprise_client.errors import RepriseError
from reprise_client.outage import OutageTolerance

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Overview

LINES_EVERY = 5.0
SCREEN_EVERY = 2.0


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

    Without a terminal it prints a line every few seconds; with -o json an object per line.
    """
    if not once and output not in {Format.TABLE, Format.JSON}:
        raise typer.BadParameter(f"-o {output.value} goes with --once")
    client = client_of(ctx)
    where = f"{client.url}   {project or 'all that you may see'}"
    if once:
        seen = client.overview(project=project)
        emit(
            output,
            plain(seen),
            table=lambda: top_view(seen, where, width=console().width),
            names=(queue.address for queue in seen.queues),
        )
        return
    look = Look(client, project)
    shown = console()
    if shown.is_terminal and output is Format.TABLE:
        whole_screen(shown, lambda: _screen(look, where), every or SCREEN_EVERY)
    else:
        _lines(look, output, every or LINES_EVERY)


class Look:
    """Fetches the overview repeatedly.

    It tolerates outages; meanwhile `trouble` says what is wrong.
    """

    def __init__(self, client: Client, project: str | None):
        self._client = client
        self._project = project
        self._outage = OutageTolerance()
        self._last: Overview | None = None
        self.trouble = ""

    def again(self) -> Overview:
        """Return the present overview, or during an outage the last one."""
        try:
            self._last = self._client.overview(project=self._project)
        except RepriseError as error:
            self._outage.endure(error)
            self.trouble = str(error)
        else:
            self._outage.answered()
            self.trouble = ""
        assert self._last is not None  # noqa: S101  # outages before an answer are raised
        return self._last


def _screen(look: Look, where: str) -> RenderableType:
    seen = look.again()
    size = console().size
    return top_view(seen, where, width=size.width, height=size.height, trouble=look.trouble)


def _lines(look: Look, output: Format, every: float) -> None:
    try:
        while True:
            seen = look.again()
            if look.trouble:
                typer.echo(look.trouble, err=True)
            elif output is Format.JSON:
                typer.echo(seen.model_dump_json(exclude_unset=True))
            else:
                typer.echo(top_line(seen))
            time.sleep(every)
    except KeyboardInterrupt:
        return
