"""The pages of breakers."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from sessions_app.admin.base import ReadOnlyAdmin, column, operator
from sessions_app.admin.cells import coming, past
from sessions_app.models import Breaker
from sessions_app.services.breakers.acts import breaker_close

_STATES = {"open": "danger", "closed": "default"}


@admin.register(Breaker)
class BreakerAdmin(ReadOnlyAdmin):
    """The breakers of all scopes. The engine opens them; operators close them."""

    list_display = ("signature", "at", "now", "muted", "reason", "opened", "probes", "next")
    joined = ("project__domain", "queue")
    list_filter = ("state", "muted")
    search_fields = ("signature__startswith",)
    ordering = ("-opened_at", "pk")
    fields = (
        *("id", "at", "signature", "state", "muted", "reason", "chains"),
        *("opened_at", "opened_by", "closed_at", "closed_by"),
        *("probe", "probe_since", "probes", "probe_at", "probe_delay"),
    )
    readonly_fields = ("at",)
    actions = ("close", "close_and_mute")

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


def _close(request: HttpRequest, chosen: QuerySet[Any], *, mute: bool) -> None:
    for breaker in chosen:
        breaker_close(breaker.pk, reason="closed by an operator", mute=mute, by=operator(request))
