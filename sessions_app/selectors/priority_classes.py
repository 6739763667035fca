"""Reads of priority classes that every door shares."""

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import NotFound
from sessions_app.core.priorities import DEFAULT_CLASS, MOST_PRIORITY, folded
from sessions_app.core.states import Phase
from sessions_app.models import PriorityClass, Project, Session


def priority_class_get(actor: Actor, name: str, action: Action) -> PriorityClass:
    """Return a priority class by its name. Raises `NotFound`, `NotPermitted`."""
    authorize(actor, action)
    found = PriorityClass.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"no priority class {name}")
    return found


def priority_classes_listed(actor: Actor) -> QuerySet[PriorityClass]:
    """Return the priority classes; raises `NotPermitted`."""
    authorize(actor, Action.PRIORITY_CLASS_READ)
    return PriorityClass.objects.all()


def addresses_seen(actor: Actor, rows: Iterable[PriorityClass]) -> set[str]:
    """Return those domains and projects that may name these classes and that the actor may see."""
    named = {address for row in rows for address in (*row.domains, *row.projects)}
    if actor.is_cluster_admin or not named:
        return named
    seen: set[str] = set()
    for domain, name in actor.projects().values_list("domain__name", "name"):
        seen |= {domain, f"{domain}/{name}"}
    return named & seen


def class_names(ranks: Iterable[int]) -> dict[int, str]:
    """Return the names of the classes with these values; those that were deleted are left out.

    Takes one statement, and none if all are the default class.
    """
    wanted = set(ranks) - {0}
    names = {0: DEFAULT_CLASS}
    if wanted:
        rows = PriorityClass.objects.filter(value__in=wanted)
        names |= dict(rows.values_list("value", "name"))
    return names


def names_allowed(project_id: int) -> list[str]:
    """Return the names of the classes that anybody in a project may name, lowest value first."""
    project = Project.objects.select_related("domain").filter(pk=project_id).first()
    allowed = Q(name=DEFAULT_CLASS)
    if project is not None:
        allowed |= Q(domains__contains=[project.domain.name])
        allowed |= Q(projects__contains=[project.address])
    rows = PriorityClass.objects.filter(allowed).order_by("value")
    return list(rows.values_list("name", flat=True))


def class_in_use(value: int) -> bool:
    """Return whether a session that waits or runs has the class of this value."""
    first, last = folded(value, -MOST_PRIORITY), folded(value, MOST_PRIORITY)
    rows = Session.objects.filter(stored_priority__range=(first, last))
    return rows.exclude(phase=Phase.FINAL).exists()
