"""Selectors of executors and their leases; the first argument is the actor."""

from collections.abc import Collection, Sequence
from typing import Any

from django.db.models import Count, F, Func, IntegerField, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models import Value as Constant
from django.db.models.functions import Coalesce, Concat

from scheduler.models import Executor, Lease
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.models import Project
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
