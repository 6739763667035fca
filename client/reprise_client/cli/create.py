"""`reprise create`: creates what documents describe, and things that need no document."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from reprise_client.cli.apply import file_option, send_documents
from reprise_client.cli.completion import complete_policy
from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.kinds.base import How
from reprise_client.cli.kinds.in_project import project_meant
from reprise_client.cli.kinds.membership import MembershipKind
from reprise_client.cli.output import Format, emit, note, plain
from reprise_client.cli.scope import DomainOption, ProjectOption, Scope, asked_scope, home_scope
from reprise_client.cli.secrets import TokenForm, TokenOutput
from reprise_client.cli.state import client_of
from reprise_client.cli.text import Text

if TYPE_CHECKING:
    from reprise_client.models import Token

app = typer.Typer(
    help="Create objects from documents (-f FILE), or queues, domains, projects, tokens and more.",
    no_args_is_help=True,
)


@app.callback(invoke_without_command=True)
def of_documents(
    ctx: typer.Context,
    *,
    files: Annotated[list[str] | None, file_option()] = None,
    domain: DomainOption = None,
    project: ProjectOption = None,
) -> None:
    """Make what documents describe (-f FILE), none of which may be there; or one of these."""
    asked = asked_scope(domain, project)
    if ctx.invoked_subcommand is not None:
        if files or asked:
            raise typer.BadParameter(
                "options before the command are for -f FILE only; put them after it"
            )
        return
    if not files:
        raise typer.BadParameter("give -f FILE or a command")
    send_documents(ctx, files, asked, How.CREATE)


class Role(StrEnum):
    VIEWER = "viewer"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    DOMAIN_ADMIN = "domain_admin"


@app.command()
def domain(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name: up to 63 characters of a-z, 0-9 and -.")
    ],
) -> None:
    """Create a domain."""
    typer.echo(f"domain/{client_of(ctx).domain_create(name).name} created")


@app.command()
def project(
    ctx: typer.Context,
    address: Annotated[
        str, typer.Argument(metavar="DOMAIN/NAME", help="Domain and name of the project.")
    ],
) -> None:
    """Create a project and its default queue."""
    within, slash, name = address.partition("/")
    if not slash:
        raise CommandError(f"{address!r} is not of the form DOMAIN/NAME", USAGE)
    typer.echo(f"project/{client_of(ctx).project_create(within, name).address} created")


@app.command()
def queue(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="NAME or DOMAIN/PROJECT/NAME.")],
    *,
    retry_policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Retry policies of its sessions, in order; repeatable.",
            autocompletion=complete_policy,
        ),
    ] = None,
    priority_factor: Annotated[
        float | None, typer.Option(help="Priority factor; lower goes first (default: 1).")
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Create a queue, like a document would."""
    client = client_of(ctx)
    place, slash, short = name.rpartition("/")
    asked = asked_scope(None, project)
    if slash and asked not in {None, Scope.at(place)}:
        raise CommandError(f"{name} is not in the project {project}", USAGE)
    given = {"retry_policies": names_of(retry_policy), "priority_factor": priority_factor}
    fields = {field: value for field, value in given.items() if value not in (None, [])}
    home = project_meant(client, Scope.at(place) if slash else asked, "queue")
    made = client.queue_create(home, short, **fields)
    typer.echo(f"queue/{made.address} created")


def names_of(texts: list[str] | None) -> list[str]:
    """Return the names in comma-separated texts, in order.

    Raises `BadParameter` for an empty one.
    """
    names = [name.strip() for text in texts or [] for name in text.split(",")]
    if not all(names):
        raise typer.BadParameter("--retry-policy takes names with commas between them")
    return names


@app.command()
def membership(
    ctx: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's name.")],
    role: Annotated[Role, typer.Argument(help="Role.", case_sensitive=False)],
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
) -> None:
    """Give a user a role in a project, or in all projects of a domain."""
    client = client_of(ctx)
    query = home_scope(client, asked_scope(domain, project)).query
    if not query:
        raise CommandError("give --project DOMAIN/NAME or --domain", USAGE)
    made = client.membership_create(user, role.value, **query)
    typer.echo(f"membership/{MembershipKind().address(made)} created")


@app.command()
def token(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the token, such as its purpose.")
    ],
    *,
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="DOMAIN/NAME", help="Restrict the token to this project."
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow reading only.")] = False,
    days: Annotated[
        int | None,
        typer.Option(
            "--days", min=1, max=3650, help="Days until it expires (default: as the token in use)."
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Owner of the token; for cluster admins."),
    ] = None,
    output: TokenOutput = TokenForm.TOKEN,
) -> None:
    """Create a token and print it. It is shown only once.

    It grants no more than the token that this command uses.
    """
    made = client_of(ctx).token_create(
        name,
        user=user,
        project=project,
        read_only=read_only,
        expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
    )
    _show_token(made, output)


def _show_token(made: "Token", output: TokenForm) -> None:
    for warning in made.warnings:
        note(f"warning: {warning}")
    if output is TokenForm.TOKEN:
        note(f"token/{made.prefix} created; it is shown only once; to revoke it: "
             f"reprise delete token {made.prefix}")  # fmt: skip
        typer.echo(made.token)
    else:
        emit(Format(output), plain(made), table=Text, names=())
