"""`reprise session`: submit sessions, look at them, wait for them, steer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import RenderableType

from reprise_client.cli import views
from reprise_client.cli.bulk import AllOption, DryRunOption, YesOption, act_on_all, one_or_all
from reprise_client.cli.changes import RetryOptions, differences, secrets_dropped_words
from reprise_client.cli.exits import session_code
from reprise_client.cli.filters import Filters
from reprise_client.cli.follow import (
    decision_of,
    echo_log,
    follow_chain,
    progress,
    show_pieces,
    switch_of,
    track,
)
from reprise_client.cli.graph import downstream_words
from reprise_client.cli.live import refresh
from reprise_client.cli.log_lines import without_progress
from reprise_client.cli.output import (
    FollowOption,
    Format,
    OutputOption,
    emit,
    emit_followed,
    grid,
    local_now,
    note,
    plain,
)
from reprise_client.cli.spec import BehindDashes, Spec, document, with_options, with_spec
from reprise_client.cli.state import IdArgument, client_of, session_id
from reprise_client.cli.submit import submit

if TYPE_CHECKING:
    from reprise_client.models import Attempt, Event, Session

app = typer.Typer(help="Submit sessions, show them, wait for them.", no_args_is_help=True)

MaybeIdArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]", help="ID of a session, or an unambiguous beginning of it; or give --all."
    ),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Update the output until nothing more changes.")
]

Item = TypeVar("Item", "Session", "Attempt", "Event")


def _emit_session(form: Format, session: Session) -> None:
    now = local_now()
    table = lambda: views.session_table([session], now)  # noqa: E731
    emit(form, plain(session), table=table, names=[session.id])


def _emit_list(
    form: Format, items: Sequence[Item], table: Callable[[Sequence[Item], datetime], RenderableType]
) -> None:
    emit(
        form,
        [plain(item) for item in items],
        table=lambda: table(items, local_now()),
        names=(str(item.id) for item in items),
    )


def _only_tables(watch: bool, form: Format) -> None:
    if watch and form is not Format.TABLE:
        raise typer.BadParameter("--watch is for tables; programs follow `session events -f`")


@app.command(cls=BehindDashes)
@with_spec
def create(
    spec: Spec,
    ctx: typer.Context,
    image: Annotated[str | None, typer.Argument(metavar="IMAGE", help="Container image.")] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="CMD", help="Command to run in the container, after --."),
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="File with the body as YAML or JSON; - is stdin."
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Submit a session.

    The options override the file.
    """
    base = document(file)
    if image is not None:
        base["image"] = image
    if command:
        base["command"] = command
    _emit_session(output, submit(client_of(ctx), spec.body(base)))


@app.command("list")
@with_options(Filters)
def list_sessions(
    filters: Filters,
    ctx: typer.Context,
    *,
    tip: Annotated[bool, typer.Option("--tip", help="Only each chain's newest attempt.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number to show (0 = no limit).")] = 50,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List sessions, newest first."""
    _only_tables(watch, output)
    client = client_of(ctx)
    wanted = {
        **filters.of(client.project),
        "tip": tip or None,
        "page_size": min(limit or 500, 500),
    }

    def fetched() -> list[Session]:
        return list(islice(client.sessions(**wanted), limit or None))

    if watch:
        refresh(lambda: (views.session_table(fetched(), local_now()), False))
        return
    _emit_list(output, fetched(), views.session_table)


@app.command()
def info(
    ctx: typer.Context,
    typed: IdArgument,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one session, and what happens next and when."""
    _only_tables(watch, output)
    client = client_of(ctx)
    found = session_id(client, typed)

    def view(session: Session) -> RenderableType:
        decision, switch = decision_of(client, session), switch_of(client, session)
        return views.session_facts(session, decision, switch, local_now(), client.url)

    if watch:
        refresh(lambda: (view(session := client.session(found)), session.chain_over))
        return
    session = client.session(found)
    emit(output, plain(session), table=lambda: view(session), names=[session.id])


@app.command()
def diff(
    ctx: typer.Context,
    first: IdArgument,
    second: IdArgument,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show in what two sessions differ: what they run, where and how they ended."""
    client = client_of(ctx)
    pair = [client.session(session_id(client, each)) for each in (first, second)]
    rows = differences(*(plain(each) for each in pair))
    ids = [str(each.id) for each in pair]
    emit(
        output,
        [dict(zip(("field", "first", "second"), row, strict=True)) for row in rows],
        table=lambda: grid(["FIELD", *ids], ([name, str(a), str(b)] for name, a, b in rows)),
        names=[name for name, _, _ in rows],
    )
    if not rows:
        note("no difference")


@app.command()
def attempts(ctx: typer.Context, typed: IdArgument, output: OutputOption = Format.TABLE) -> None:
    """List all attempts of a session's chain."""
    client = client_of(ctx)
    _emit_list(output, client.attempts(session_id(client, typed)), views.attempt_table)


@app.command()
def logs(
    ctx: typer.Context,
    typed: IdArgument,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue as the log grows.")
    ] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="Only the last lines.")] = None,
    all_attempts: Annotated[
        bool, typer.Option("--all-attempts", help="Logs of the whole chain, with headings.")
    ] = False,
    all_lines: Annotated[
        bool, typer.Option("--progress", help="Also the lines that tell the progress.")
    ] = False,
) -> None:
    """Print a session's log, without the lines that tell its progress."""
    client = client_of(ctx)
    found = session_id(client, typed)
    shown: Callable[[bytes], bytes] = bytes if all_lines else without_progress
    if all_attempts and follow:
        follow_chain(client, client.attempts(found)[0].id, progress=all_lines)
    elif all_attempts:
        for item in client.attempts(found):
            note(f"--- attempt {item.attempt + 1}, session {item.id}: {item.status}", "bold")
            echo_log(shown(client.logs(item.id, tail=tail)))
    elif follow:
        show_pieces(client.follow_logs(found, tail=tail), progress=all_lines)
    else:
        echo_log(shown(client.logs(found, tail=tail)))


