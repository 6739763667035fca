"""The audit log: read by operators, written by the services, changed by nobody."""

import json
from typing import Any

from django.contrib import admin
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import DropdownFilter

from sessions_app.admin.base import LookedUpAdmin, column, past
from sessions_app.models import AuditEntry
from sessions_app.models.audit import ENGINE

# One probe of the index for each type that there is.
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
    """The kinds of objects of which the log tells."""
    with connection.cursor() as cursor:
        cursor.execute(_TYPES)
        return [row[0] for row in cursor.fetchall()]


class AuthorFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """The engine's own acts are most of the log."""

    title = "author"
    parameter_name = "author"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """Django's hook."""
        return [("people", "people"), ("engine", "the engine")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        """Django's hook."""
        if self.value() == "people":
            return queryset.exclude(actor=ENGINE)
        return queryset.filter(actor=ENGINE) if self.value() == "engine" else queryset


class TypeFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """What was acted on."""

    title = "object"
    parameter_name = "object_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """Django's hook."""
        return [(kind, kind.replace("_", " ")) for kind in object_types()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        """Django's hook."""
        return queryset.filter(object_type=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(LookedUpAdmin):
    """Append-only; the newest first."""

    list_display = ("when", "actor", "action", "object_type", "object_id", "changes")
    list_filter = (AuthorFilter, TypeFilter)
    search_fields = ("object_id",)
    search_help_text = "the whole id, name or address of an object"
    fields = ("when", "actor", "action", "object_type", "object_id", "project", "told")
    readonly_fields = fields

    def found(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """The index is over type and id together."""
        return queryset.filter(object_type__in=object_types(), object_id=text)

    @column("time")
    def when(self, entry: AuditEntry) -> str:
        return past(entry.time)

    @column("changes")
    def changes(self, entry: AuditEntry) -> str:
        return "; ".join(_differences(entry.data))[:200] or "-"

    @column("data")
    def told(self, entry: AuditEntry) -> SafeString:
        text = json.dumps(entry.data, indent=2, ensure_ascii=False, sort_keys=True)
        return format_html('<pre class="whitespace-pre-wrap break-words">{}</pre>', text)


def _differences(data: dict[str, Any]) -> list[str]:
    before, after = data.get("before"), data.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [f"{name} {_short(value)}" for name, value in data.items()]
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [f"{name}: {_short(before.get(name))} → {_short(after.get(name))}" for name in changed]


def _short(value: object) -> str:
    if value is None or value == "":
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
