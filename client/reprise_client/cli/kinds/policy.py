"""The kind of named retry policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.kinds.base import (
    CONFIGURED,
    CREATED,
    UNCHANGED,
    Applied,
    How,
    Kind,
    Row,
    found_or_made,
    found_or_none,
    missing,
)
from reprise_client.cli.output import facts, grid, heading, numbered, plain
from reprise_client.cli.rule_words import backoff_words, either, limit_words, rule_label, rule_words
from reprise_client.cli.scope import Scope
from reprise_client.cli.text import Text
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import NamedRetryPolicy, PolicyUses

REVISIONS_SHOWN = 10


class PolicyKind(Kind["NamedRetryPolicy"]):
    name = "RetryPolicy"
    words = (
        "policies",
        "policy",
        "rp",
        "retrypolicies",
        "retrypolicy",
        "retry-policies",
        "retry-policy",
    )
    metadata_keys = ("name", "domain", "project")
    heads = ("NAME", "SCOPE", "RULES", "LIMIT", "DEFAULT", "REVISION", "USED BY")
    wide_heads = ("CHANGED", "BY", "NAMED BY", "WARNINGS")

    def is_foreign(self, version: object) -> bool:
        return isinstance(version, str) and version.startswith("armadaproject.io/")

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        scope = asked or Scope.from_metadata(data["metadata"])
        document = {key: value for key, value in data.items() if key != "status"}
        query = (asked or Scope()).query
        before, after = found_or_made(
            lambda: _live(_read(client, str(data["metadata"]["name"]), scope)),
            lambda: client.retry_policy_create(document, **query),
            how,
        )
        read = before.etag if before else ""
        after = after or client.retry_policy_apply(document, if_match=read, **query)
        status = after.status
        return Applied(
            self.address(after), _outcome(before, after), status.revision, status.warnings
        )

    def document(self, item: NamedRetryPolicy) -> dict[str, Any]:
        return plain(item)

    def all(self, client: Client, home: Scope | None) -> Iterable[NamedRetryPolicy]:
        if home is None:
            return client.retry_policies()
        addresses = {scope.address for scope in home.with_parents()}
        return (each for each in client.retry_policies() if _scope(each).address in addresses)

    def find(self, client: Client, typed: str, home: Scope) -> NamedRetryPolicy:
        """Return the policy with this name in the scope or one above, or with the full address.

        A name is unique in these scopes, except for archived policies, which come last.
        """
        place, _, name = typed.rpartition("/")
        scopes = [Scope.at(place)] if place else home.with_parents()
        found = [policy for scope in scopes if (policy := _read(client, name, scope))]
        found.sort(key=lambda policy: policy.status.archived_at is not None)
        if not found:
            where = either(scope.words for scope in scopes)
            raise missing("retry policy", name, where, self.words[0])
        return found[0]

    def delete(self, client: Client, item: NamedRetryPolicy) -> str:
        outcome = client.retry_policy_delete(item.metadata["name"], **_scope(item).query)
        if outcome != "archived":
            return outcome
        return "archived: it goes on deciding for the unfinished chains that name it"

    def address(self, item: NamedRetryPolicy) -> str:
        place = _scope(item).address
        return f"{place}/{item.metadata['name']}" if place else str(item.metadata["name"])

    def row(self, item: NamedRetryPolicy, now: datetime) -> Row:
        limit = item.spec.get("retryLimit")
        return [
            item.metadata["name"],
            _scope(item).address or "cluster",
            str(len(item.spec.get("rules") or [])),
            "" if limit is None else str(limit),
            item.spec.get("defaultAction") or "",
            f"{item.status.revision}{', archived' if item.status.archived_at else ''}",
            str(len(list(_places(item.status.used_by)))),
        ]

    def wide_row(self, item: NamedRetryPolicy, now: datetime) -> Row:
        return [
            when(item.status.created_at, now),
            item.status.created_by,
            ", ".join(_places(item.status.used_by)),
            str(len(item.status.warnings) or ""),
        ]

    def description(self, client: Client, item: NamedRetryPolicy, now: datetime) -> RenderableType:
        spec, status = item.spec, item.status
        archived = f"{when(status.archived_at, now)}, for the chains that name it"
        return Group(
            facts(
                [
                    ("Policy", item.metadata["name"]),
                    ("Scope", _scope(item).words),
                    ("Revision", f"{status.revision}, {when(status.created_at, now)}"),
                    ("By", status.created_by),
                    ("Archived", archived if status.archived_at else ""),
                    ("No rule matches", _default_words(spec)),
                    ("Rules' limit", limit_words(spec.get("retryLimit"))),
                    ("Rules' backoff", _backoff(spec)),
                    ("Used by", ", ".join(_places(status.used_by)) or "nothing yet"),
                    *(("Warning", warning) for warning in status.warnings),
                ]
            ),
            *_rules(spec),
            *_revisions(client, item, now),
        )

    def warning(self, client: Client, item: NamedRetryPolicy) -> str:
        if item.status.archived_at is not None:
            return "it is archived already, and goes when no unfinished chain names it"
        return ""


def _outcome(before: NamedRetryPolicy | None, after: NamedRetryPolicy) -> str:
    if before is None:
        return CREATED
    same = before.status.revision == after.status.revision
    return UNCHANGED if same else CONFIGURED


def _read(client: Client, name: str, scope: Scope) -> NamedRetryPolicy | None:
    return found_or_none(client.retry_policy, name, **scope.query)


def _live(found: NamedRetryPolicy | None) -> NamedRetryPolicy | None:
    """Return None for an archived policy, too: applying its document creates a new one."""
    return None if found is None or found.status.archived_at else found


def _scope(item: NamedRetryPolicy) -> Scope:
    return Scope.from_metadata(item.metadata)


def _places(uses: PolicyUses) -> Iterator[str]:
    yield from (f"queue {address}" for address in uses.queues)
    if uses.default:
        yield "the cluster's default_policy"


def _default_words(spec: Mapping[str, Any]) -> str:
    match spec.get("defaultAction"):
        case "Retry":
            return f"Retry, {limit_words(spec.get('retryLimit'))}"
        case "Fail":
            return "Fail"
        case _:
            return "left to the session's own settings and to other policies"


def _backoff(spec: Mapping[str, Any]) -> str:
    backoff = spec.get("backoff")
    return "that of each session" if backoff is None else backoff_words(backoff)


def _rules(spec: Mapping[str, Any]) -> list[RenderableType]:
    rules = spec.get("rules") or []
    if not rules:
        return []
    unnamed = any(not rule.get("name") for rule in rules)
    lines = (
        f"{rule_label(rule)}{'' if rule.get('name') else '*'}: {rule_words(rule, spec)}"
        for rule in rules
    )
    return [
        heading("Rules, of which the first that matches decides"),
        numbered(lines),
        *([Text("     * has no name; its retries are counted under this one")] if unnamed else []),
    ]


def _revisions(client: Client, item: NamedRetryPolicy, now: datetime) -> list[RenderableType]:
    query = _scope(item).query
    listed = client.retry_policy_revisions(item.metadata["name"], **query)
    newest = list(islice(listed, REVISIONS_SHOWN + 1))
    table = grid(
        ["REVISION", "CHANGED", "BY", "RULES"],
        (
            [
                str(each.revision),
                when(each.created_at, now),
                each.created_by,
                str(len(each.document.get("spec", {}).get("rules") or [])),
            ]
            for each in newest[:REVISIONS_SHOWN]
        ),
    )
    more = [Text("...")] if len(newest) > REVISIONS_SHOWN else []
    return [heading("Revisions"), table, *more]
