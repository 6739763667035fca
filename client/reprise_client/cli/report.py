"""`reprise report`: what retries were worth."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from reprise_client.cli.filters import age_option, moment
from reprise_client.cli.output import Format, OutputOption, emit, facts, grid, local_now, plain
from reprise_client.cli.spec import with_options
from reprise_client.cli.state import client_of
from reprise_client.cli.words import counted, span, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reprise_client.models import RetryReport, RetryReportRow


class By(StrEnum):
    CAUSE = "cause"
    RULE = "rule"
    POLICY = "policy"
    QUEUE = "queue"
    OWNER = "owner"
    IMAGE = "image"
    NODE = "node"
    SIGNATURE = "signature"
    DAY = "day"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The chains of the report; None means that an option was not given."""

    by: Annotated[By, typer.Option(help="By what the figures are told apart.")] = By.CAUSE
    project: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN/NAME", help="Project (default: the context's)."),
    ] = None
    all_projects: Annotated[
        bool, typer.Option("--all-projects", "-A", help="All projects that you may see.")
    ] = False
    since: Annotated[
        str | None, age_option("Ended at most this long ago: 7d, 90d. Default: 30 days.")
    ] = None
    until: Annotated[str | None, age_option("Ended at least this long ago.")] = None
    cause: Annotated[str | None, typer.Option(help="Only failures with this cause.")] = None
    rule: Annotated[
        str | None, typer.Option(metavar="POLICY/RULE", help="Only what this rule decided.")
    ] = None
    policy: Annotated[str | None, typer.Option(help="Only what this policy decided.")] = None
    queue: Annotated[str | None, typer.Option(help="Only attempts in this queue.")] = None
    owner: Annotated[str | None, typer.Option(help="Only attempts of this user.")] = None
    image: Annotated[str | None, typer.Option(help="Only attempts of this image.")] = None
    node: Annotated[
        str | None, typer.Option(help="Only attempts on this node: NAME or EXECUTOR/NAME.")
    ] = None
    signature: Annotated[str | None, typer.Option(help="Only failures of this kind.")] = None

    def asked(self) -> dict[str, Any]:
        """Return the arguments of the call."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        times = {name: moment(f"--{name}", given[name]) for name in ("since", "until")}
        return {**given, **times, "by": self.by.value}


@with_options(Wanted)
def report(
    wanted: Wanted,
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows to show.")] = 20,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all rows as CSV.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what retries were worth: what they recovered, and what they cost."""
    if as_csv and output is not Format.TABLE:
        raise typer.BadParameter("give --csv or -o, not both")
    client = client_of(ctx)
    asked = wanted.asked()
    if as_csv:
        # With its own line ends.
        typer.echo(client.retry_report_csv(**asked), nl=False)
        return
    found = client.retry_report(**asked)
    emit(
        output,
        plain(found),
        table=lambda: _table(found, limit),
        names=(_name(row) for row in found.results),
    )


def _table(found: RetryReport, limit: int) -> RenderableType:
    rows = [row for row in found.results if row.chains]
    shown = rows[-limit:] if found.by == By.DAY else rows[:limit]
    heads = ["CHAINS", "RETRIED", "RECOVERED", "GIVEN UP", "RUN", "RESCUED", "WASTED", "WAITING"]
    table = grid(
        [found.by.upper(), *heads, "MEDIAN", "P95"], [[_name(row), *_cells(row)] for row in shown]
    )
    return Group(_total(found), "", table)


def _total(found: RetryReport) -> RenderableType:
    total = found.total
    return facts(
        [
            ("Time", f"{found.since:%Y-%m-%d} up to {found.until:%Y-%m-%d} 00:00 UTC"),
            ("Project", found.project or "all"),
            ("Chains", f"{total.chains:,} ended, {total.retried_chains:,} of them after a retry"),
            ("Recovered", counted(total.recovered_chains, "chain")),
            ("Given up", counted(total.given_up_chains, "chain")),
            ("Rescued", f"{span(total.rescued_run_seconds)} of run time"),
            ("Wasted", f"{span(total.wasted_run_seconds)} of {span(total.run_seconds)} run time"),
            ("Waiting", span(total.waiting_seconds)),
            *(("Advice", each) for each in found.advice),
            *([("Advised", when(found.advice_computed_at, local_now()))] if found.advice else ()),
        ]
    )


def _cells(row: RetryReportRow) -> list[str]:
    counts = (row.chains, row.retried_chains, row.recovered_chains, row.given_up_chains)
    times = (
        row.run_seconds,
        row.rescued_run_seconds,
        row.wasted_run_seconds,
        row.waiting_seconds,
        row.recovery_seconds_median,
        row.recovery_seconds_p95,
    )
    return [*(f"{each:,}" for each in counts), *("" if s is None else span(s) for s in times)]


def _name(row: RetryReportRow) -> str:
    return "(others)" if row.value is None else row.value
