"""Follows a chain on a terminal: the log of every attempt, and what happens in between."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from reprise_client.cli.exits import report
from reprise_client.cli.log_lines import WithoutProgress
from reprise_client.cli.output import console, local_now, note
from reprise_client.cli.text import Text
from reprise_client.cli.unseen import marked_log
from reprise_client.cli.words import attempt_of, attempt_summary, outcome, span, what_next
from reprise_client.errors import ApiError, RepriseError

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Decision, Session

REFRESHES_PER_SECOND = 4


class Progress:
    """A status line on standard error that follows a session, with notes above it.

    Without a terminal only the notes are printed.
    """

    def __init__(self) -> None:
        self.console = console(err=True)
        self.session: Session | None = None

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style))

    def __rich__(self) -> RenderableType:
        session, now = self.session, local_now()
        if session is None or (session.final and not session.retry_waits):
            return Text()
        state = session.retry_state
        if session.retry_waits and state.due_at and session.finished_at:
            total = (state.due_at - session.finished_at).total_seconds()
            done = (now - session.finished_at).total_seconds()
            line = Table.grid(padding=(0, 1))
            line.add_row(
                ProgressBar(total=max(total, 1.0), completed=done, width=20),
                Text(what_next(session, None, now), "yellow"),
            )
            return line
        since = session.started_at or session.created_at
        lasting = f" for {span((now - since).total_seconds())}" if since else ""
        waits = "" if session.started_at or not session.status_message else session.status_message
        text = f"{attempt_of(state)} {session.status}{lasting}{waits and ': '}{waits}"
        return Text(text, "dim", no_wrap=True, overflow="ellipsis")


@contextmanager
def progress() -> Iterator[Progress]:
    shown = Progress()
    if not shown.console.is_terminal:
        yield shown
        return
    with Live(
        console=shown.console,
        get_renderable=lambda: shown,
        refresh_per_second=REFRESHES_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield shown


@contextmanager
def cancelling(client: Client, session_id: str) -> Iterator[threading.Event]:
    """On the first Ctrl-C inside the block cancel the chain, on the second one leave.

    Yields an event that is set by the first Ctrl-C. A thread makes the call, because the signal may
    interrupt another call on the same connections.
    """
    asked = threading.Event()

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        threading.Thread(target=_cancel, args=(client, session_id), daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _cancel(client: Client, session_id: str) -> None:
    note("Cancelling. Press Ctrl-C again to exit without waiting.", "yellow")
    try:
        client.cancel(session_id)
    except RepriseError as error:
        report(error)


def decision_of(client: Client, session: Session) -> Decision | None:
    """Return the decision behind a waiting retry, or None."""
    if not session.retry_waits:
        return None
    try:
        return client.decision(session.id)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def switch_of(client: Client, session: Session) -> str | None:
    """Return the mode that holds back the session's retry, or None if unknown or not held."""
    if session.retry_state.state != "held":
        return None
    try:
        return client.retry_settings(project=session.project).effective_mode
    except ApiError as error:
        if error.status in {403, 404}:
            return None
        raise


def follow_chain(client: Client, session_id: str, *, progress: bool = False) -> Session:
    """Print the logs on standard output and notes on standard error. Return the last attempt.

    With `progress` the logs have the lines that tell the progress, too.
    """
    session = client.session(session_id)
    while True:
        follow_attempt(client, session, progress=progress)
        after = _next_attempt(client, session.id)
        if after.id == session.id:
            return after
        session = after


def follow_attempt(client: Client, session: Session, *, progress: bool = False) -> None:
    """Print a heading, then the log to its end."""
    note(f"--- {attempt_summary(session.retry_state)}, session {session.id}", "bold")
    _await_start(client, session.id)
    if not show_pieces(client.follow_logs(session.id), progress=progress):
        note("")


def show_pieces(pieces: Iterable[str], *, progress: bool) -> bool:
    """Print a log that comes in pieces. Return whether its last line has an end.

    Without `progress` the lines that tell the progress are left out.
    """
    last, filtered = "\n", WithoutProgress()
    for piece in pieces:
        if shown := piece if progress else filtered.feed(piece):
            last = shown
            echo_log(shown)
    if rest := filtered.end():
        last = rest
        echo_log(rest)
    return last.endswith("\n")


def echo_log(log: str | bytes) -> None:
    """Print a part of a log: as it is, or for a terminal with marks for what nobody sees."""
    if sys.stdout.isatty():
        log = marked_log(log if isinstance(log, str) else log.decode("utf-8", "replace"))
    typer.echo(log, nl=False)


def _await_start(client: Client, session_id: str) -> None:
    with progress() as shown:
        for session in client.watch(session_id, chain=False):
            shown.session = session
            if session.started:
                return


def _next_attempt(client: Client, session_id: str) -> Session:
    """Return the attempt after this one, or this one again if it was the last."""
    with progress() as shown:
        session = track(client, session_id, shown, chain=False)
        for session in client.watch(session_id):
            shown.session = session
            if session.id != session_id:
                break
    return session


def track(
    client: Client,
    session_id: str,
    shown: Progress,
    *,
    chain: bool = True,
    timeout: float | None = None,
) -> Session:
    """Wait for the end, with a line about each attempt's end and what follows.

    Return the last one.
    """
    states: dict[str, str] = {}

    def changed(session: Session) -> None:
        shown.session = session
        if not session.final:
            return
        before, state = states.get(session.id), session.retry_state.state
        states[session.id] = state
        if before is None:
            _print_end(session, shown)
        # A dispatched retry is not announced, because its own end will be.
        if before is None or (state not in (before, "retried")):
            _print_next(client, session, shown)

    return client.wait(session_id, chain=chain, timeout=timeout, on_change=changed)


def _print_end(session: Session, shown: Progress) -> None:
    style = "green" if session.status == "TERMINATED" else "red"
    shown.say(f"{attempt_of(session.retry_state)} {outcome(session)}", style)
    if session.status == "ERROR" and session.started_at is None and session.status_message:
        # There is no log that would say why.
        shown.say(session.status_message)


def _print_next(client: Client, session: Session, shown: Progress) -> None:
    if session.status == "ERROR":
        decision, switch = decision_of(client, session), switch_of(client, session)
        next_step = what_next(session, decision, local_now(), switch)
        shown.say(next_step, "yellow")
