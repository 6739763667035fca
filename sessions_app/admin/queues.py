"""The pages of queues."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import UnfoldAdminTextareaWidget

from sessions_app.admin.base import RecordAdmin, add_errors, column, operator
from sessions_app.admin.cordons import CordonForm
from sessions_app.admin.policy_list import policies_offered
from sessions_app.core.errors import InvalidInput
from sessions_app.models import Queue
from sessions_app.selectors.counts import queue_has_sessions
from sessions_app.services.resources.policy_names import FIELD, policies_require
from sessions_app.services.resources.queues import limits_check, queue_save

LIMITS = "resource_limits"


class QueueForm(CordonForm):
    """The form of a queue. The service checks it, so that every door refuses the same."""

    retry_policies = forms.CharField(
        required=False,
        max_length=2_000,
        widget=UnfoldAdminTextareaWidget({"rows": 4, "class": "yaml-text"}),
        help_text="one name a line; their rules are asked in this order, before those that a "
        "session adds",
    )

    resource_limits = forms.CharField(
        required=False,
        max_length=2_000,
        widget=UnfoldAdminTextareaWidget({"rows": 4, "class": "yaml-text"}),
        help_text="what its running sessions may hold together, one resource a line, such as "
        "cpu: 200 or sessions: 50",
    )

    refusals: ClassVar = {
        "queue_name_unique": ("name", "The project has a queue of this name."),
        "queue_factor_positive": ("priority_factor", "Must be greater than 0."),
        # The service makes the new default queue the only one.
        "queue_one_default": ("is_default", ""),
    }

    class Meta:
        help_texts = {
            "is_default": "takes what names no queue; the project's present one steps back",
            "priority_factor": "lower is more important",
            "cordoned": "a cordoned queue takes sessions, but none of them gets an executor",
            "cordon_reason": "why, for whoever wonders what the sessions wait for",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial[FIELD] = "\n".join(self.instance.retry_policies)
        limits = self.instance.resource_limits
        self.initial[LIMITS] = "\n".join(f"{name}: {value}" for name, value in limits.items())
        if self.instance.pk:
            field = self.fields[FIELD]
            field.help_text = f"{field.help_text}; {policies_offered(self.instance.project)}"

    def clean_resource_limits(self) -> dict[str, str]:
        """Parse the limits, one `resource: amount` in each line."""
        limits = {}
        for text in self.cleaned_data[LIMITS].splitlines():
            name, colon, amount = (part.strip() for part in text.partition(":"))
            if name and not (colon and amount):
                raise forms.ValidationError(f"{name}: use the form resource: amount")
            if name:
                limits[name] = amount
        try:
            limits_check(limits)
        except InvalidInput as error:
            raise forms.ValidationError(error.errors[LIMITS]) from None
        return limits

    def clean(self) -> dict[str, Any]:
        """Check the cordon and the policies."""
        cleaned = super().clean()
        self._check_policies(cleaned)
        return cleaned

    def _check_policies(self, cleaned: dict[str, Any]) -> None:
        project = self.instance.project if self.instance.pk else cleaned.get("project")
        names = cleaned.get(FIELD, "").replace(",", " ").split()
        cleaned[FIELD] = names
        if project is not None:
            try:
                cleaned[FIELD] = policies_require(names, project=project)
            except InvalidInput as error:
                add_errors(self, error)


@admin.register(Queue)
class QueueAdmin(RecordAdmin):
    """The queues. One can be deleted if no session ever waited in it."""

    form = QueueForm
    list_display = (
        "name",
        "project",
        "is_default",
        "priority_factor",
        "share",
        "policies",
        "cordon",
        "cordon_reason",
    )
    joined = ("project__domain", "usage")
    list_filter = ("cordoned", ("project", AutocompleteSelectFilter))
    search_fields = ("name__startswith", "project__name__startswith")
    ordering = ("project__domain__name", "project__name", "name")
    autocomplete_fields = ("project",)
    fieldsets = (
        (None, {"fields": ("project", "name", "is_default", "priority_factor", LIMITS)}),
        ("Usage", {"fields": ("share", "used")}),
        ("Retries", {"fields": (FIELD,)}),
        ("Cordon", {"fields": ("cordoned", "cordon_reason")}),
    )
    add_fieldsets = (fieldsets[0], *fieldsets[2:])
    readonly_fields = ("share", "used")
    fixed_fields = ("project", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete a default queue or one that was ever used."""
        if obj is None or obj.is_default:
            return False
        used = queue_has_sessions(obj)
        return not used and super().has_delete_permission(request, obj)

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        queue_save(record, by=operator(request), fields=form.changed_data)

    @column("share", ordering="usage__cost")
    def share(self, queue: Any) -> str:
        usage = getattr(queue, "usage", None)
        if usage is None:
            return "-"
        effective = queue.priority_factor * usage.current_priority
        return f"{usage.cost:.1%} of the pool; effective priority {effective:.3g}"

    @column("holds")
    def used(self, queue: Any) -> str:
        usage = getattr(queue, "usage", None)
        held = usage.used if usage else {}
        return ", ".join(f"{name} {amount}" for name, amount in held.items()) or "-"

    @column("retry policies")
    def policies(self, queue: Queue) -> str:
        return ", ".join(queue.retry_policies) or "-"

    @column("state", label={"cordoned": "warning", "open": "success"})
    def cordon(self, queue: Queue) -> str:
        return "cordoned" if queue.cordoned else "open"
