"""`reprise run`: submits a session and follows it to the end of its chain."""

from typing import Annotated

import typer

from reprise_client.cli.exits import INTERRUPTED, session_code
from reprise_client.cli.follow import cancelling, follow_chain
from reprise_client.cli.spec import Spec, with_spec
from reprise_client.cli.state import client_of
from reprise_client.cli.submit import submit


@with_spec
def run(
    spec: Spec,
    ctx: typer.Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Container image.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD", help="Command to run in the container, after --."),
    ] = None,
    *,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the session's id and exit.")
    ] = False,
) -> None:
    """Run a command and follow all its attempts.

    Exits with the last attempt's exit code. Ctrl-C cancels the chain and waits for its end. A
    second Ctrl-C exits at once and leaves the chain running or ending.
    """
    client = client_of(ctx)
    session = submit(client, spec.body({"image": image, "command": command or []}))
    if detach:
        typer.echo(session.id)
        return
    with cancelling(client, session.id) as asked:
        last = follow_chain(client, session.id)
    cancelled = asked.is_set() and last.status == "CANCELLED"
    raise typer.Exit(INTERRUPTED if cancelled else session_code(last))
