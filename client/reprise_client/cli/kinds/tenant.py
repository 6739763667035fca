"""The kinds of domains and projects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.exits import USAGE
from reprise_client.cli.kinds.base import (
    CREATED,
    UNCHANGED,
    Applied,
    FieldError,
    How,
    Kind,
    NamedKind,
    Row,
    found_or_made,
    found_or_none,
    missing,
)
from reprise_client.cli.kinds.membership import members
from reprise_client.cli.output import facts
from reprise_client.cli.scope import Scope
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Domain, Project


class DomainKind(NamedKind["Domain"]):
    name = "Domain"
    words = ("domains", "domain")
    noun = "domain"
    made_by = "reprise create domain NAME"
    heads = ("NAME", "CREATED")

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        return self.unknown_fields(spec)

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        name = str(data["metadata"]["name"])
        before, _ = found_or_made(
            lambda: found_or_none(client.domain, name), lambda: client.domain_create(name), how
        )
        return Applied(name, UNCHANGED if before else CREATED)

    def all(self, client: Client, home: Scope | None) -> Iterable[Domain]:
        return client.domains()

    def read(self, client: Client, name: str) -> Domain:
        return client.domain(name)

    def delete(self, client: Client, item: Domain) -> str:
        client.domain_delete(item.name)
        return "deleted"

    def row(self, item: Domain, now: datetime) -> Row:
        return [item.name, when(item.created_at, now)]

    def description(self, client: Client, item: Domain, now: datetime) -> RenderableType:
        projects = ", ".join(each.name for each in client.projects(domain=item.name))
        return Group(
            facts(
                [
                    ("Domain", item.name),
                    ("Created", when(item.created_at, now)),
                    ("Projects", projects or "none that you may see"),
                ]
            ),
            *members(client, Scope(item.name)),
        )

    def warning(self, client: Client, item: Domain) -> str:
        return "its policies, defaults, quotas and roles go with it"


class ProjectKind(Kind["Project"]):
    name = "Project"
    words = ("projects", "project")
    metadata_keys = identity = ("name", "domain")
    address_key = "address"
    made_by = "reprise create project DOMAIN/NAME"
    heads = ("NAME", "DOMAIN", "CREATED")

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        return self.unknown_fields(spec)

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        named, name = data["metadata"].get("domain"), str(data["metadata"]["name"])
        domain = named or (asked and asked.domain)
        if not domain:
            raise FieldError("metadata.domain", "is required", USAGE)
        if asked is not None and domain != asked.domain:
            raise FieldError(
                "metadata.domain", f"must match the options, which name {asked.words}", USAGE
            )
        before, _ = found_or_made(
            lambda: found_or_none(client.project_get, f"{domain}/{name}"),
            lambda: client.project_create(domain, name),
            how,
        )
        return Applied(f"{domain}/{name}", UNCHANGED if before else CREATED)

    def field_path(self, name: str) -> str:
        return f"metadata.{name}"

    def all(self, client: Client, home: Scope | None) -> Iterable[Project]:
        """Return the domain's projects.

        For the scope of a project return all that the user may see.
        """
        if home is not None and home.project is None:
            return client.projects(domain=home.domain)
        return client.projects()

    def find(self, client: Client, typed: str, home: Scope) -> Project:
        """Return the project with this full address, or with this name in the domain."""
        address = typed if "/" in typed or home.domain is None else f"{home.domain}/{typed}"
        found = found_or_none(client.project_get, address) if "/" in address else None
        if found is None:
            raise missing("project", address, "", self.words[0])
        return found

    def delete(self, client: Client, item: Project) -> str:
        client.project_delete(item.address)
        return "deleted"

    def row(self, item: Project, now: datetime) -> Row:
        return [item.name, item.domain, when(item.created_at, now)]

    def description(self, client: Client, item: Project, now: datetime) -> RenderableType:
        queues = ", ".join(each.name for each in client.queues(project=item.address))
        return Group(
            facts(
                [
                    ("Project", item.address),
                    ("Created", when(item.created_at, now)),
                    ("Queues", queues),
                ]
            ),
            *members(client, Scope(item.domain, item.name)),
        )

    def warning(self, client: Client, item: Project) -> str:
        return "its queues, policies, defaults, quotas, roles and narrowed tokens go with it"
