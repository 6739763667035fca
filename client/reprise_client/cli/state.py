"""The start of every command: the client of the chosen server, and session ids as typed."""

from __future__ import annotations

import os
import re
import uuid
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

import reprise_client
from reprise_client.cli.exits import NOT_FOUND, USAGE, CommandError
from reprise_client.config import chosen, config_path, load

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Session

SHORTEST_PREFIX = 6
CANDIDATES_SHOWN = 10

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="ID of a session, or an unambiguous beginning of it.")
]


def client_of(ctx: typer.Context) -> Client:
    """Return a client of the server that `--context`, the environment or the file names."""
    context = chosen(load(config_path(os.environ)), ctx.find_root().obj, os.environ)
    client = reprise_client.Client(context.url, context.token, context.project)
    ctx.find_root().call_on_close(client.close)
    return client


def session_id(client: Client, typed: str) -> str:
    """Return the full id for a typed id or the beginning of one.

    Raises `CommandError` if no session matches, or several do (they are listed).
    """
    if _is_uuid(typed):
        return typed
    prefix = typed.lower()
    if not re.fullmatch(rf"[0-9a-f-]{{{SHORTEST_PREFIX},}}", prefix):
        raise CommandError(
            f"{typed!r} is neither a session's id nor the first {SHORTEST_PREFIX} or more "
            "characters of one; see: reprise session list",
            USAGE,
        )
    found = _beginning_with(client, prefix)
    if not found:
        raise CommandError(f"no session's id begins with {typed}", NOT_FOUND)
    if len(found) > 1:
        raise CommandError(f"{typed} is ambiguous: {_candidates(found)}", USAGE)
    return found[0].id


def _is_uuid(typed: str) -> bool:
    try:
        uuid.UUID(typed)
    except ValueError:
        return False
    return True


def _beginning_with(client: Client, prefix: str) -> list[Session]:
    matches = client.sessions(search=prefix, project=None, page_size=100)
    # The search may also find names.
    return list(
        islice((item for item in matches if item.id.startswith(prefix)), CANDIDATES_SHOWN + 1)
    )


def _candidates(found: list[Session]) -> str:
    shown = ", ".join(
        f"{item.id} ({item.name or 'unnamed'}, {item.status})" for item in found[:CANDIDATES_SHOWN]
    )
    return f"{shown}, ..." if len(found) > CANDIDATES_SHOWN else shown
