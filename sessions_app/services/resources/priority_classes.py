"""Priority classes: ranks of sessions. What a session has is their value, so that never changes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.core.priorities import DEFAULT_CLASS
from sessions_app.core.versions import Expected, version_of
from sessions_app.locks import database_now
from sessions_app.locks.priority_classes import Named, ranks_allowed
from sessions_app.locks.resources import lock_priority_class
from sessions_app.models import Domain, PriorityClass, Project
from sessions_app.selectors.priority_classes import class_in_use, names_allowed

FIELDS = ("preemptible", "may_preempt", "protected_for", "domains", "projects")


def priority_class_create(
    name: str, value: int, fields: Mapping[str, Any], *, by: str
) -> PriorityClass:
    """Create a class. Raises `Conflict` if its name or value is taken, `InvalidInput`."""
    _known(fields)
    now = database_now()
    row = PriorityClass(name=name, value=value, created_at=now, updated_at=now, **fields)
    try:
        with audited(by=by), transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        taken = "name" if PriorityClass.objects.filter(name=name).exists() else "value"
        raise Conflict(
            f"there is a priority class with this {taken} already", errors={taken: ["is taken"]}
        ) from None
    return row


def priority_class_change(
    name: str,
    fields: Mapping[str, Any],
    *,
    by: str,
    value: int | None = None,
    expected: Expected | None = None,
) -> PriorityClass:
    """Change fields of a class. Raises `NotFound`, `InvalidInput` for another `value`, `Outdated`
    if it is not `expected`."""
    _known(fields)
    with audited(by=by), transaction.atomic():
        row = _locked(name, expected)
        if value is not None and value != row.value:
            kept = f"is {row.value} and never changes: sessions have it; make another class"
            raise InvalidInput({"value": [kept]})
        changed = [each for each, new in fields.items() if getattr(row, each) != new]
        if row.name == DEFAULT_CLASS and not {"domains", "projects"}.isdisjoint(changed):
            raise InvalidInput({each: ["all may name the class default"] for each in changed})
        for each in changed:
            setattr(row, each, fields[each])
        if changed:
            row.updated_at = database_now()
            row.save()
    return row


def priority_class_delete(name: str, *, by: str, expected: Expected | None = None) -> None:
    """Delete a class that no session that waits or runs has. Raises as the change does, `Conflict`.

    Ended sessions then show no class.
    """
    with audited(by=by), transaction.atomic():
        row = _locked(name, expected)
        if row.name == DEFAULT_CLASS:
            raise Conflict("the class default is part of Reprise: it cannot be deleted")
        if class_in_use(row.value):
            raise Conflict(f"sessions of the class {name} wait or run; let them end first")
        row.delete()


def priority_class_version(row: PriorityClass) -> str:
    """Return the version of what was last written."""
    return version_of(row.pk, row.updated_at)


def ranks_named(wanted: Collection[Named]) -> dict[Named, int | InvalidInput]:
    """Return the value of each class that new sessions name, or why they may not name it.

    No statement if none is named, one if all may be.
    """
    found = ranks_allowed(wanted)
    return {each: found[each] if each in found else _refused(each) for each in wanted}


def _refused(named: Named) -> InvalidInput:
    allowed = ", ".join(names_allowed(named.project_id))
    why = f"{named.name!r} is no class that this project may name; it may name: {allowed}"
    return InvalidInput({"priority_class": [why]})


def _locked(name: str, expected: Expected | None) -> PriorityClass:
    row = lock_priority_class(name)
    if expected is not None:
        expected.check(priority_class_version(row) if row else None)
    if row is None:
        raise NotFound(f"no priority class {name}")
    return row


def _known(fields: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for domains and projects that do not exist."""
    errors: dict[str, Sequence[str]] = {}
    domains, projects = set(fields.get("domains") or ()), set(fields.get("projects") or ())
    if domains:
        domains -= set(Domain.objects.filter(name__in=domains).values_list("name", flat=True))
    if projects:
        names = {each.split("/")[-1] for each in projects}
        rows = Project.objects.filter(name__in=names).values_list("domain__name", "name")
        projects -= {f"{domain}/{name}" for domain, name in rows}
    if domains:
        errors["domains"] = [f"there is no domain {', '.join(sorted(domains))}"]
    if projects:
        errors["projects"] = [f"there is no project {', '.join(sorted(projects))}"]
    if errors:
        raise InvalidInput({field: list(texts) for field, texts in errors.items()})
