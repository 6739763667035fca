"""The kind of executors: which projects they serve, and their health."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.exits import NOT_FOUND
from reprise_client.cli.kinds.base import (
    Applied,
    FieldError,
    How,
    NamedKind,
    Row,
    changed,
    found_or_none,
)
from reprise_client.cli.output import facts, grid, heading, status_text
from reprise_client.cli.scope import Scope
from reprise_client.cli.text import Text
from reprise_client.cli.words import resource_words, span, when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import (
        Executor,
        ExecutorLease,
        ExecutorNode,
        ExecutorNodeTemplate,
        Reservation,
    )

SPEC: Mapping[str, Any] = {
    "projects": [],
    "unconfirmed_after": None,
    "placement": "node",
    "avoid_suspects": "off",
    "auto_quarantine": False,
    "preemption": "",
    "labels": {},
}
"""The fields of a `spec`, with the values that an omitted field stands for."""
SHOWN = 20
"""Most nodes and leases in a description."""
PLACEMENTS = {"node": "the server plans the nodes", "cluster": "the cluster chooses the nodes"}
PREEMPTIONS = {
    "": "as the server's setting says",
    "off": "no session makes room for others",
    "dry_run": "only recorded, nothing stops",
    "on": "sessions make room for others",
}
STYLES = {"alive": "green", "late": "yellow", "silent": "red"}


class ExecutorKind(NamedKind["Executor"]):
    name = "Executor"
    words = ("executors", "executor", "ex")
    noun = "executor"
    spec_keys = tuple(SPEC)
    made_by = "reprise executor create NAME"
    heads = ("NAME", "HEALTH", "HEARTBEAT", "CORDONED", "LEASES", "NODES", "DRIVER")
    wide_heads = ("PROJECTS", "REASON", "TROUBLE", "CREATED")

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        """Change an existing executor.

        Documents cannot create one, because its token must be shown.
        """
        name = str(data["metadata"]["name"])
        before = found_or_none(client.executor, name)
        if before is None:
            text = f"there is no executor {name}; make it: reprise executor create {name}"
            raise FieldError("metadata.name", text, NOT_FOUND)
        how.require(there=True)
        after = client.executor_change(name, **{**SPEC, **data["spec"]})
        return Applied(after.name, changed(before, after, *SPEC))

    def all(self, client: Client, home: Scope | None) -> Iterable[Executor]:
        return client.executors()

    def read(self, client: Client, name: str) -> Executor:
        return client.executor(name)

    def delete(self, client: Client, item: Executor) -> str:
        client.executor_delete(item.name)
        return "deleted"

    def row(self, item: Executor, now: datetime) -> Row:
        return [
            item.name,
            health_text(item),
            _heartbeat(item),
            "draining" if item.draining_since else "yes" if item.cordoned else "",
            f"{item.lease_count} of {item.max_sessions}",
            str(item.node_count),
            item.driver,
        ]

    def wide_row(self, item: Executor, now: datetime) -> Row:
        return [_served(item), item.cordon_reason, item.trouble, when(item.created_at, now)]

    def description(self, client: Client, item: Executor, now: datetime) -> RenderableType:
        leases = list(islice(client.executor_leases(item.name), SHOWN))
        return Group(
            facts([*_facts(item, now)]),
            *_table(
                "Nodes",
                ("NODE", "HAS", "FREE", "TAINTS"),
                [_node_cells(node) for node in item.nodes[:SHOWN]],
                item.node_count,
            ),
            *_can_come(item),
            *_kept_free(item, now),
            *_table(
                "Leases",
                ("SESSION", "NAME", "PROJECT", "STATUS", "NODES"),
                [_lease_cells(lease) for lease in leases],
                item.lease_count,
            ),
        )

    def warning(self, client: Client, item: Executor) -> str:
        if item.health in {"alive", "late"}:
            return "its agent still calls in; it will be refused from then on"
        return ""


def _facts(item: Executor, now: datetime) -> Iterator[tuple[str, str | Text]]:
    cordoned = f"it gets no new leases: {item.cordon_reason}"
    draining = f"what runs is asked to stop, since {when(item.draining_since, now)}"
    yield "Executor", item.name
    yield "Health", health_text(item)
    yield "Heartbeat", _heartbeat(item)
    yield "Trouble", item.trouble
    yield from _troubles(item)
    yield from (("Warning", each) for each in item.warnings)
    yield "Cordoned", cordoned if item.cordoned else ""
    yield "Draining", draining if item.draining_since else ""
    yield "Serves", _served(item)
    yield "Labels", _labels(item.labels)
    yield "Pods get", _pods_get(item)
    yield "Driver", item.driver
    yield "Incarnation", str(item.incarnation or "")
    yield "Placement", PLACEMENTS.get(item.placement, item.placement)
    yield "Preemption", PREEMPTIONS.get(item.preemption, item.preemption)
    yield "Suspect nodes", _avoided(item)
    yield "Leases", f"{item.lease_count} of {item.max_sessions}"
    yield "Lost runs", _unconfirmed(item.unconfirmed_after)
    yield "Created", when(item.created_at, now)


def _troubles(item: Executor) -> Iterator[tuple[str, str]]:
    return ((f"Trouble of {each.project}", each.trouble) for each in item.project_troubles)


def _can_come(item: Executor) -> Iterator[RenderableType]:
    return _table(
        "Nodes that its cluster can add",
        ("TEMPLATE", "HAS", "LABELS", "TAINTS", "AT MOST"),
        [_template_cells(each) for each in item.node_templates[:SHOWN]],
        len(item.node_templates),
    )


def _kept_free(item: Executor, now: datetime) -> Iterator[RenderableType]:
    return _table(
        "Kept free for sessions that waited for too long, or for which others make room",
        ("SESSION", "PROJECT", "NODES", "SINCE"),
        [reservation_cells(each, now) for each in item.reservations[:SHOWN]],
        len(item.reservations),
    )


def reservation_cells(item: Reservation, now: datetime) -> Row:
    nodes = ", ".join(item.nodes) or "a session slot"
    return [str(item.session_id), item.project, nodes, when(item.since, now)]


def health_text(item: Executor) -> Text:
    if item.trouble and item.health in {"alive", "late"}:
        return Text(f"{item.health}, in trouble", STYLES["silent"])
    return Text(item.health.replace("_", " "), STYLES.get(item.health, ""))


def _heartbeat(item: Executor) -> str:
    return "" if item.heartbeat_age is None else f"{span(item.heartbeat_age)} ago"


def _served(item: Executor) -> str:
    return ", ".join(item.projects) or "all projects"


def _avoided(item: Executor) -> str:
    if item.avoid_suspects == "off":
        return "none is suspected"
    if item.auto_quarantine:
        return "get no leases"
    who = "retries and first attempts" if item.avoid_suspects == "all" else "retries"
    return f"avoided by {who}"


def _unconfirmed(seconds: float | None) -> str:
    if seconds is None:
        return "count as ended when the server's setting says so"
    if seconds == 0:
        return "never count as ended unconfirmed"
    return f"count as ended after {span(seconds)} unconfirmed"


def _table(
    title: str, heads: tuple[str, ...], rows: list[Row], count: int
) -> Iterator[RenderableType]:
    if rows:
        yield heading(title if count <= SHOWN else f"{title}, the first {SHOWN} of {count}")
        yield grid(heads, rows)


def _lease_cells(lease: ExecutorLease) -> Row:
    status = status_text(lease.status)
    return [lease.session_id, lease.session_name, lease.project, status, _where(lease)]


def _where(lease: ExecutorLease) -> str:
    """Return its planned nodes, or else the reported one, or the template that it waits for."""
    planned = ", ".join(dict.fromkeys(lease.nodes))
    return planned or lease.node or (f"a new {lease.template}" if lease.template else "")


def _node_cells(node: ExecutorNode) -> Row:
    free = resource_words(node.free)
    return [node.name, resource_words(node.allocatable), free, _taints(node.taints)]


def _template_cells(template: ExecutorNodeTemplate) -> Row:
    has, labels = resource_words(template.resources), _labels(template.labels)
    return [template.name, has, labels, _taints(template.taints), str(template.max)]


def _pods_get(item: Executor) -> str:
    """Return what pods get that decides on their nodes and that their sessions do not say."""
    texts = [f"{name}: {json.dumps(value)}" for name, value in item.pod_placing.items()]
    if item.extended_tolerations:
        texts.append("tolerations for extended resources, from the cluster")
    return "; ".join(texts)


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _taints(taints: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(_taint(taint) for taint in taints)


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
