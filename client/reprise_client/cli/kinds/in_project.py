"""The base of the kinds that a project has, each with a name of its own there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.kinds.base import FieldError, Kind
from reprise_client.cli.scope import Scope, home_scope

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Queue, Schedule

NamedInProject = TypeVar("NamedInProject", bound="Queue | Schedule")


class InProjectKind(Kind[NamedInProject]):
    """The base of kinds that are identified by a project and a name."""

    metadata_keys = ("name", "domain", "project")
    identity = ("name", "project")
    address_key = "address"

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key in self.identity:
            if key in spec:
                yield f"spec.{key}", "belongs in metadata"

    def field_path(self, name: str) -> str:
        return f"metadata.{name}" if name in self.identity else f"spec.{name}"

    def metadata(self, item: NamedInProject) -> dict[str, str]:
        return {"name": item.name, **Scope.at(item.project).metadata}

    def project_of(self, client: Client, data: Mapping[str, Any], asked: Scope | None) -> str:
        """Return the project of a document; `asked` is the scope from the options.

        Raises `FieldError` if the two contradict, `CommandError` if neither names a project.
        """
        named = Scope.from_metadata(data["metadata"])
        if asked is not None and named not in {Scope(), asked}:
            raise FieldError(
                "metadata.project", f"must match the options, which name {asked.words}", USAGE
            )
        return project_meant(client, named if named.project else asked, self.words[1])


def project_meant(client: Client, scope: Scope | None, noun: str) -> str:
    """Return the project of a scope, or the user's own. Raises `CommandError` if none is known."""
    home = home_scope(client, scope)
    if home.project is None:
        raise CommandError(f"a {noun} belongs to a project: give --project DOMAIN/NAME", USAGE)
    return home.address
