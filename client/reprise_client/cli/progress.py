"""`reprise progress`: a run tells how far it is."""

from typing import Annotated

import typer

from reprise_client.this_attempt import progress_line


def progress(
    *,
    step: Annotated[float, typer.Option(help="Number of steps that are done.")],
    of: Annotated[float | None, typer.Option(help="Number of steps in all.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="URI", help="Where this work was saved.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="A word for people.")] = None,
) -> None:
    """Tell how far this run is, by printing a line that its executor reads.

    It calls no server and needs no login. Call it in the command of a session.
    """
    try:
        typer.echo(progress_line(step, of, checkpoint, note))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
