"""The kind of memberships: who has which role where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from reprise_client.cli.exits import USAGE
from reprise_client.cli.kinds.base import (
    CREATED,
    Applied,
    FieldError,
    How,
    Kind,
    Row,
    changed,
    found_or_made,
    missing,
)
from reprise_client.cli.output import facts, grid, heading
from reprise_client.cli.rule_words import either
from reprise_client.cli.scope import Scope

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Membership


class MembershipKind(Kind["Membership"]):
    name = "Membership"
    words = ("memberships", "membership", "members", "member")
    metadata_keys = ("name", "domain", "project")
    spec_keys = ("role",)
    identity = ("user", "domain", "project")
    made_by = "reprise create membership USER ROLE --project DOMAIN/NAME"
    heads = ("NAME", "ROLE", "SCOPE")
    wide_heads = ("ID",)

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if not isinstance(spec.get("role"), str):
            yield "spec.role", "is required, as text"
        yield from self.unknown_fields(spec)

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        named = Scope.from_metadata(data["metadata"])
        scope = asked if named == Scope() else named
        if scope is None or scope.domain is None:
            raise FieldError(
                "metadata.domain", "is required: the domain or the project of the role", USAGE
            )
        if asked not in {None, scope}:
            raise FieldError(
                "metadata.domain", f"must match the options, which name {scope.words}", USAGE
            )
        user, role = str(data["metadata"]["name"]), str(data["spec"]["role"])
        before, after = found_or_made(
            lambda: _read(client, user, scope),
            lambda: client.membership_create(user, role, **scope.query),
            how,
        )
        if before is None:
            assert after is not None  # noqa: S101  # it was created just now
            return Applied(self.address(after), CREATED)
        after = client.membership_change(before.id, role)
        return Applied(self.address(after), changed(before, after, "role"))

    def field_path(self, name: str) -> str:
        return "spec.role" if name == "role" else f"metadata.{'name' if name == 'user' else name}"

    def metadata(self, item: Membership) -> dict[str, str]:
        return {"name": item.user, **Scope.at(item.place).metadata}

    def all(self, client: Client, home: Scope | None) -> Iterable[Membership]:
        """Return the memberships.

        For a project, those of its domain are included: they apply there, too.
        """
        if home is None or home.domain is None:
            return client.memberships()
        return chain.from_iterable(
            client.memberships(**scope.query) for scope in home.with_parents() if scope.domain
        )

    def find(self, client: Client, typed: str, home: Scope) -> Membership:
        """Return a user's membership in the project or its domain, or the one with the full
        address."""
        place, _, user = typed.rpartition("/")
        scopes = (
            [Scope.at(place)] if place else [each for each in home.with_parents() if each.domain]
        )
        for scope in scopes:
            if found := _read(client, user, scope):
                return found
        where = either(scope.words for scope in scopes)
        raise missing("membership of", user, where, self.words[0])

    def delete(self, client: Client, item: Membership) -> str:
        client.membership_delete(item.id)
        return "deleted"

    def address(self, item: Membership) -> str:
        return f"{item.place}/{item.user}"

    def row(self, item: Membership, now: datetime) -> Row:
        return [item.user, item.role, item.place]

    def wide_row(self, item: Membership, now: datetime) -> Row:
        return [str(item.id)]

    def description(self, client: Client, item: Membership, now: datetime) -> RenderableType:
        where = Scope.at(item.place).words
        everywhere = "" if item.project else ", in all its projects"
        return facts([("User", item.user), ("Role", item.role), ("Of", f"{where}{everywhere}")])


def members(client: Client, scope: Scope) -> Iterator[RenderableType]:
    """Yield the memberships of a scope, as a section of its description."""
    kind = MembershipKind()
    found = list(kind.all(client, scope))
    if found:
        yield heading("Members")
        yield grid(["USER", "ROLE", "OF"], [[each.user, each.role, each.place] for each in found])


def _read(client: Client, user: str, scope: Scope) -> Membership | None:
    return next(iter(client.memberships(user=user, **scope.query)), None)
