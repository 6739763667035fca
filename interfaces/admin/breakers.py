"""The pages of breakers."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextInputWidget

from interfaces.admin.base import OperatorForm, ReadOnlyAdmin, RecordAdmin, column, operator
from interfaces.admin.cells import coming, past
from interfaces.requests.bodies import one_line
from sessions_app.models import Breaker
from sessions_app.models.breakers import MAX_REASON
from sessions_app.services.breakers.acts import breaker_close, breaker_open, breakers_mute

_STATES = {"open": "danger", "closed": "default"}
_SCOPE = ("project", "queue")


class BreakerForm(OperatorForm):
    """The form of a breaker that an operator opens."""

    signature = forms.RegexField(
        r"^[0-9a-f]{12}\Z",
        strip=True,
        help_text="the key of the failure",
        error_messages={"invalid": "A signature has 12 digits, 0 to 9 and a to f."},
        widget=UnfoldAdminTextInputWidget,
    )
    reason = forms.CharField(
        required=False,
        max_length=MAX_REASON,
        help_text="shown to users whose retries wait",
        widget=UnfoldAdminTextInputWidget,
    )

    class Meta:
        help_texts = {
            "project": "empty, and no queue: the whole cluster",
            "queue": "empty: the whole project",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _SCOPE:
            if name in self.fields:  # the page of one that exists has no form
                self.fields[name].required = False

    def clean_reason(self) -> str:
        """Refuse what is no line for lists and logs."""
        try:
            return one_line(self.cleaned_data["reason"])
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        """Check that the queue is of the project; a queue alone names its project, too."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        project, queue = (cleaned.get(name) for name in _SCOPE)
        if queue is not None and project is None and "project" not in self.errors:
            cleaned["project"] = queue.project
        elif queue is not None and project is not None and queue.project_id != project.pk:
            self.add_error("queue", f"{queue} is not a queue of {project.address}.")
        return cleaned


@admin.register(Breaker)
class BreakerAdmin(ReadOnlyAdmin, RecordAdmin):
    """The breakers of all scopes. The engine and operators open, close and mute them."""

    form = BreakerForm
    list_display = ("signature", "at", "now", "muted", "reason", "opened", "probes", "next")
    joined = ("project__domain", "queue")
    list_filter = ("state", "muted")
    search_fields = ("signature__startswith",)
    ordering = ("-opened_at", "pk")
    autocomplete_fields = _SCOPE
    fields = (
        *("id", "at", "signature", "state", "muted", "reason", "chains"),
        *("opened_at", "opened_by", "closed_at", "closed_by"),
        *("probe", "probe_since", "probes", "probe_at", "probe_delay"),
    )
    add_fieldsets = ((None, {"fields": (*_SCOPE, "signature", "reason")}),)
    readonly_fields = ("at",)
    actions = ("close", "close_and_mute", "mute", "unmute")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Let operators open one by hand."""
        return bool(RecordAdmin.has_add_permission(self, request))

    def store(self, request: HttpRequest, record: Any, form: Any) -> None:
        """Open the breaker. Raises `Conflict` if it is open, or if the failure can have none."""
        project, queue = (form.cleaned_data[name] for name in _SCOPE)
        reason, by = form.cleaned_data["reason"], operator(request)
        made = breaker_open(project, queue, record.signature, reason=reason, by=by)
        record.pk, record.scope = made.pk, made.scope

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the id in the audit log."""
        return "breaker", str(record.pk)

    @column("scope")
    def at(self, breaker: Breaker) -> str:
        return breaker.address

    @column("state", label=_STATES)
    def now(self, breaker: Breaker) -> str:
        return breaker.state

    @column("opened", ordering="opened_at")
    def opened(self, breaker: Breaker) -> str:
        return past(breaker.opened_at)

    @column("next probe")
    def next(self, breaker: Breaker) -> str:
        return coming(breaker.probe_at)

    @admin.action(description="Close")
    def close(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Close the chosen breakers."""
        _close(request, chosen, mute=False)
        messages.success(request, "Closed. What they held goes on.")

    @admin.action(description="Close; they do not open by themselves any more")
    def close_and_mute(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Close and mute the chosen breakers."""
        _close(request, chosen, mute=True)
        messages.success(request, "Closed and muted. What they held goes on.")

    @admin.action(description="Mute: they stay as they are, and do not open by themselves")
    def mute(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Mute the chosen breakers."""
        done = _mute(request, chosen, muted=True)
        messages.success(request, f"{_breakers(done)} muted.")

    @admin.action(description="Take back the muting")
    def unmute(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Let the chosen breakers open by themselves again."""
        done = _mute(request, chosen, muted=False)
        messages.success(request, f"{_breakers(done)} no longer muted.")


def _close(request: HttpRequest, chosen: QuerySet[Any], *, mute: bool) -> None:
    for breaker in chosen:
        breaker_close(breaker.pk, reason="closed by an operator", mute=mute, by=operator(request))


def _mute(request: HttpRequest, chosen: QuerySet[Any], *, muted: bool) -> int:
    rows = list(chosen.values_list("pk", flat=True))
    return breakers_mute(rows, muted=muted, by=operator(request))


def _breakers(number: int) -> str:
    return f"{number} breaker is" if number == 1 else f"{number} breakers are"
