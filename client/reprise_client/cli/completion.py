"""Shell completion of names that only the server knows. Errors give no completions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

import reprise_client
from reprise_client.cli.kinds import KINDS, kind_called
from reprise_client.cli.scope import asked_scope, home_scope
from reprise_client.config import chosen, config_path, load
from reprise_client.errors import RepriseError

if TYPE_CHECKING:
    from reprise_client.api import Client

PATIENCE_SECONDS = 3.0


def complete_kind(incomplete: str) -> list[str]:
    """Return the plural of each kind, or all words that start with the typed text."""
    words = [kind.words[0] for kind in KINDS] if not incomplete else _all_words()
    return [word for word in words if word.startswith(incomplete.lower())]


def _all_words() -> list[str]:
    return [word for kind in KINDS for word in kind.words]


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the kind typed before."""
    return _names(ctx, str(ctx.params.get("kind_word") or ""), incomplete)


def complete_policy(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of policies that a session can add."""
    return _names(ctx, "policies", incomplete)


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the project's queues."""
    return _names(ctx, "queues", incomplete)


def complete_executor(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of executors."""
    return _names(ctx, "executors", incomplete)


def _names(ctx: typer.Context, word: str, incomplete: str) -> list[str]:
    with contextlib.suppress(RepriseError, typer.BadParameter), _client(ctx) as client:
        kind = kind_called(word)
        asked = asked_scope(ctx.params.get("domain"), ctx.params.get("project"))
        home = home_scope(client, asked)
        names = (kind.address(item).rpartition("/")[2] for item in kind.all(client, home))
        return sorted({name for name in names if name.startswith(incomplete)})
    return []


@contextlib.contextmanager
def _client(ctx: typer.Context) -> Iterator[Client]:
    # During completion no callback has run, so the root's option is still a parameter.
    named = ctx.find_root().params.get("context_name")
    context = chosen(load(config_path(os.environ)), named, os.environ)
    with reprise_client.Client(
        context.url, context.token, context.project, timeout=PATIENCE_SECONDS
    ) as client:
        yield client
