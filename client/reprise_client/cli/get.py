"""`reprise get`, `describe` and `delete`: show and delete what documents can create."""

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from reprise_client.cli.completion import complete_kind, complete_name
from reprise_client.cli.documents import write_documents
from reprise_client.cli.exits import USAGE, CommandError, code_of, complain
from reprise_client.cli.kinds import kind_called
from reprise_client.cli.kinds.base import Kind
from reprise_client.cli.output import console, grid, local_now, note
from reprise_client.cli.scope import DomainOption, ProjectOption, asked_scope, home_scope
from reprise_client.cli.state import client_of
from reprise_client.cli.unseen import json_escaped, say
from reprise_client.errors import ApiError

KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="policies, queues, categories, defaults, schedules, executors, webhooks, domains, "
        "projects, memberships or tokens; or KIND/NAME.",
        autocompletion=complete_kind,
    ),
]
NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="Name, or DOMAIN/PROJECT/NAME.", autocompletion=complete_name
    ),
]


class Form(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def get(
    ctx: typer.Context,
    kind_word: KindArgument,
    name: NameArgument = None,
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
    all_projects: Annotated[
        bool, typer.Option("--all-projects", "-A", help="Objects of all projects that you may see.")
    ] = False,
    output: Annotated[
        Form,
        typer.Option(
            "--output", "-o", help="Format of the answer; json and yaml can be used with `apply`."
        ),
    ] = Form.TABLE,
) -> None:
    """List policies, queues, defaults, executors, webhooks, projects, tokens, and more.

    The list has what a project can use: its own objects, its domain's and the cluster's. With a
    NAME, it has only the object of this name, in the project or above.
    """
    kind, name = _meant(kind_word, name)
    client = client_of(ctx)
    asked = asked_scope(domain, project)
    if name is not None:
        items = [kind.find(client, name, home_scope(client, asked))]
    else:
        home = None if all_projects else home_scope(client, asked)
        items = list(kind.all(client, home))
        if not items and output in {Form.TABLE, Form.WIDE}:
            where = f" in {home.words}" if home else ""
            note(f"No {kind.words[0]}{where}; to create one: {kind.made_by}")
            return
    _emit(kind, items, output, single=name is not None)


def _meant(kind_word: str, name: str | None) -> tuple[Kind[Any], str | None]:
    """Return the kind and the name, which may be typed as one word: `policy/ml-training`."""
    word, slash, rest = kind_word.partition("/")
    if slash and name is not None:
        raise CommandError(f"give {kind_word} or {word} {name}, not both", USAGE)
    return kind_called(word), (rest or None) if slash else name


def _emit(kind: Kind[Any], items: list[Any], form: Form, *, single: bool) -> None:
    match form:
        case Form.JSON:
            documents = [kind.document(item) for item in items]
            data = documents[0] if single else documents
            typer.echo(json_escaped(json.dumps(data, indent=2, ensure_ascii=False)))
        case Form.YAML:
            documents = [kind.document(item) for item in items]
            typer.echo(write_documents(documents), nl=False)
        case Form.NAME:
            for item in items:
                say(kind.address(item))
        case _:
            wide = form is Form.WIDE
            console(wide=wide).print(_table(kind, items, wide=wide))


def _table(kind: Kind[Any], items: list[Any], *, wide: bool) -> Any:
    now = local_now()
    return grid(
        [*kind.heads, *(kind.wide_heads if wide else ())],
        ([*kind.row(item, now), *(kind.wide_row(item, now) if wide else ())] for item in items),
    )


def describe(
    ctx: typer.Context,
    kind_word: KindArgument,
    name: NameArgument = None,
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
) -> None:
    """Show all details of one policy, queue, layer of defaults, executor, project, and more."""
    kind, name = _meant(kind_word, name)
    client = client_of(ctx)
    item = kind.find(
        client, _required(kind, name), home_scope(client, asked_scope(domain, project))
    )
    console().print(kind.description(client, item, local_now()))


def _required(kind: Kind[Any], name: str | None) -> str:
    if name is None and kind.needs_name:
        raise CommandError(f"give a NAME; to list them: reprise get {kind.words[0]}", USAGE)
    return name or ""


def delete(
    ctx: typer.Context,
    kind_word: KindArgument,
    name: NameArgument = None,
    *,
    domain: DomainOption = None,
    project: ProjectOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a policy, queue, layer of defaults, executor, webhook, project, and more.

    Asks for confirmation on a terminal. A scope without defaults inherits those above it.
    """
    kind, name = _meant(kind_word, name)
    client = client_of(ctx)
    asked = asked_scope(domain, project)
    if not kind.needs_name and name is None and asked is None:
        raise CommandError("give cluster, DOMAIN or DOMAIN/NAME", USAGE)
    item = kind.find(client, _required(kind, name), home_scope(client, asked))
    label = f"{kind.label}/{kind.address(item)}"
    if not yes and sys.stdin.isatty():
        if warning := kind.warning(client, item):
            note(f"warning: {warning}", "yellow")
        typer.confirm(f"Delete {label}?", abort=True, err=True)
    try:
        outcome = kind.delete(client, item)
    except ApiError as error:
        if error.status != 409:
            raise
        for line in _places(label, error):
            complain(line)
        raise typer.Exit(code_of(error)) from error
    typer.echo(f"{label} {outcome}")


def _places(label: str, error: ApiError) -> list[str]:
    """Return a refusal as lines: each use that prevents the deletion, and how to change it."""
    uses = error.problem.get("used_by")
    if not isinstance(uses, dict):
        return [f"{label}: {error.detail or error.title}"]
    queues = [str(address) for address in uses.get("queues") or []]
    lines = [f"- queue {each}: reprise get queue {each} -o yaml" for each in queues]
    if uses.get("default"):
        lines.append("- the cluster's default_policy: PATCH /api/v2/retry-settings/cluster/")
    many = "place" if len(lines) == 1 else "places"
    return [f"{label} is named by {len(lines)} {many}; take it out there first:", *lines]
