"""The kind of priority classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from reprise_client.cli.exits import INVALID
from reprise_client.cli.kinds.base import (
    CREATED,
    Applied,
    FieldError,
    How,
    NamedKind,
    Row,
    changed,
    found_or_made,
    found_or_none,
)
from reprise_client.cli.output import facts
from reprise_client.cli.scope import Scope
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import PriorityClass

SPEC = ("value", "preemptible", "may_preempt", "protected_for", "domains", "projects")


class PriorityClassKind(NamedKind["PriorityClass"]):
    name = "PriorityClass"
    words = ("priorityclasses", "priorityclass", "priority-classes", "priority-class", "pc")
    noun = "priority class"
    spec_keys = SPEC
    heads = ("NAME", "VALUE", "PREEMPTIBLE", "MAY PREEMPT", "CHANGED")
    wide_heads = ("MAY NAME IT",)

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        name, spec = str(data["metadata"]["name"]), dict(data["spec"])
        if "value" not in spec:
            raise FieldError("spec.value", "is missing: a whole number", INVALID)
        value = spec.pop("value")
        before, after = found_or_made(
            lambda: found_or_none(client.priority_class, name),
            lambda: client.priority_class_create(name, value, **spec),
            how,
        )
        read = before.etag if before else ""
        after = after or client.priority_class_apply(name, value, if_match=read, **spec)
        return Applied(after.name, changed(before, after, *SPEC) if before else CREATED)

    def all(self, client: Client, home: Scope | None) -> Iterable[PriorityClass]:
        return client.priority_classes()

    def read(self, client: Client, name: str) -> PriorityClass:
        return client.priority_class(name)

    def delete(self, client: Client, item: PriorityClass) -> str:
        client.priority_class_delete(item.name)
        return "deleted"

    def row(self, item: PriorityClass, now: datetime) -> Row:
        return [
            item.name,
            str(item.value),
            _yes(item.preemptible),
            _yes(item.may_preempt),
            when(item.updated_at, now),
        ]

    def wide_row(self, item: PriorityClass, now: datetime) -> Row:
        return [_namers(item)]

    def description(self, client: Client, item: PriorityClass, now: datetime) -> RenderableType:
        return facts(
            [
                ("Class", item.name),
                ("Value", f"{item.value} (higher ones go first)"),
                ("Preemptible", _yes(item.preemptible)),
                ("May preempt", _yes(item.may_preempt)),
                ("Protected for", f"{item.protected_for:g} s of running"),
                ("May name it", _namers(item)),
                ("Created", when(item.created_at, now)),
                ("Changed", when(item.updated_at, now)),
            ]
        )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _namers(item: PriorityClass) -> str:
    if item.name == "default":
        return "all"
    return ", ".join([*item.domains, *item.projects]) or "cluster admins"
