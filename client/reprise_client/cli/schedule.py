"""`reprise schedule`: make the sessions of schedules by hand, pause and resume them, and show when
they would fire."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli import get
from reprise_client.cli.apply import FilesOption, Wanted, documents_wanted, refusals
from reprise_client.cli.exits import FAILED, USAGE, code_of, complain
from reprise_client.cli.kinds.schedule import TIMING, ScheduleKind, schedule_typed
from reprise_client.cli.output import Format, OutputOption, emit, grid, note, plain
from reprise_client.cli.scope import ProjectOption, asked_scope
from reprise_client.cli.state import client_of
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Backfilled

app = typer.Typer(
    help="Make sessions of schedules by hand, pause or resume schedules, and show their times.",
    no_args_is_help=True,
)

ScheduleArgument = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="Name, or DOMAIN/PROJECT/NAME.")
]


@app.command()
def trigger(ctx: typer.Context, schedule: ScheduleArgument, project: ProjectOption = None) -> None:
    """Make one session now, as the owner of the schedule. Print the session's ID."""
    client = client_of(ctx)
    found = schedule_typed(client, schedule, asked_scope(None, project))
    typer.echo(client.schedule_trigger(found.id))


@app.command()
def pause(
    ctx: typer.Context,
    schedule: ScheduleArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown with the schedule.")] = "",
    project: ProjectOption = None,
) -> None:
    """Make no more sessions. Those that run go on."""
    client = client_of(ctx)
    found = schedule_typed(client, schedule, asked_scope(None, project))
    typer.echo(f"schedule/{client.schedule_pause(found.id, reason).address} paused")


@app.command()
def resume(ctx: typer.Context, schedule: ScheduleArgument, project: ProjectOption = None) -> None:
    """Go on with the next time. Times of the pause are not made up."""
    client = client_of(ctx)
    found = schedule_typed(client, schedule, asked_scope(None, project))
    typer.echo(f"schedule/{client.schedule_resume(found.id).address} resumed")


@app.command()
def backfill(
    ctx: typer.Context,
    schedule: ScheduleArgument,
    *,
    begin: Annotated[datetime, typer.Option("--from", help="First time (UTC).")],
    end: Annotated[datetime, typer.Option("--to", help="Last time (UTC).")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the times.")] = False,
    project: ProjectOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Make the sessions of all times between two times, both included."""
    client = client_of(ctx)
    found = schedule_typed(client, schedule, asked_scope(None, project))
    done = client.schedule_backfill(found.id, _utc(begin), _utc(end), dry_run=dry_run)
    _show(done, output)
    refused = 0 if dry_run else len(done.results) - done.made
    if refused:
        raise typer.Exit(FAILED)


def _show(done: "Backfilled", output: Format) -> None:
    rows = [
        [each.time.isoformat(), each.session_id or each.error or "would be made"]
        for each in done.results
    ]
    emit(
        output,
        plain(done),
        table=lambda: grid(("TIME", "SESSION"), rows),
        names=[each.session_id for each in done.results if each.session_id],
    )
    note(f"{len(done.results)} times; {done.made} sessions made")


@app.command()
def times(ctx: typer.Context, *, files: FilesOption, output: OutputOption = Format.TABLE) -> None:
    """Show the next five times of the schedules in documents. Nothing is saved."""
    wanted = documents_wanted(files)
    faults = [fault for each in wanted for fault in _faults(each)]
    for fault in faults:
        complain(fault)
    if faults:
        raise typer.Exit(USAGE)
    client = client_of(ctx)
    found = [(each.document.data["metadata"]["name"], _next(client, each)) for each in wanted]
    emit(
        output,
        [{"name": name, "times": [time.isoformat() for time in next_]} for name, next_ in found],
        table=lambda: grid(
            ("SCHEDULE", "TIME"),
            [[name, time.isoformat()] for name, next_ in found for time in next_],
        ),
        names=[time.isoformat() for _, next_ in found for time in next_],
    )


def _faults(wanted: Wanted) -> Iterator[str]:
    """Yield the faults of a document that the server does not see, as only its times are sent."""
    document, kind = wanted.document, wanted.kind
    if isinstance(kind, ScheduleKind):
        for path, text in kind.unknown_fields(document.data["spec"]):
            yield document.fault(path, text)
    else:
        yield document.fault("kind", f"must be {ScheduleKind.name}: only schedules have times")


def _next(client: "Client", wanted: Wanted) -> Sequence[datetime]:
    """Return the next times of a document. Exits with the faults that the server finds."""
    spec = wanted.document.data["spec"]
    try:
        return client.schedule_times(**{key: spec[key] for key in TIMING if key in spec})
    except ApiError as error:
        if not error.errors:
            raise
        for fault in refusals(wanted, error):
            complain(fault)
        raise typer.Exit(code_of(error)) from error


@app.command()
def delete(
    ctx: typer.Context,
    schedule: ScheduleArgument,
    *,
    project: ProjectOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a schedule. Its sessions stay."""
    get.delete(ctx, "schedule", schedule, project=project, yes=yes)


def _utc(given: datetime) -> datetime:
    return given if given.tzinfo else given.replace(tzinfo=UTC)
