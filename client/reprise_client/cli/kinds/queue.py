"""The kind of queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.kinds.base import (
    CREATED,
    Applied,
    How,
    Row,
    changed,
    found_or_made,
    found_or_none,
    listed_within,
    missing,
)
from reprise_client.cli.kinds.in_project import InProjectKind, project_meant
from reprise_client.cli.kinds.policy import PolicyKind
from reprise_client.cli.output import facts, grid, heading
from reprise_client.cli.scope import Scope
from reprise_client.cli.words import span, when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import NamedRetryPolicy, Queue

SPEC = (
    *("is_default", "priority_factor", "resource_limits", "retry_policies"),
    *("breaker", "retry_budget", "time_limits"),
)


class QueueKind(InProjectKind["Queue"]):
    name = "Queue"
    words = ("queues", "queue", "q")
    spec_keys = SPEC
    heads = ("NAME", "PROJECT", "DEFAULT", "FACTOR", "CORDONED", "POLICIES")
    wide_heads = ("SHARE", "LIMITS", "REASON", "CREATED")

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        project = self.project_of(client, data, asked)
        name, spec = str(data["metadata"]["name"]), data["spec"]
        before, after = found_or_made(
            lambda: found_or_none(client.queue, f"{project}/{name}"),
            lambda: client.queue_create(project, name, **spec),
            how,
        )
        read = before.etag if before else ""
        after = after or client.queue_apply(f"{project}/{name}", if_match=read, **spec)
        outcome = changed(before, after, *SPEC) if before else CREATED
        return Applied(after.address, outcome)

    def all(self, client: Client, home: Scope | None) -> Iterable[Queue]:
        return listed_within(client.queues, home)

    def find(self, client: Client, typed: str, home: Scope) -> Queue:
        """Return the queue with this name in the project, or with the full address."""
        address = typed if "/" in typed else f"{project_meant(client, home, 'queue')}/{typed}"
        found = found_or_none(client.queue, address)
        if found is None:
            place, _, name = address.rpartition("/")
            raise missing("queue", name, f"project {place}", self.words[0])
        return found

    def delete(self, client: Client, item: Queue) -> str:
        client.queue_delete(item.address)
        return "deleted"

    def row(self, item: Queue, now: datetime) -> Row:
        return [
            item.name,
            item.project,
            "yes" if item.is_default else "",
            f"{item.priority_factor:g}",
            "yes" if item.cordoned else "",
            ", ".join(item.retry_policies),
        ]

    def wide_row(self, item: Queue, now: datetime) -> Row:
        limits = _amounts(item.resource_limits)
        return [_share(item), limits, item.cordon_reason, when(item.created_at, now)]

    def description(self, client: Client, item: Queue, now: datetime) -> RenderableType:
        cordoned = f"no session starts from it: {item.cordon_reason}"
        return Group(
            facts(
                [
                    ("Queue", item.name),
                    ("Project", item.project),
                    ("Default", "yes, of its project" if item.is_default else ""),
                    ("Priority factor", f"{item.priority_factor:g} (lower goes first)"),
                    ("Limits", _amounts(item.resource_limits)),
                    ("Times", _times(item.time_limits)),
                    ("Breaker", _breaker(item)),
                    ("Retry budget", _budget(item)),
                    ("Share", _share(item)),
                    ("Holds", _amounts(item.usage.used) if item.usage else ""),
                    ("Cordoned", cordoned if item.cordoned else ""),
                    ("Created", when(item.created_at, now)),
                    ("Policies", "" if item.retry_policies else _default_policy(client)),
                ]
            ),
            *_policies(client, item, now),
        )


def _amounts(held: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in held.items())


def _times(limits: Mapping[str, Mapping[str, float]]) -> str:
    return ", ".join(
        f"{name} {kind} {seconds:g} s"
        for name, limit in limits.items()
        for kind, seconds in limit.items()
    )


def _breaker(queue: Queue) -> str:
    rule = queue.breaker
    if rule is None:
        return ""
    return f"opens when {rule.chains} chains fail alike within {span(rule.window)}"


def _budget(queue: Queue) -> str:
    budget = queue.retry_budget
    if budget is None:
        return ""
    each = f"{budget['burst']} retries and {budget['ratio']:g} for each first attempt"
    return f"{each}, within {span(budget['window'])}"


def _share(queue: Queue) -> str:
    return f"{queue.usage.share:.1%} of the pool" if queue.usage else ""


def _default_policy(client: Client) -> str:
    default = client.retry_settings().default_policy
    return f"none of its own: chains get the cluster's default, {default}" if default else "none"


def _policies(client: Client, item: Queue, now: datetime) -> list[RenderableType]:
    if not item.retry_policies:
        return []
    kind = PolicyKind()
    listed = {each.metadata["name"]: each for each in kind.all(client, Scope.at(item.project))}
    table = grid(
        ["ORDER", *kind.heads],
        (
            [str(number), *_policy_row(kind, listed.get(name), name, now)]
            for number, name in enumerate(item.retry_policies, 1)
        ),
    )
    return [heading("Policies of its chains, before those that a session adds"), table]


def _policy_row(kind: PolicyKind, policy: NamedRetryPolicy | None, name: str, now: datetime) -> Row:
    return [name, *[""] * (len(kind.heads) - 1)] if policy is None else kind.row(policy, now)
