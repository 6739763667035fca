"""`reprise login` and `reprise context`: which server, with which token."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

import reprise_client
from reprise_client.cli.output import Format, OutputOption, emit, facts, grid, note
from reprise_client.config import Config, Context, chosen, config_path, load, save
from reprise_client.errors import ConfigError

if TYPE_CHECKING:
    from reprise_client.models import Whoami

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

app = typer.Typer(help="Show or choose the server that commands use.", rich_markup_mode=None)


def login(
    url: Annotated[
        str | None, typer.Argument(help="URL of the server, such as http://127.0.0.1:8000.")
    ] = None,
    *,
    token: Annotated[
        str | None,
        typer.Option(help="Token (default: asked for, or read from standard input)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the context (default: the server's host).")
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="DOMAIN/NAME", help="Default project.")
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="credentials.json of a standalone server."),
    ] = None,
) -> None:
    """Check a token and save it for its server.

    The server becomes the current context.
    """
    known = _credentials(credentials)
    address = url or known.get("url")
    if not address:
        raise typer.BadParameter("give the server's URL, or --credentials FILE")
    secret = token or known.get("token") or _asked_token(address)
    with reprise_client.Client(address, secret) as client:
        me = client.whoami()
        context = Context(client.url, secret, project or known.get("project"))
    path = config_path(os.environ)
    save(load(path).with_context(name or _host(context.url), context), path)
    typer.echo(f"Logged in to {context.url} as {_who(me)}; saved in {path}.")
    if context.url.startswith("http://") and urlsplit(context.url).hostname not in LOOPBACK:
        note("The connection is not encrypted: the token can be read on its way.", "yellow")


def _credentials(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} is not a credentials file: it contains no JSON object")
    return data


def _asked_token(url: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Token for {url}", hide_input=True)).strip()
    token = sys.stdin.readline().strip()
    if not token:
        raise typer.BadParameter("give the token with --token or on standard input")
    return token


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _who(me: Whoami) -> str:
    rights = [
        text
        for text, holds in (("cluster admin", me.cluster_admin), ("read only", me.read_only))
        if holds
    ]
    return f"{me.username} ({', '.join(rights)})" if rights else me.username


@app.callback(invoke_without_command=True)
def context(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        list_contexts()


@app.command("list")
def list_contexts(output: OutputOption = Format.TABLE) -> None:
    """List the contexts. A star marks the current one."""
    config = load(config_path(os.environ))
    rows = [
        {
            "name": name,
            "current": name == config.current,
            "url": item.url,
            "project": item.project,
        }
        for name, item in config.contexts.items()
    ]
    emit(
        output,
        rows,
        names=config.contexts,
        table=lambda: grid(
            ["", "NAME", "URL", "PROJECT"],
            (
                ["*" if name == config.current else "", name, item.url, item.project or ""]
                for name, item in config.contexts.items()
            ),
        ),
    )


@app.command()
def use(
    name: Annotated[str, typer.Argument(help="Name of the context (see `context list`).")],
) -> None:
    """Make a context the current one."""
    path = config_path(os.environ)
    save(load(path).using(name), path)
    typer.echo(f"Commands now talk to {name}.")


@app.command()
def show(ctx: typer.Context, output: OutputOption = Format.TABLE) -> None:
    """Show the settings that a command would use, including the environment, without the token."""
    path = config_path(os.environ)
    config: Config = load(path)
    context = chosen(config, ctx.find_root().obj, os.environ)
    name = ctx.find_root().obj or _name_of(config, context)
    data = {"name": name, "url": context.url, "project": context.project, "file": str(path)}
    emit(
        output,
        data,
        names=[name],
        table=lambda: facts((key.capitalize(), value or "") for key, value in data.items()),
    )


def _name_of(config: Config, context: Context) -> str:
    current = config.contexts.get(config.current or "")
    return config.current or "" if current == context else "(environment)"
