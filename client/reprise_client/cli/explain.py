"""`reprise session explain`: why a session was retried or not, or how it came to succeed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from reprise_client.cli import views
from reprise_client.cli.output import Format, OutputOption, emit, local_now, plain
from reprise_client.cli.state import IdArgument, client_of, session_id
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.models import Attempt, Session


def explain(ctx: typer.Context, typed: IdArgument, output: OutputOption = Format.TABLE) -> None:
    """Explain why a failed session was or was not retried, or what led to a success."""
    client = client_of(ctx)
    found = session_id(client, typed)
    try:
        decision = client.decision(found)
    except ApiError as error:
        session = client.session(found) if error.status == 404 else None
        if session is None or session.status != "TERMINATED":
            raise
        _explain_success(output, session, client.attempts(found))
        return
    emit(
        output,
        plain(decision),
        table=lambda: views.explanation(decision, local_now()),
        names=[decision.session_id],
    )


def _explain_success(form: Format, session: Session, chain: Sequence[Attempt]) -> None:
    data = {
        "session_id": session.id,
        "status": session.status,
        "explanation": [views.success_words(session)],
        "chain": [plain(each) for each in chain],
    }
    table = lambda: views.success(session, chain, local_now())  # noqa: E731
    emit(form, data, table=table, names=[session.id])
