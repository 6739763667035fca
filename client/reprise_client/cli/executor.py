"""`reprise executor`: create, close, drain, open and delete executors, and create their tokens."""

import time
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from reprise_client.cli import get
from reprise_client.cli.completion import complete_executor
from reprise_client.cli.exits import INVALID, TIMED_OUT, CommandError
from reprise_client.cli.kinds.executor import reservation_cells
from reprise_client.cli.output import (
    Format,
    OutputOption,
    console,
    emit,
    grid,
    local_now,
    note,
    plain,
)
from reprise_client.cli.secrets import TokenForm, TokenOutput
from reprise_client.cli.spec import pairs
from reprise_client.cli.state import client_of
from reprise_client.cli.text import Text
from reprise_client.cli.words import counted, span, when
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Executor, ExecutorToken

app = typer.Typer(
    help="Create executors and their tokens; cordon, drain and uncordon them.", no_args_is_help=True
)

ExecutorArgument = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=complete_executor, help="Name.")
]


POLL_SECONDS = 1.0


class Placement(StrEnum):
    """The side that chooses the nodes of pods."""

    NODE = "node"
    CLUSTER = "cluster"


class Preempts(StrEnum):
    """The settings of whether sessions make room for others."""

    ON = "on"
    OFF = "off"
    DRY_RUN = "dry_run"


class Avoids(StrEnum):
    """The attempts that avoid suspect nodes."""

    OFF = "off"
    RETRIES = "retries"
    ALL = "all"


AvoidsOption = Annotated[
    Avoids, typer.Option(help="Who avoids nodes that fail too often; off: none is suspected.")
]
QuarantineOption = Annotated[
    bool, typer.Option("--auto-quarantine", help="Give suspect nodes no sessions at all.")
]
PreemptionOption = Annotated[
    Preempts | None,
    typer.Option(
        help="Whether sessions make room for others; dry_run only records which would "
        "(default: the server's setting)."
    ),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option(help="A label that rules choose executors by; repeatable.", metavar="KEY=VALUE"),
]
UnconfirmedOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Seconds after which a lost run counts as ended without confirmation; 0: never.",
    ),
]
PlacementOption = Annotated[
    Placement,
    typer.Option(help="Who chooses the nodes of pods: the server's plan, or the cluster alone."),
]


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name: up to 63 characters of a-z, 0-9 and -.")
    ],
    *,
    project: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="DOMAIN/NAME",
            help="Project to serve; repeatable (default: all projects).",
        ),
    ] = None,
    unconfirmed_after: UnconfirmedOption = None,
    placement: PlacementOption = Placement.NODE,
    avoid_suspects: AvoidsOption = Avoids.OFF,
    auto_quarantine: QuarantineOption = False,
    preemption: PreemptionOption = None,
    label: LabelOption = None,
    output: TokenOutput = TokenForm.TOKEN,
) -> None:
    """Create an executor and print its token. It is shown only once.

    Write it to a file for the agent: reprise executor create NAME > NAME.token
    """
    client = client_of(ctx)
    try:
        made = client.executor_create(
            name,
            projects=project or (),
            unconfirmed_after=unconfirmed_after,
            placement=placement,
            avoid_suspects=avoid_suspects,
            auto_quarantine=auto_quarantine,
            preemption=preemption or "",
            labels=pairs("--label", label),
        )
    except ApiError as error:
        if error.status != 409:
            raise
        text = f"there is an executor {name} already; a new token: reprise executor token {name}"
        raise CommandError(text, INVALID) from error
    _emit_token(made, output, f"executor/{made.name} created; its token is shown only once")


@app.command()
def token(
    ctx: typer.Context, name: ExecutorArgument, *, output: TokenOutput = TokenForm.TOKEN
) -> None:
    """Create a new token and print it. It is shown only once. All other tokens of the executor are
    revoked.

    An agent with an older token is refused from then on. Give it the new token and restart it.
    """
    made = client_of(ctx).executor_token(name)
    _emit_token(
        made,
        output,
        f"executor/{made.name} has a new token, shown only once; the others were revoked",
    )


