"""Selectors of executors and their leases; the first argument is the actor."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import (
    Avg,
    Case,
    Count,
    Exists,
    F,
    Func,
    IntegerField,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    TextField,
    When,
)
from django.db.models import Value as Constant
from django.db.models.functions import Cast, Coalesce, Concat, Greatest, LPad, Now

from scheduler.core.preemption import seconds_lost
from scheduler.models import Executor, Lease, Node, NodeAttempt, NodeState, Preemption, Reservation
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.core.states import Phase, Status
from sessions_app.models import Project, Session
from sessions_app.selectors.peers import first_of_each

_HELD = Lease.objects.filter(executor=OuterRef("pk")).order_by().values("executor")
_COUNTS = {
    "lease_count": Coalesce(Subquery(_HELD.annotate(n=Count("pk")).values("n")), 0),
    "node_count": Func(F("nodes"), function="jsonb_array_length", output_field=IntegerField()),
}
_PROJECTS = Prefetch(
    "projects", Project.objects.select_related("domain").order_by("domain__name", "name")
)
_LEASED = ("session__project__domain", "session__queue")


def executors_listed(actor: Actor, action: Action = Action.EXECUTOR_READ) -> QuerySet[Any]:
    """Return all executors, with the counts `lease_count` and `node_count`.

    Raises `NotPermitted`.
    """
    authorize(actor, action)
    return Executor.objects.annotate(**_COUNTS).prefetch_related(_PROJECTS)


def executor_get(actor: Actor, name: str, action: Action = Action.EXECUTOR_READ) -> Any:
    """Return one executor, as `executors_listed` does. Raises `NotPermitted`, `NotFound`."""
    found = executors_listed(actor, action).filter(name=name).first()
    if found is None:
        raise NotFound(f"no executor {name}")
    return found


def executors_all() -> QuerySet[Executor]:
    """Return every executor: for operators, who may see all."""
    return Executor.objects.all()


def executor_leases(executor: Executor) -> QuerySet[Lease]:
    """Return the leases of an executor, with their sessions; the oldest has the lowest token."""
    leases = Lease.objects.filter(executor=executor)
    return leases.select_related(*_LEASED)


def executors_leases(
    actor: Actor, executors: Sequence[Executor], behind: int | None, limit: int
) -> list[list[Lease]]:
    """Return the leases of each executor after a fencing token, as `executor_leases` does."""
    authorize(actor, Action.EXECUTOR_READ)
    rows = Lease.objects.filter(executor=OuterRef("pk")).select_related(*_LEASED)
    if behind is not None:
        rows = rows.filter(fencing_token__gt=behind)
    parents = Executor.objects.filter(pk__in=[each.pk for each in executors])
    found = first_of_each(parents, rows.order_by("fencing_token"), limit)
    return [found.get(each.pk, []) for each in executors]


def executors_nodes(
    actor: Actor, executors: Sequence[Executor], behind: str, limit: int
) -> list[list[dict[str, Any]]]:
    """Return the nodes of each executor after a name, sorted by name."""
    authorize(actor, Action.EXECUTOR_READ)
    keys = [each.pk for each in executors]
    nodes = dict(Executor.objects.filter(pk__in=keys).values_list("pk", "nodes"))
    return [
        sorted(
            (node for node in nodes.get(key, []) if node.get("name", "") > behind),
            key=lambda node: str(node["name"]),
        )[:limit]
        for key in keys
    ]


def reservations_listed(actor: Actor) -> QuerySet[Reservation]:
    """Return the reservations of sessions that wait, with sessions and executors, oldest first.

    Raises `NotPermitted`.
    """
    authorize(actor, Action.EXECUTOR_READ)
    return _reservations()


def reservations_of(project: Project) -> QuerySet[Reservation]:
    """Return the reservations of a project's sessions, as `reservations_listed` does.

    The caller has checked that the actor may see the project.
    """
    return _reservations().filter(session__project=project)


def executor_reservations(executor: Executor) -> QuerySet[Reservation]:
    """Return the reservations on an executor, as `reservations_listed` does: for operators."""
    return _reservations().filter(executor=executor)


def _reservations() -> QuerySet[Reservation]:
    rows = Reservation.objects.filter(session__phase=Phase.WAITING).order_by("pk")
    return rows.select_related("executor", *_LEASED)


def executor_called(name: str, since: datetime) -> bool:
    """Return whether an executor has called since then."""
    return Executor.objects.filter(name=name, last_seen_at__gt=since).exists()


def preemptions_listed(actor: Actor, project: Project | None = None) -> QuerySet[Preemption]:
    """Return the preemptions in which a session that the actor may see made room or got it.

    With a `project`, which the actor must be able to see, those of its sessions alone. Each comes
    with `seen_victim` and `seen_taker`, null for a session that the actor may not see.
    Raises `NotPermitted`.
    """
    authorize(actor, Action.PREEMPTION_LIST)
    rows = Preemption.objects.all()
    seen = None if actor.is_cluster_admin else actor.projects().values("pk")
    for side in ("victim", "taker"):
        shown: Any = F(f"{side}_id")
        if seen is not None:
            shown = Case(When(**{f"{side}_project__in": seen}, then=shown))
        rows = rows.annotate(**{f"seen_{side}": shown})
    if seen is not None:
        rows = rows.filter(Q(victim_project__in=seen) | Q(taker_project__in=seen))
    if project is not None:
        rows = rows.filter(Q(victim_project=project) | Q(taker_project=project))
    return rows


def work_lost(rows: Sequence[Any]) -> dict[UUID, float]:
    """Return the pods x seconds that sessions lost when they made room, by their ids.

    `rows` are of `preemptions_listed`. Left out are dry runs, sessions that the actor may not see,
    and those that have not ended. It takes one statement.
    """
    stopped = [row.seen_victim for row in rows if row.seen_victim and not row.dry_run]
    found = Session.objects.filter(pk__in=stopped, phase=Phase.FINAL).select_related("spec")
    columns = ("status", "started_at", "finished_at", "progress", "spec__cluster_size")
    return {each.pk: _lost(each) for each in found.only(*columns)}


def _lost(ended: Session) -> float:
    """Return what an ended session lost: nothing if it succeeded while it was asked to stop."""
    if ended.status == Status.TERMINATED or ended.started_at is None or ended.finished_at is None:
        return 0.0
    ran = max((ended.finished_at - ended.started_at).total_seconds(), 0.0)
    return ended.spec.cluster_size * seconds_lost(ran, ended.progress or {})


def nodes_listed(actor: Actor, action: Action = Action.NODE_LIST) -> QuerySet[Node]:
    """Return the nodes that an actor may know of, with their executors.

    These are all nodes for a cluster admin; for others those of executors that serve a project that
    they see. Raises `NotPermitted`.
    """
    authorize(actor, action)
    rows = Node.objects.select_related("executor")
    if actor.is_cluster_admin:
        return rows
    seen = actor.projects()
    serving = Q(projects__in=seen) | Q(Exists(seen), projects=None)
    return rows.filter(executor__in=Executor.objects.filter(serving))


# `Greatest` passes over null.
_COUNTED = NodeAttempt.objects.filter(
    node=OuterRef("pk"),
    ended_at__gt=Greatest(Now() - timedelta(hours=24), OuterRef("counted_from")),
)
_FAILED = Avg(Case(When(cause="", then=0.0), default=1.0))
_FAILED_SHARE = Coalesce(
    Subquery(_COUNTED.order_by().values("node").annotate(part=_FAILED).values("part")), 0.0
)
# A cursor needs one value that no two rows share: six digits of what did not fail, and the address.
_DIGITS = Cast(Cast((1.0 - F("failed_share")) * 1e6, IntegerField()), TextField())
_PLACE = Concat(LPad(_DIGITS, 7, Constant("0")), Constant(" "), "address", output_field=TextField())


def with_failed_share(rows: QuerySet[Node]) -> QuerySet[Node]:
    """Add `failed_share` to nodes: the part of the attempts that count which failed there."""
    return rows.annotate(failed_share=_FAILED_SHARE)


def nodes_by_failures(actor: Actor) -> QuerySet[Node]:
    """Return the nodes of `nodes_listed` with their `place` in the list.

    For cluster admins the largest part of failed attempts comes first, then the address decides.
    Others see no figures, so that the address alone decides.
    """
    rows = nodes_listed(actor)
    if not actor.is_cluster_admin:
        return rows.annotate(place=F("address"))
    return with_failed_share(rows).annotate(place=_PLACE)


def nodes_out(actor: Actor) -> QuerySet[Node]:
    """Return the nodes that are suspect or in quarantine, the last ones first.

    Raises `NotPermitted`.
    """
    out = NodeState.SUSPECT.condition | NodeState.QUARANTINED.condition
    return nodes_listed(actor).filter(out).order_by("-suspected_until", "address")


def node_get(actor: Actor, executor: str, name: str, action: Action = Action.NODE_READ) -> Node:
    """Return one node, as `nodes_listed` does. Raises `NotPermitted`, `NotFound`."""
    found = nodes_listed(actor, action).filter(executor__name=executor, name=name).first()
    if found is None:
        raise NotFound(f"no node {name} of an executor {executor}")
    return found


class NodeFigures(NamedTuple):
    """How the attempts that count for a node ended."""

    attempts: int
    failures: int
    chains: int
    """Number of chains that failed there."""
    causes: list[tuple[str, int]]
    """The most frequent causes of failures, and how many failed so."""
    signatures: list[tuple[str, int]]


NO_FIGURES = NodeFigures(0, 0, 0, [], [])
_OF = """(SELECT coalesce(jsonb_agg(jsonb_build_array(value, number)
            ORDER BY number DESC, value), '[]')::text
        FROM (SELECT VALUE AS value, count(*) AS number FROM recent WHERE VALUE <> ''
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5) AS first)"""
_CAUSES, _SIGNATURES = _OF.replace("VALUE", "cause"), _OF.replace("VALUE", "signature")
_FIGURES = f"""
    SELECT n.id, f.* FROM scheduler_node n CROSS JOIN LATERAL (
        WITH recent AS (
            SELECT cause, signature, chain FROM scheduler_nodeattempt a
            WHERE a.node_id = n.id AND a.ended_at >= clock_timestamp() - interval '24 hours'
                AND (n.counted_from IS NULL OR a.ended_at > n.counted_from))
        SELECT count(*), count(*) FILTER (WHERE cause <> ''),
            count(DISTINCT chain) FILTER (WHERE cause <> ''),
            {_CAUSES}, {_SIGNATURES}
        FROM recent) AS f
    WHERE n.id = ANY(%s::bigint[])
"""


def nodes_figures(actor: Actor, nodes: Sequence[Node]) -> dict[int, NodeFigures]:
    """Return the figures of nodes by id, in one statement; of none if the actor may not see them.

    Only cluster admins may: the figures are of the sessions of all tenants.
    """
    if not actor.is_cluster_admin or not nodes:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_FIGURES, [[node.pk for node in nodes]])
        return {
            row[0]: NodeFigures(
                *row[1:4], *([(v, n) for v, n in json.loads(text)] for text in row[4:])
            )
            for row in cursor.fetchall()
        }


def projects_named(addresses: Collection[str]) -> list[Project]:
    """Return the projects at these addresses (`domain/name`).

    Raises `InvalidInput` for `projects` if one is missing.
    """
    wanted = set(addresses)
    address = Concat("domain__name", Constant("/"), "name")
    found: list[Project] = list(
        Project.objects.alias(full_address=address)
        .filter(full_address__in=wanted)
        .select_related("domain")
    )
    if missing := sorted(wanted - {project.address for project in found}):
        raise InvalidInput({"projects": [f"no project {', '.join(missing)}"]})
    return found
