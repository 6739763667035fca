"""The kind of failure categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.kinds.base import (
    CREATED,
    Applied,
    How,
    NamedKind,
    Row,
    changed,
    found_or_made,
    found_or_none,
)
from reprise_client.cli.kinds.policy import PolicyKind
from reprise_client.cli.output import facts, heading, numbered
from reprise_client.cli.rule_words import matcher_words, rule_label
from reprise_client.cli.scope import Scope
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import FailureCategory

SPEC = ("position", "matchers")


class CategoryKind(NamedKind["FailureCategory"]):
    name = "FailureCategory"
    words = ("categories", "category", "fc", "failurecategories", "failurecategory")
    noun = "failure category"
    spec_keys = SPEC
    heads = ("NAME", "POSITION", "MATCHERS", "CHANGED")
    wide_heads = ("MATCHES",)

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        name, spec = str(data["metadata"]["name"]), data["spec"]
        before, after = found_or_made(
            lambda: found_or_none(client.failure_category, name),
            lambda: client.failure_category_create(name, **spec),
            how,
        )
        read = before.etag if before else ""
        after = after or client.failure_category_apply(name, if_match=read, **spec)
        return Applied(after.name, changed(before, after, *SPEC) if before else CREATED)

    def all(self, client: Client, home: Scope | None) -> Iterable[FailureCategory]:
        return client.failure_categories()

    def read(self, client: Client, name: str) -> FailureCategory:
        return client.failure_category(name)

    def delete(self, client: Client, item: FailureCategory) -> str:
        client.failure_category_delete(item.name)
        return "deleted"

    def row(self, item: FailureCategory, now: datetime) -> Row:
        return [
            item.name,
            str(item.position),
            str(len(item.matchers)),
            when(item.updated_at, now),
        ]

    def wide_row(self, item: FailureCategory, now: datetime) -> Row:
        return ["; or ".join(matcher_words(each) for each in item.matchers)]

    def description(self, client: Client, item: FailureCategory, now: datetime) -> RenderableType:
        return Group(
            facts(
                [
                    ("Category", item.name),
                    ("Position", f"{item.position} (lower ones are tried first)"),
                    ("Created", when(item.created_at, now)),
                    ("Changed", when(item.updated_at, now)),
                    ("Asked for by", ", ".join(_rules(client, item)) or "no rule yet"),
                ]
            ),
            heading("A failure belongs to it if one of these holds"),
            numbered(matcher_words(matcher) for matcher in item.matchers),
        )

    def warning(self, client: Client, item: FailureCategory) -> str:
        if rules := _rules(client, item):
            return f"rules that ask for it will not match any more: {', '.join(rules)}"
        return ""


def _rules(client: Client, item: FailureCategory) -> list[str]:
    """Return the rules of all policies that use a category, as `policy/rule`."""
    kind = PolicyKind()
    return [
        f"{kind.address(policy)}/{rule_label(rule)}"
        for policy in client.retry_policies()
        for rule in policy.spec.get("rules") or []
        if item.name in (rule.get("onFailureCategory") or [])
    ]