@app.command()
def events(
    ctx: typer.Context,
    typed: IdArgument,
    *,
    after: Annotated[str | None, typer.Option(help="Only events after this id.")] = None,
    follow: FollowOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the events of a session."""
    client = client_of(ctx)
    found = session_id(client, typed)
    if follow:
        followed = client.follow_events(found, after=after)
        emit_followed(output, followed, lambda e: views.event_line(e, local_now()))
        return
    _emit_list(output, list(client.events(found, after=after)), views.event_table)


@app.command()
def wait(
    ctx: typer.Context,
    typed: IdArgument,
    *,
    chain: Annotated[
        bool, typer.Option("--chain/--no-chain", help="Also wait for its retries.")
    ] = True,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Wait for the end of a session and its retries.

    Exits with the last attempt's exit code, or with 124 after the timeout.
    """
    client = client_of(ctx)
    with progress() as shown:
        last = track(client, session_id(client, typed), shown, chain=chain, timeout=timeout)
    if output is not Format.TABLE:
        _emit_session(output, last)
    raise typer.Exit(session_code(last))


@app.command()
@with_options(Filters)
def cancel(
    filters: Filters,
    ctx: typer.Context,
    typed: MaybeIdArgument = None,
    *,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Cancel a session and its waiting retry, or with --all all chains that match the filters.

    With --all it exits with 5 if every session was refused.
    """
    client = client_of(ctx)
    one = one_or_all(typed, everything, only_all=filters.given or dry_run or yes)
    if one is not None:
        _emit_session(output, client.cancel(session_id(client, one)))
        return
    call = partial(client.sessions_cancel_bulk, filters.of(client.project))
    act_on_all(call, "Cancel", dry_run=dry_run, yes=yes, output=output)


@app.command()
@with_options(Filters)
def priority(
    filters: Filters,
    ctx: typer.Context,
    typed: MaybeIdArgument = None,
    *,
    to: Annotated[
        int, typer.Option("--to", metavar="N", help="New priority; higher goes first in its class.")
    ],
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Change the priority of a session that waits, or with --all of all that match the filters.

    With --all it exits with 5 if every session was refused.
    """
    client = client_of(ctx)
    one = one_or_all(typed, everything, only_all=filters.given or dry_run or yes)
    if one is not None:
        _emit_session(output, client.set_priority(session_id(client, one), to))
        return
    call = partial(client.sessions_set_priority_bulk, filters.of(client.project), to)
    act_on_all(call, "Reprioritize", dry_run=dry_run, yes=yes, output=output)


@app.command()
@with_options(Filters)
def preempt(
    filters: Filters,
    ctx: typer.Context,
    typed: MaybeIdArgument = None,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown with the session.")] = "",
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Preempt a session that runs, or with --all all that match the filters (for operators). It is
    retried as its policies say.

    With --all it exits with 5 if every session was refused.
    """
    client = client_of(ctx)
    one = one_or_all(typed, everything, only_all=filters.given or dry_run or yes)
    if one is not None:
        _emit_session(output, client.preempt(session_id(client, one), reason=reason))
        return
    call = partial(client.sessions_preempt_bulk, filters.of(client.project), reason=reason)
    act_on_all(call, "Preempt", dry_run=dry_run, yes=yes, output=output)


@app.command("give-up")
@with_options(Filters)
def give_up(
    filters: Filters,
    ctx: typer.Context,
    typed: MaybeIdArgument = None,
    *,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """End a parked chain, which then is exhausted, or with --all all that match the filters.

    Try --retry-state parked. With --all it exits with 5 if every session was refused.
    """
    client = client_of(ctx)
    one = one_or_all(typed, everything, only_all=filters.given or dry_run or yes)
    if one is not None:
        _emit_session(output, client.give_up(session_id(client, one)))
        return
    call = partial(client.sessions_give_up_bulk, filters.of(client.project))
    act_on_all(call, "Give up", dry_run=dry_run, yes=yes, output=output)


@app.command()
@with_options(RetryOptions)
@with_options(Filters)
def retry(
    filters: Filters,
    changed: RetryOptions,
    ctx: typer.Context,
    typed: MaybeIdArgument = None,
    *,
    downstream: Annotated[
        bool,
        typer.Option(
            "--downstream", help="Also those that ended as dependency_failed because of it."
        ),
    ] = False,
    everything: AllOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")
    ] = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Retry a session now, whatever its budgets say, or with --all all sessions that match the
    filters.

    With --all, retries over the limits of retries per minute are scheduled for later. It exits with
    5 if every session was refused.
    """
    client = client_of(ctx)
    one = one_or_all(typed, everything, only_all=filters.given or yes)
    asked = changed.asked()
    if one is not None:
        made = client.retry(
            session_id(client, one), downstream=downstream, dry_run=dry_run, **asked
        )
        _emit_session(output, made)
        if dry_run:
            note("a dry run, nothing was changed")
        if made.secrets_dropped:
            note(secrets_dropped_words(made.secrets_dropped, dry=dry_run))
        for warning in made.warnings:
            note(f"warning: {warning}", "yellow")
        if downstream:
            note(downstream_words(made.downstream, dry=dry_run))
        return
    call = partial(
        client.sessions_retry_bulk, filters.of(client.project), downstream=downstream, **asked
    )
    act_on_all(call, "Retry", dry_run=dry_run, yes=yes, output=output)
