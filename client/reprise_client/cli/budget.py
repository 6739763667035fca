"""`reprise budget`: the retry budgets that chains share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.output import Format, OutputOption, emit, grid, local_now, plain
from reprise_client.cli.state import client_of
from reprise_client.cli.words import span, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reprise_client.models import RetryBudget

app = typer.Typer(help="Show the retry budgets that chains share.", no_args_is_help=True)


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    project: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN/NAME", help="Only those of this project and its queues."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 200,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the shared retry budgets, and what is left of them."""
    filters = {"project": project, "page_size": min(limit, 500)}
    found = list(islice(client_of(ctx).retry_budgets(**filters), limit))
    emit(
        output,
        [plain(each) for each in found],
        table=lambda: _table(found, local_now()),
        names=(each.scope for each in found),
    )


def _table(found: Iterable[RetryBudget], now: datetime) -> RenderableType:
    return grid(
        ["LEVEL", "SCOPE", "RETRIES", "FIRST ATTEMPTS", "WINDOW", "OVER IT", "HELD", "SPENT SINCE"],
        (
            [
                each.level,
                each.scope,
                f"{each.retries} of {each.allowed}",
                str(each.first_attempts),
                span(each.window),
                _OVER.get(each.over, each.over),
                str(each.held or ""),
                when(each.spent_since, now) if each.spent_since else "",
            ]
            for each in found
        ),
    )


_OVER = {"postpone": "retries wait", "fail": "chains end"}