@app.command()
def cordon(
    ctx: typer.Context,
    name: ExecutorArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown to users whose sessions wait.")],
) -> None:
    """Cordon an executor: it gets no new sessions. Running sessions continue."""
    client_of(ctx).executor_cordon(name, reason)
    typer.echo(f"executor/{name} cordoned")


@app.command()
def uncordon(ctx: typer.Context, name: ExecutorArgument) -> None:
    """Uncordon an executor: it gets new sessions again."""
    client_of(ctx).executor_uncordon(name)
    typer.echo(f"executor/{name} uncordoned")


@app.command()
def drain(
    ctx: typer.Context,
    name: ExecutorArgument,
    *,
    reason: Annotated[
        str, typer.Option(help="Reason, shown to users whose sessions ran there or wait.")
    ] = "",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also end interactive and inference sessions; they are not retried."
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait until the executor is empty.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Maximum time to wait; exits with 124 after it."),
    ] = None,
) -> None:
    """Drain an executor: cordon it and preempt its sessions. They are retried elsewhere as policies
    say."""
    client = client_of(ctx)
    done = client.executor_drain(name, reason=reason, force=force)
    typer.echo(f"executor/{name} draining: {done.asked} runs asked to stop, ", nl=False)
    typer.echo(f"{done.returned} leases taken back, {done.left} left")
    if done.kept:
        note(f"{done.kept} of them are never retried and continue; --force ends them")
    if wait:
        _await_empty(client, name, timeout)
        typer.echo(f"executor/{name} drained")


def _await_empty(client: "Client", name: str, timeout: float | None) -> None:
    """Show what is left on the executor until nothing is."""
    deadline = None if timeout is None else time.monotonic() + timeout
    shown = console(err=True)
    with shown.status("") if shown.is_terminal else nullcontext() as line:
        last_shown = 0
        while left := client.executor(name).lease_count:
            if line is not None:
                line.update(f"{left} left on executor {name}")
            elif left != last_shown:
                note(f"{left} left")
            if deadline is not None and time.monotonic() >= deadline:
                raise CommandError(f"executor {name} still has {counted(left, 'lease')}", TIMED_OUT)
            last_shown = left
            time.sleep(POLL_SECONDS)


@app.command()
def reservations(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", autocompletion=complete_executor, help="Only its own."),
    ] = None,
    *,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the nodes that are kept free for sessions that waited for too long, or for which others
    make room."""
    found = list(client_of(ctx).reservations(executor=name))

    def table() -> RenderableType:
        now = local_now()
        rows = ([each.executor, *reservation_cells(each, now)] for each in found)
        return grid(["EXECUTOR", "SESSION", "PROJECT", "NODES", "SINCE"], rows)

    emit(
        output,
        [plain(each) for each in found],
        table=table,
        names=[str(each.session_id) for each in found],
    )


@app.command()
def preemptions(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", autocompletion=complete_executor, help="Only its own."),
    ] = None,
    *,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Only those with this session on either side.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the sessions that made room for others, newest first."""
    found = list(client_of(ctx).preemptions(executor=name, session=session))

    def table() -> RenderableType:
        now = local_now()
        rows = (
            [
                each.executor,
                _side(each.victim, each.victim_class),
                _side(each.taker, each.taker_class),
                each.rule.replace("_", " ") + (" (dry run)" if each.dry_run else ""),
                "" if each.lost_seconds is None else span(each.lost_seconds),
                when(each.planned_at, now),
            ]
            for each in found
        )
        return grid(["EXECUTOR", "MADE ROOM", "FOR", "BY", "LOST", "WHEN"], rows)

    emit(
        output,
        [plain(each) for each in found],
        table=table,
        names=[str(each.victim) for each in found if each.victim],
    )


def _side(session: object, priority_class: str | None) -> str:
    return str(session) if session else f"class {priority_class or '(deleted)'}"


@app.command()
def delete(
    ctx: typer.Context,
    name: ExecutorArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete an executor without leases, and its tokens."""
    get.delete(ctx, "executor", name, yes=yes)


def _emit_token(made: "Executor | ExecutorToken", output: TokenForm, what: str) -> None:
    if output is TokenForm.TOKEN:
        note(what)
        typer.echo(made.token)
    else:
        emit(Format(output), plain(made), table=Text, names=())
