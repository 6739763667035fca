"""`reprise create`: tenants, roles and tokens, which need no document."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.kinds.membership import MembershipKind
from reprise_client.cli.output import Format, emit, note, plain
from reprise_client.cli.scope import DomainOption, ProjectOption, asked_scope, home_scope
from reprise_client.cli.secrets import TokenForm, TokenOutput
from reprise_client.cli.state import client_of

app = typer.Typer(help="Make domains, projects, memberships and tokens.", no_args_is_help=True)


class Role(StrEnum):
    VIEWER = "viewer"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    DOMAIN_ADMIN = "domain_admin"


@app.command()
def domain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Up to 63 of a-z, 0-9 and -.")],
) -> None:
    """Make a domain."""
    typer.echo(f"domain/{client_of(ctx).domain_create(name).name} created")


@app.command()
def project(
    ctx: typer.Context,
    address: Annotated[str, typer.Argument(metavar="DOMAIN/NAME", help="Where, and its name.")],
) -> None:
    """Make a project with its default queue."""
    within, slash, name = address.partition("/")
    if not slash:
        raise CommandError(f"{address!r} is not of the form DOMAIN/NAME", USAGE)
    typer.echo(f"project/{client_of(ctx).project_create(within, name).address} created")


@app.command()
def membership(
    ctx: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's name.")],
    role: Annotated[Role, typer.Argument(help="What they may do there.", case_sensitive=False)],
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
) -> None:
    """Give somebody a role in a project, or in all projects of a domain."""
    client = client_of(ctx)
    query = home_scope(client, asked_scope(domain, project)).query
    if not query:
        raise CommandError("where? Name a --project DOMAIN/NAME or a --domain", USAGE)
    made = client.membership_create(user, role.value, **query)
    typer.echo(f"membership/{MembershipKind().address(made)} created")


@app.command()
def token(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    *,
    project: Annotated[
        str | None, typer.Option("--project", metavar="DOMAIN/NAME", help="Good for it only.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="May only look.")] = False,
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=3650, help="How long; else as the one that makes it."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="Whose; for cluster admins.")
    ] = None,
    output: TokenOutput = TokenForm.TOKEN,
) -> None:
    """Make a token and print it, this once.

    It gives no more than the one that this command uses.
    """
    made = client_of(ctx).token_create(
        name,
        user=user,
        project=project,
        read_only=read_only,
        expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
    )
    if output is TokenForm.TOKEN:
        note(f"token/{made.prefix} created, shown only now; end it: "
             f"reprise delete token {made.prefix}")  # fmt: skip
        typer.echo(made.token)
    else:
        emit(Format(output), plain(made), table=Text, names=())
