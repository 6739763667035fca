"""The pages of queues."""

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import OperatorChangeList, RecordAdmin, column, operator
from interfaces.admin.budgets import budget_context
from interfaces.admin.cells import folded, measure
from interfaces.admin.cordons import CordonForm
from interfaces.admin.policy_list import NAMED
from interfaces.admin.theme import themed
from interfaces.forms.json_settings import BREAKER, BUDGET
from interfaces.forms.queues import LIMITS, TIMES, QueueTexts, policies_offered, texts_of
from sessions_app.models import Queue
from sessions_app.selectors.counts import Count, queue_has_sessions, waiting_by_queue
from sessions_app.services.resources.policy_names import FIELD
from sessions_app.services.resources.queues import queue_save


class QueueForm(QueueTexts, CordonForm):
    """The form of a queue."""

    refusals: ClassVar = {
        "queue_name_unique": ("name", "The project has a queue of this name."),
        "queue_factor_positive": ("priority_factor", "Must be greater than 0."),
        # The service makes the new default queue the only one.
        "queue_one_default": ("is_default", ""),
    }

    class Meta:
        help_texts = {
            "is_default": "gets the sessions that name no queue; replaces the project's present "
            "default queue",
            "priority_factor": "a lower factor gives a higher priority",
            "cordoned": "a cordoned queue accepts sessions, but does not start them",
            "cordon_reason": "shown to users whose sessions wait",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        themed(self)
        self.initial.update(texts_of(self.instance))
        if self.instance.pk:
            field = self.fields[FIELD]
            field.help_text = f"{field.help_text}; {policies_offered(self.instance.project)}"

    def clean(self) -> dict[str, Any]:
        """Check the cordon and the policies."""
        cleaned = super().clean()
        self.read_policies(self.instance.project if self.instance.pk else cleaned.get("project"))
        return cleaned


class QueueChangeList(OperatorChangeList):
    """The list. It reads what waits in all queues of a page in one statement."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and attach what waits, with the longest bars of the page."""
        super().get_results(request)
        queues: list[Any] = list(self.result_list)  # type: ignore[has-type]  # the theme is untyped
        waiting = waiting_by_queue([queue.pk for queue in queues])
        longest = max((count.value for count in waiting.values()), default=0)
        largest = max((_cost(queue) for queue in queues), default=0.0)
        for queue in queues:
            queue.waits = waiting.get(queue.pk, Count(0))
            queue.longest, queue.largest = longest, largest
        self.result_list = queues


def _cost(queue: Any) -> float:
    usage = getattr(queue, "usage", None)
    return usage.cost if usage else 0.0


@admin.register(Queue)
class QueueAdmin(RecordAdmin):
    """The queues. One can be deleted if no session ever waited in it."""

    form = QueueForm
    list_display = (
        "name",
        "project",
        "cordon",
        "share_bar",
        "waiting_bar",
        "priority",
        "factor",
        "policies",
        "cordon_reason",
        "is_default",
    )
    joined = ("project__domain", "usage")
    list_filter = ("cordoned", ("project", AutocompleteSelectFilter))
    search_fields = ("name__startswith", "project__name__startswith")
    ordering = ("project__domain__name", "project__name", "name")
    autocomplete_fields = ("project",)
    fieldsets = (
        (None, {"fields": ("project", "name", "is_default", "priority_factor", LIMITS, TIMES)}),
        ("Usage", {"fields": ("share", "used", "budget")}),
        ("Retries", {"fields": (FIELD, BREAKER, BUDGET)}),
        ("Cordon", {"fields": ("cordoned", "cordon_reason")}),
    )
    add_fieldsets = (fieldsets[0], *fieldsets[2:])
    readonly_fields = ("share", "used", "budget")
    fixed_fields = ("project", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete a default queue or one that was ever used."""
        if obj is None or obj.is_default:
            return False
        used = queue_has_sessions(obj)
        return not used and super().has_delete_permission(request, obj)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Read the queue, and how its budget stands: its page asks for each column repeatedly."""
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            found.standing = budget_context(f"queue:{found.pk}")
        return found

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        queue_save(record, by=operator(request), fields=form.changed_data)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return QueueChangeList

    @column("share", ordering="usage__cost")
    def share_bar(self, queue: Any) -> SafeString:
        share = _cost(queue)
        return measure(f"{share:.1%}", share, queue.largest, "share of the pool")

    @column("waiting")
    def waiting_bar(self, queue: Any) -> SafeString:
        waits: Count = queue.waits
        text = f"{waits.value:,}{'+' * waits.more}"
        return measure(text, waits.value, queue.longest, "waiting sessions")

    @column("priority")
    def priority(self, queue: Any) -> str:
        usage = getattr(queue, "usage", None)
        return f"{queue.priority_factor * usage.current_priority:.3g}" if usage else "-"

    @column("factor", ordering="priority_factor")
    def factor(self, queue: Queue) -> str:
        return f"{queue.priority_factor:g}"

    @column("share")
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

    @column("retry budget")
    def budget(self, queue: Any) -> SafeString | str:
        shown = {"budget": queue.standing}
        return render_to_string("admin/_budget.html", shown) if queue.standing else "-"

    @column("retry policies")
    def policies(self, queue: Queue) -> SafeString | str:
        return folded(queue.retry_policies, NAMED)

    @column("state", label={"cordoned": "warning", "open": "success"})
    def cordon(self, queue: Queue) -> str:
        return "cordoned" if queue.cordoned else "open"
