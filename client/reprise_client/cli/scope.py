"""The scopes of named things: the cluster, a domain or a project, as typed and in documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self, TypedDict

import typer

if TYPE_CHECKING:
    from reprise_client.api import Client

DomainOption = Annotated[str | None, typer.Option("--domain", metavar="DOMAIN", help="Domain.")]
ProjectOption = Annotated[
    str | None,
    typer.Option("--project", metavar="DOMAIN/NAME", help="Project (default: the context's)."),
]


class ScopeQuery(TypedDict, total=False):
    """A scope in the form of the SDK's parameters."""

    domain: str
    project: str


@dataclass(frozen=True)
class Scope:
    """The cluster (both None), a domain, or a project of a domain, by their names."""

    domain: str | None = None
    project: str | None = None

    @classmethod
    def at(cls, address: str) -> Self:
        """Return the scope of `domain`, `domain/project`, or `cluster` (or "")."""
        if address in {"", "cluster"}:
            return cls()
        domain, _, project = address.partition("/")
        return cls(domain, project or None)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Return the scope in a document's metadata."""
        return cls(metadata.get("domain"), metadata.get("project"))

    @property
    def address(self) -> str:
        """Return `domain/project`, `domain`, or "" for the cluster."""
        return "/".join(name for name in (self.domain, self.project) if name)

    @property
    def words(self) -> str:
        if self.project is not None:
            return f"project {self.address}"
        return "the cluster" if self.domain is None else f"domain {self.domain}"

    @property
    def query(self) -> ScopeQuery:
        if self.project is not None:
            return {"project": self.address}
        return {} if self.domain is None else {"domain": self.domain}

    @property
    def metadata(self) -> dict[str, str]:
        """Return the scope as metadata of a document."""
        both = {"domain": self.domain, "project": self.project}
        return {name: value for name, value in both.items() if value is not None}

    def with_parents(self) -> list[Scope]:
        """Return the scope and those it inherits from, the closest first."""
        found = [self]
        if self.project is not None:
            found.append(Scope(self.domain))
        return found if found[-1] == Scope() else [*found, Scope()]


def asked_scope(domain: str | None, project: str | None) -> Scope | None:
    """Return the scope of a command's options, or None if none was given."""
    if project is None:
        return None if domain is None else Scope(domain)
    if "/" not in project:
        if domain is None:
            raise typer.BadParameter("--project takes DOMAIN/NAME")
        return Scope(domain, project)
    scope = Scope.at(project)
    if domain not in {None, scope.domain}:
        raise typer.BadParameter(f"--project {project} is not in the domain {domain}")
    return scope


def home_scope(client: Client, asked: Scope | None) -> Scope:
    """Return the scope in which a name is looked up: from the options, the context or the token.

    If none is known it is the cluster.
    """
    if asked is not None:
        return asked
    return Scope.at(client.project or client.whoami().project or "")
