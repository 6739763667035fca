"""Admin pages of executors and their leases."""

import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from interfaces.admin.base import ReadOnlyAdmin, column, operator
from interfaces.admin.cells import folded, past, session_link, short
from interfaces.admin.cordons import CordonForm
from interfaces.admin.tokens import ShowsToken
from interfaces.requests.bodies import MAX_REASON
from scheduler.core.labels import labels_read, labels_text
from scheduler.models import Avoids, Executor, Lease, Placement
from scheduler.selectors import executor_leases, executor_reservations
from scheduler.services.drain import executor_drain
from scheduler.services.registry import LONGEST, executor_create, executor_delete, executor_save
from scheduler.services.silence import health_of
from sessions_app.core.states import Phase
from sessions_app.models.sessions import SessionType

NEVER_RETRIED = Q(
    leases__accepted=True,
    leases__session__phase=Phase.LIVE,
    leases__session__session_type__in=[SessionType.INTERACTIVE, SessionType.INFERENCE],
)
SET = (
    *("name", "projects", "unconfirmed_after", "placement"),
    *("avoid_suspects", "auto_quarantine", "preemption", "labels"),
)
NODES = 200
"""Maximum number of nodes that the page of an executor lists, and of sessions they are kept for."""
FEW = 5
"""Names of nodes that are shown before the rest is folded."""


