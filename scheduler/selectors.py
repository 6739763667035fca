"""Reads of executors and of what they hold; the first argument is who asks."""

from collections.abc import Collection
from typing import Any

from django.db.models import Count, F, Func, IntegerField, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models import Value as Constant
from django.db.models.functions import Coalesce, Concat

from scheduler.models import Executor, Lease
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.errors import InvalidInput, NotFound
from sessions_app.models import Project

_HELD = Lease.objects.filter(executor=OuterRef("pk")).order_by().values("executor")
_COUNTS = {
    "lease_count": Coalesce(Subquery(_HELD.annotate(n=Count("pk")).values("n")), 0),
    "node_count": Func(F("nodes"), function="jsonb_array_length", output_field=IntegerField()),
}
_PROJECTS = Prefetch(
    "projects", Project.objects.select_related("domain").order_by("domain__name", "name")
)


def executors_listed(actor: Actor, action: Action = Action.EXECUTOR_READ) -> QuerySet[Any]:
    """All executors, with how many leases and nodes each has (`lease_count`, `node_count`).

    Raises `NotPermitted`.
    """
    authorize(actor, action)
    return Executor.objects.annotate(**_COUNTS).prefetch_related(_PROJECTS)


def executor_get(actor: Actor, name: str, action: Action = Action.EXECUTOR_READ) -> Any:
    """One executor, as `executors_listed`; raises `NotPermitted`, `NotFound`."""
    found = executors_listed(actor, action).filter(name=name).first()
    if found is None:
        raise NotFound(f"no executor {name}")
    return found


def executor_leases(executor: Executor) -> QuerySet[Lease]:
    """What an executor holds, with the sessions; the oldest lease has the lowest token."""
    leases = Lease.objects.filter(executor=executor)
    return leases.select_related("session__project__domain", "session__queue")


def projects_named(addresses: Collection[str]) -> list[Project]:
    """The projects of these addresses (`domain/name`); raises `InvalidInput` naming `projects`."""
    wanted = set(addresses)
    address = Concat("domain__name", Constant("/"), "name")
    found: list[Project] = list(
        Project.objects.alias(address_told=address)
        .filter(address_told__in=wanted)
        .select_related("domain")
    )
    if missing := sorted(wanted - {project.address for project in found}):
        raise InvalidInput({"projects": [f"no project {', '.join(missing)}"]})
    return found
