"""The pages of the audit log. Services write it, operators read it, nobody changes it."""

import json
from typing import Any

from django.contrib import admin
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import DropdownFilter

from interfaces.admin.base import LookedUpAdmin, column
from interfaces.admin.cells import past
from sessions_app.audit.context import DOORS, ENGINE, TASK
from sessions_app.models import AuditEntry, AuditLog
from sessions_app.selectors.audit import NO_SESSION, PEOPLE, audit_all

# A loose index scan: one index lookup for each existing type.
_TYPES = """
    WITH RECURSIVE known(object_type) AS (
        (SELECT object_type FROM sessions_app_auditentry ORDER BY object_type LIMIT 1)
        UNION ALL
        SELECT (SELECT object_type FROM sessions_app_auditentry
            WHERE object_type > k.object_type ORDER BY object_type LIMIT 1)
        FROM known k WHERE k.object_type IS NOT NULL
    )
    SELECT object_type FROM known WHERE object_type IS NOT NULL
"""


def object_types() -> list[str]:
    """Return the object types that occur in the log."""
    with connection.cursor() as cursor:
        cursor.execute(_TYPES)
        # Dispatches by the engine are stored in a table of their own.
        return sorted({row[0] for row in cursor.fetchall()} | {"session"})


def _listed(choice: DropdownFilter) -> bool:
    """Return whether the value in the address is one of the choices.

    The database does not accept every text.
    """
    return choice.value() in {word for word, _ in choice.lookup_choices}


class AuthorFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """Filters by author, because most of the log are the engine's own acts."""

    title = "author"
    parameter_name = "author"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("people", "people"), ("engine", "the engine")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "people":
            return queryset.filter(PEOPLE)
        return queryset.filter(actor=ENGINE) if self.value() == "engine" else queryset


class TypeFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """Filters by the type of the object that was acted on."""

    title = "object"
    parameter_name = "object_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, kind.replace("_", " ")) for kind in object_types()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        if not _listed(self):
            return queryset.none()
        found = queryset.filter(object_type=self.value())
        return found if self.value() == "session" else found.filter(NO_SESSION)


class DoorFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """Filters by the door through which people came. `sql` is for changes that named no door."""

    title = "door"
    parameter_name = "door"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(door, door) for door in DOORS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        if not _listed(self):
            return queryset.none()
        found = queryset.filter(door=self.value())
        return found if self.value() == TASK else found.filter(PEOPLE)


@admin.register(AuditEntry)
class AuditEntryAdmin(LookedUpAdmin):
    """The audit log, newest entries first. It is append-only."""

    ordering = ("-time", "-id")
    list_display = ("when", "actor", "door", "action", "object_type", "object_id", "changes")
    list_filter = (AuthorFilter, TypeFilter, DoorFilter)
    search_fields = ("object_id",)
    search_help_text = "the full id, name or address of an object"
    fields = (
        *("when", "actor", "door", "via", "action", "object_type", "object_id"),
        *("project", "domain", "root", "changed", "data_json"),
    )
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the whole log. The registered table is only a part of it."""
        return audit_all().order_by(*self.get_ordering(request))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> AuditEntry | None:
        """Return the entry as a record of the registered table, to which the addresses belong."""
        found = super().get_object(request, object_id, from_field)
        if found is None:
            return None
        names = [field.attname for field in AuditEntry._meta.concrete_fields]
        return AuditEntry(**{name: getattr(found, name) for name in names})

    def found(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """Search by type and id, because the index is over both."""
        return queryset.filter(object_type__in=object_types(), object_id=text)

    @column("time")
    def when(self, entry: AuditLog) -> str:
        return past(entry.time)

    @column("changes")
    def changes(self, entry: AuditLog) -> str:
        return "; ".join(_differences(entry.data))[:200] or "-"

    @column("before → after")
    def changed(self, entry: AuditLog) -> SafeString:
        return format_html_join("", "<div>{}</div>", ((each,) for each in _differences(entry.data)))

    @column("data")
    def data_json(self, entry: AuditLog) -> SafeString:
        text = json.dumps(entry.data, indent=2, ensure_ascii=False, sort_keys=True)
        return format_html('<pre class="whitespace-pre-wrap break-words">{}</pre>', text)


def _differences(data: dict[str, Any]) -> list[str]:
    before, after = data.get("before"), data.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [f"{name} {_short(value)}" for name, value in data.items()]
    if not before:  # it was created
        return [f"{name}: {_short(value)}" for name, value in after.items() if _short(value) != "-"]
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [f"{name}: {_short(before.get(name))} → {_short(after.get(name))}" for name in changed]


def _short(value: object) -> str:
    if value is None or value == "":
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