class ExecutorForm(CordonForm):
    """The form of what operators set on an executor; the executor reports everything else."""

    unconfirmed_after = forms.FloatField(
        min_value=0,
        max_value=LONGEST,
        required=False,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="seconds after which a lost run counts as ended without confirmation; empty: "
        "REPRISE_UNCONFIRMED_AFTER; 0: never",
    )
    placement = forms.ChoiceField(
        choices=Placement.choices,
        required=False,
        initial=Placement.NODE,
        widget=UnfoldAdminSelectWidget,
        help_text="who chooses the nodes of pods; without a plan small sessions may take the room "
        "of a large one",
    )

    avoid_suspects = forms.ChoiceField(
        choices=Avoids.choices,
        required=False,
        initial=Avoids.OFF,
        widget=UnfoldAdminSelectWidget,
        help_text="who avoids nodes that fail more than the same work does elsewhere",
    )

    labels = forms.CharField(
        required=False,
        max_length=8_000,
        widget=UnfoldAdminTextInputWidget,
        help_text="rules choose executors by these, such as zone=b, gpu=a100",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["labels"] = labels_text(self.instance.labels)

    def clean_labels(self) -> dict[str, str]:
        """Parse the labels, as `name=value` with commas between them."""
        try:
            return labels_read(self.cleaned_data["labels"])
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean_avoid_suspects(self) -> str:
        """Keep the setting if the form does not send it."""
        return str(self.cleaned_data["avoid_suspects"] or self.instance.avoid_suspects)

    def clean_placement(self) -> str:
        """Keep the placement if the form does not send it."""
        return str(self.cleaned_data["placement"] or self.instance.placement)

    class Meta:
        help_texts = {
            "preemption": "whether sessions make room for others; empty: REPRISE_PREEMPTION",
            "auto_quarantine": "suspect nodes get no leases at all",
            "projects": "the only projects that it serves; none chosen: all projects",
            "cordoned": "gets no new leases; running sessions continue",
            "cordon_reason": "shown to users whose sessions wait",
        }


@admin.register(Executor)
class ExecutorAdmin(ShowsToken):
    """The admin page of executors: their health, last heartbeat and leases."""

    form = ExecutorForm
    list_display = (
        "name",
        "health",
        "heartbeat",
        "state",
        "cordon_reason",
        "lease_count",
        "node_count",
        "driver",
    )
    list_filter = ("cordoned",)
    actions = ("drain",)
    search_fields = ("name__startswith",)
    ordering = ("name",)
    autocomplete_fields = ("projects",)
    readonly_fields = (
        *("health", "trouble", "troubled_projects", "warned_of", "heartbeat", "driver"),
        *("lease_count", "max_sessions", "node_table", "template_table", "pods_get", "kept_table"),
    )
    fieldsets = (
        (None, {"fields": SET}),
        ("Cordon", {"fields": ("cordoned", "cordon_reason")}),
        ("Last reported", {"fields": readonly_fields}),
    )
    add_fieldsets = ((None, {"fields": SET}),)
    fixed_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the executors with their number of leases, in the same query."""
        found: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = found.annotate(lease_count=Count("leases"))
        return counted

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Return the executor with what is kept free there, which its page asks for repeatedly."""
        found: Any = super().get_object(request, object_id, from_field)
        if found is not None:
            found.kept = list(executor_reservations(found)[:NODES])
        return found

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Forbid the deletion of an executor that holds leases: their runs would be forgotten."""
        if obj is None or executor_leases(obj).exists():
            return False
        return bool(super().has_delete_permission(request, obj))

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Save an executor; show the token of a new one once."""
        projects, by = form.cleaned_data["projects"], operator(request)
        if record.pk is None:
            self.show_once(request, executor_create(record, projects=projects, by=by))
            return
        changed = set(form.changed_data)
        for field in ("placement", "avoid_suspects"):
            if form.cleaned_data[field] == form.initial.get(field):
                changed.discard(field)
        served = projects if "projects" in changed else None
        executor_save(record, by=by, fields=changed - {"projects"}, projects=served)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete an executor on behalf of the operator."""
        executor_delete(obj, by=operator(request))

    @column(
        "health",
        label={
            "alive": "success",
            "late": "warning",
            "silent": "danger",
            "never heard": "default",
        },
    )
    def health(self, executor: Executor) -> str:
        return health_of(executor.last_seen_at, timezone.now()).replace("_", " ")

    @column("trouble by project")
    def troubled_projects(self, executor: Executor) -> str:
        troubles = sorted(executor.project_troubles.values(), key=lambda each: str(each["project"]))
        return "; ".join(f"{each['project']}: {each['trouble']}" for each in troubles)

    @column("warnings")
    def warned_of(self, executor: Executor) -> str:
        return "; ".join(executor.warnings)

    @column("heartbeat", ordering="last_seen_at")
    def heartbeat(self, executor: Executor) -> str:
        return past(executor.last_seen_at)

    @column(
        "new leases",
        label={
            "draining": "warning",
            "cordoned": "warning",
            "in trouble": "danger",
            "open": "success",
        },
    )
    def state(self, executor: Executor) -> str:
        if executor.draining_since is not None:
            return "draining"
        if executor.cordoned:
            return "cordoned"
        return "in trouble" if executor.trouble else "open"

    @admin.action(description="Drain", permissions=["change"])
    def drain(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Ask for confirmation, with the number of sessions lost for good; then drain."""
        chosen = rows.order_by("name").annotate(never_retried=Count("leases", filter=NEVER_RETRIED))
        if "confirmed" not in request.POST:
            return self.render(request, "drain_confirm", "Drain executors", chosen=chosen)
        for name in chosen.values_list("name", flat=True):
            done = executor_drain(
                name,
                by=operator(request),
                reason=request.POST.get("reason", "")[:MAX_REASON],
                force="force" in request.POST,
            )
            text = f"{name}: {done.asked} runs asked to stop, {done.returned} leases taken back"
            kept = f", {done.kept} left running (never retried)" if done.kept else ""
            self.message_user(request, f"{text}{kept}.")
        return None

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
        more = len(executor.nodes) - len(rows)
        foot = format_html("<p>and {} more</p>", more) if more > 0 else ""
        return format_html("{}{}", _table(("node", "has", "free"), rows), foot)

    @column("nodes that its cluster can add")
    def template_table(self, executor: Executor) -> SafeString | str:
        if not executor.node_templates:
            return "-"
        rows = [
            (each["name"], _amounts(each["resources"]), labels_text(each["labels"]), each["max"])
            for each in executor.node_templates
        ]
        return _table(("template", "has", "labels", "at most"), rows)

    @column("pods get")
    def pods_get(self, executor: Executor) -> str:
        texts = [f"{name}: {json.dumps(value)}" for name, value in executor.pod_placing.items()]
        if executor.extended_tolerations:
            texts.append("tolerations for extended resources, from the cluster")
        return "; ".join(texts) or "-"

    @column("nodes kept free")
    def kept_table(self, executor: Any) -> SafeString | str:
        rows = [
            (
                session_link(each.session_id),
                each.session.project.address,
                folded(each.nodes, FEW) if each.nodes else "a session slot",
                past(each.since),
            )
            for each in executor.kept
        ]
        heads = ("for the session", "of the project", "nodes", "since")
        return _table(heads, rows) if rows else "-"


def _table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> SafeString:
    cells = format_html_join("", "<th>{}</th>", ((each,) for each in heads))
    body = format_html_join(
        "",
        "<tr>{}</tr>",
        ((format_html_join("", "<td>{}</td>", ((cell,) for cell in row)),) for row in rows),
    )
    return format_html('<table class="facts-table"><tr>{}</tr>{}</table>', cells, body)


def _amounts(resources: Any) -> str:
    if not isinstance(resources, dict):
        return "-"
    return ", ".join(f"{name} {amount}" for name, amount in resources.items()) or "-"


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """The admin page of leases: which executor may run which session, under which fencing token."""

    list_display = ("short_id", "executor", "fencing_token", "granted", "accepted", "lost")
    list_select_related = ("executor",)
    list_filter = (("executor", AutocompleteSelectFilter),)
    fields = (
        "session_page", "executor", "planned", "template", "fencing_token", "granted_at",
        "accepted", "lost_at", "run_deadline",
    )  # fmt: skip
    readonly_fields = fields

    @column("session")
    def short_id(self, lease: Lease) -> SafeString:
        return short(lease.pk)

    @column("session")
    def session_page(self, lease: Lease) -> str:
        return session_link(lease.pk, str(lease.pk))

    @column("planned nodes")
    def planned(self, lease: Lease) -> SafeString | str:
        return folded(list(dict.fromkeys(lease.nodes or ())), FEW)

    @column("granted")
    def granted(self, lease: Lease) -> str:
        return past(lease.granted_at)

    @column("lost")
    def lost(self, lease: Lease) -> str:
        return past(lease.lost_at)
