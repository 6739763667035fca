"""`reprise job-set`: shows all sessions that were submitted under one name."""

from typing import Annotated

import typer

from reprise_client.cli import views
from reprise_client.cli.output import (
    FollowOption,
    Format,
    OutputOption,
    emit,
    emit_followed,
    local_now,
    plain,
)
from reprise_client.cli.scope import ProjectOption
from reprise_client.cli.state import client_of

app = typer.Typer(help="Show sessions that were submitted under one name.", no_args_is_help=True)


@app.command("list")
def list_job_sets(
    ctx: typer.Context, *, project: ProjectOption = None, output: OutputOption = Format.TABLE
) -> None:
    """List the job sets of a project, or of all projects that you may see."""
    found = list(client_of(ctx).job_sets(project=project))
    emit(
        output,
        [plain(item) for item in found],
        table=lambda: views.job_set_table(found, local_now()),
        names=(item.name for item in found),
    )


@app.command()
def events(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job set.")],
    *,
    project: ProjectOption = None,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Only events after this cursor.")
    ] = None,
    follow: FollowOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the events of the sessions of a job set."""
    client = client_of(ctx)
    if follow:
        followed = client.follow_job_set(name, project=project, after=after)
        emit_followed(output, followed, lambda e: views.job_set_event_line(e, local_now()))
        return
    listed = list(client.job_set_events(name, project=project, after=after))
    emit(
        output,
        [plain(item) for item in listed],
        table=lambda: views.job_set_event_table(listed, local_now()),
        names=(str(item.cursor) for item in listed),
    )
