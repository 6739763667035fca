"""Executors and their leases."""

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from scheduler.models import Executor, Lease
from sessions_app import wakeups
from sessions_app.admin.base import (
    OperatorForm,
    ReadOnlyAdmin,
    RecordAdmin,
    column,
    operator,
    past,
    session_link,
    short,
)
from sessions_app.admin.tokens import show_once
from sessions_app.services.tokens import token_create

NODES = 200
"""Nodes of an executor that its page lists."""
LONGEST = 366 * 86_400


class ExecutorForm(OperatorForm):
    """What an operator decides about an executor; the rest it says itself."""

    # What is beyond it would overflow the arithmetic of the sweep, of all executors.
    unconfirmed_after = forms.FloatField(
        min_value=0,
        max_value=LONGEST,
        required=False,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="seconds after which a lost run counts as ended though nobody confirmed it; "
        "empty: the setting, 0: never",
    )

    class Meta:
        help_texts = {
            "projects": "the only ones that it serves; none chosen: all",
            "cordoned": "gets no new leases; what runs goes on",
        }


@admin.register(Executor)
class ExecutorAdmin(RecordAdmin):
    """Who runs sessions, when it was heard last, and what it holds."""

    form = ExecutorForm
    list_display = ("name", "health", "heartbeat", "state", "lease_count", "node_count", "driver")
    list_filter = ("cordoned",)
    search_fields = ("name__startswith",)
    ordering = ("name",)
    autocomplete_fields = ("projects",)
    readonly_fields = ("health", "heartbeat", "driver", "lease_count", "max_sessions", "node_table")
    fieldsets = (
        (None, {"fields": ("name", "projects", "cordoned", "unconfirmed_after")}),
        ("As it last said", {"fields": readonly_fields}),
    )
    add_fieldsets = ((None, {"fields": ("name", "projects", "unconfirmed_after")}),)
    fixed_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the number of leases, in the same query."""
        found: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = found.annotate(lease_count=Count("leases"))
        return counted

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Django's hook: not while it holds leases, whose runs would be forgotten."""
        if obj is None or Lease.objects.filter(executor=obj).exists():
            return False
        return bool(super().has_delete_permission(request, obj))

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """A new executor gets a token, shown once; one that may work again is woken."""
        new = record.pk is None
        super().store(request, record, form)
        if new:
            name = f"executor {record.name}"
            by = operator(request)
            show_once(request, token_create(name=name, executor_name=record.name, by=by))
        elif not record.cordoned:
            wakeups.work_after_commit()

    @column(
        "health",
        label={"alive": "success", "silent": "danger", "never heard": "default"},
    )
    def health(self, executor: Executor) -> str:
        if executor.last_seen_at is None:
            return "never heard"
        silence = timedelta(seconds=settings.REPRISE["executor_stale_after"])
        return "silent" if timezone.now() - executor.last_seen_at > silence else "alive"

    @column("heartbeat", ordering="last_seen_at")
    def heartbeat(self, executor: Executor) -> str:
        return past(executor.last_seen_at)

    @column("leases from it", label={"cordoned": "warning", "open": "success"})
    def state(self, executor: Executor) -> str:
        return "cordoned" if executor.cordoned else "open"

    @column("leases", ordering="lease_count")
    def lease_count(self, executor: Any) -> int:
        return int(executor.lease_count)

    @column("nodes")
    def node_count(self, executor: Executor) -> int:
        return len(executor.nodes)

    @column("nodes")
    def node_table(self, executor: Executor) -> SafeString | str:
        if not executor.nodes:
            return "-"
        rows = [
            (node.get("name", "?"), _amounts(node.get("allocatable")), _amounts(node.get("free")))
            for node in executor.nodes[:NODES]
        ]
        head = format_html("<tr><th>{}</th><th>{}</th><th>{}</th></tr>", "node", "has", "free")
        body = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
        more = len(executor.nodes) - len(rows)
        foot = format_html("<p>and {} more</p>", more) if more > 0 else ""
        return format_html('<table class="facts-table">{}{}</table>{}', head, body, foot)


def _amounts(resources: Any) -> str:
    if not isinstance(resources, dict):
        return "-"
    return ", ".join(f"{name} {amount}" for name, amount in resources.items()) or "-"


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Which executor may run which session, under which fencing token."""

    list_display = ("short_id", "executor", "fencing_token", "granted", "accepted", "lost")
    list_select_related = ("executor",)
    list_filter = (("executor", AutocompleteSelectFilter),)
    fields = (
        "session_page", "executor", "fencing_token", "granted_at", "accepted", "lost_at",
        "run_deadline",
    )  # fmt: skip
    readonly_fields = fields

    @column("session")
    def short_id(self, lease: Lease) -> SafeString:
        return short(lease.pk)

    @column("session")
    def session_page(self, lease: Lease) -> str:
        return session_link(lease.pk, str(lease.pk))

    @column("granted")
    def granted(self, lease: Lease) -> str:
        return past(lease.granted_at)

    @column("lost")
    def lost(self, lease: Lease) -> str:
        return past(lease.lost_at)
