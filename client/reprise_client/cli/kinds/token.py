"""The kind of tokens. They are named by their prefix; the secret part is never shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from reprise_client.cli.exits import USAGE
from reprise_client.cli.kinds.base import (
    Applied,
    FieldError,
    How,
    Kind,
    Row,
    found_or_none,
    missing,
)
from reprise_client.cli.output import facts
from reprise_client.cli.scope import Scope
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Token

PREFIX_LENGTH = 12
CREATE = "reprise create token NAME"


class TokenKind(Kind["Token"]):
    name = "Token"
    words = ("tokens", "token")
    metadata_keys = ("name",)
    address_key = "prefix"
    made_by = CREATE
    heads = ("NAME", "FOR", "BEARER", "PROJECT", "READ ONLY", "EXPIRES", "USED")
    wide_heads = ("MADE WITH", "CREATED")

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        raise FieldError("kind", f"a token cannot be created from a document: use {CREATE}", USAGE)

    def all(self, client: Client, home: Scope | None) -> Iterable[Token]:
        """Return the user's own tokens; all of them for a cluster admin if `home` is None."""
        return client.tokens(user=None if home is None else client.whoami().username)

    def find(self, client: Client, typed: str, home: Scope) -> Token:
        # Whoever pastes all of it does not send it where addresses are logged.
        prefix = typed[:PREFIX_LENGTH]
        found = found_or_none(client.token, prefix)
        if found is None:
            raise missing("token", prefix, "", self.words[0])
        return found

    def delete(self, client: Client, item: Token) -> str:
        client.token_revoke(item.prefix)
        return "revoked"

    def row(self, item: Token, now: datetime) -> Row:
        return [
            item.prefix,
            item.name,
            _bearer(item),
            item.project or "",
            "yes" if item.read_only else "",
            when(item.expires_at, now) or "never",
            when(item.last_used_at, now) or "never",
        ]

    def wide_row(self, item: Token, now: datetime) -> Row:
        return [item.made_with or "", when(item.created_at, now)]

    def description(self, client: Client, item: Token, now: datetime) -> RenderableType:
        made = ", ".join(each.prefix for each in client.tokens(made_with=item.prefix))
        return facts(
            [
                ("Token", item.prefix),
                ("For", item.name),
                ("Bearer", _bearer(item)),
                ("Good for", f"project {item.project}" if item.project else ""),
                ("Read only", "yes" if item.read_only else ""),
                ("Created", when(item.created_at, now)),
                ("Made with", item.made_with or ""),
                ("Expires", when(item.expires_at, now) or "never"),
                ("Last used", when(item.last_used_at, now) or "never"),
                ("Has made", made),
            ]
        )


def _bearer(item: Token) -> str:
    return f"executor {item.executor}" if item.executor else item.user or ""
