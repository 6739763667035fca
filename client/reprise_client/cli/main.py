"""The entry point of the `reprise` command."""

import errno
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from reprise_client.cli import (
    breaker,
    budget,
    context,
    create,
    executor,
    job_set,
    node,
    queue,
    quota,
    schedule,
    session,
    webhook,
)
from reprise_client.cli.apply import apply, update
from reprise_client.cli.audit import audit
from reprise_client.cli.exits import FAILED, USAGE, CommandError, code_of, report
from reprise_client.cli.explain import explain
from reprise_client.cli.failures import failures
from reprise_client.cli.get import delete, describe, get
from reprise_client.cli.graph import graph
from reprise_client.cli.progress import progress
from reprise_client.cli.report import report as report_command
from reprise_client.cli.retries import retries
from reprise_client.cli.run import run
from reprise_client.cli.simulate import simulate
from reprise_client.cli.spec import BehindDashes
from reprise_client.cli.top import top
from reprise_client.cli.with_json import offer_json
from reprise_client.errors import RepriseError


class Commands(TyperGroup):
    """The root command. It turns errors of the SDK into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RepriseError as error:
            report(error)
            raise typer.Exit(code_of(error)) from error
        except UnicodeEncodeError as error:  # in an address; what is sent is told by the SDK
            report(CommandError("an argument is not valid UTF-8", USAGE))
            raise typer.Exit(USAGE) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader closed the pipe
                raise
            message = str(error) if error.filename else f"cannot write the answer: {error.strerror}"
            report(CommandError(message, FAILED))
            raise typer.Exit(FAILED) from error


app = typer.Typer(
    cls=Commands,
    help="Run batch sessions on many clusters, and retry failed ones by policy.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib import metadata  # noqa: PLC0415  # this import takes a tenth of the start

        typer.echo(f"reprise {metadata.version('reprise-client')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    context_name: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="Context to use: a saved server."),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    ctx.obj = context_name


app.command()(context.login)
app.add_typer(context.app, name="context")
session.app.command()(explain)
session.app.command()(graph)
app.add_typer(session.app, name="session")
app.add_typer(job_set.app, name="job-set")
app.add_typer(queue.app, name="queue")
app.add_typer(executor.app, name="executor")
app.add_typer(node.app, name="node")
app.add_typer(breaker.app, name="breaker")
app.add_typer(quota.app, name="quota")
app.add_typer(budget.app, name="budget")
app.add_typer(create.app, name="create")
app.add_typer(schedule.app, name="schedule")
app.add_typer(webhook.app, name="webhook")
app.command(cls=BehindDashes)(run)
app.command()(apply)
app.command()(update)
app.command()(get)
app.command()(describe)
app.command()(delete)
app.command()(retries)
app.command()(simulate)
app.command()(top)
app.command()(failures)
app.command("report")(report_command)
app.command()(progress)
app.command()(audit)
offer_json(app)


def main() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal may lack characters of a name
    app(prog_name="reprise")
