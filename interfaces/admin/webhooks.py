"""The pages of all projects' webhooks and of their deliveries."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import LookedUpAdmin, ReadOnlyAdmin, column, operator
from interfaces.admin.cells import coming, past, session_link
from sessions_app.models import WebhookDelivery, WebhookEndpoint
from sessions_app.webhooks.endpoints import webhook_pause, webhook_ping, webhook_resume

_STATES = {"active": "success", "failing": "warning", "paused": "danger"}
_DELIVERY_STATES = {"waiting": "warning", "delivered": "success", "failed": "danger"}


@admin.register(WebhookEndpoint)
class WebhookAdmin(ReadOnlyAdmin):
    """The webhooks. Tenants create and change them over the API, which shows their secrets."""

    list_display = ("url", "project", "state", "paused_reason", "failures", "made", "created_by")
    joined = ("project__domain",)
    list_filter = (("project", AutocompleteSelectFilter),)
    search_fields = ("host__startswith", "project__name__startswith")
    fields = (
        *("id", "project", "url", "description", "event_types", "state", "paused_reason"),
        *("paused_at", "failures", "failing_since", "created_at", "created_by"),
    )
    readonly_fields = ("state",)
    actions = ("pause", "resume", "ping")

    @column("state", label=_STATES)
    def state(self, endpoint: WebhookEndpoint) -> str:
        if endpoint.paused_at is not None:
            return "paused"
        return "failing" if endpoint.failures else "active"

    @column("made", ordering="created_at")
    def made(self, endpoint: WebhookEndpoint) -> str:
        return past(endpoint.created_at)

    @admin.action(description="Pause")
    def pause(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Pause the chosen webhooks until somebody resumes them."""
        for endpoint in chosen:
            webhook_pause(endpoint, reason="paused by an operator", by=operator(request))
        messages.success(request, "Paused. New events wait and are sent after it is resumed.")

    @admin.action(description="Resume where they were paused")
    def resume(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Resume the chosen webhooks that are paused."""
        for endpoint in chosen:
            webhook_resume(endpoint, by=operator(request))
        messages.success(request, "Resumed. The events since the pause are sent now.")

    @admin.action(description="Send a test message")
    def ping(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Send a test message to the chosen webhooks. The deliveries show the results."""
        for endpoint in chosen:
            webhook_ping(endpoint)
        messages.success(request, "Sent. The list of deliveries shows the result.")


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(LookedUpAdmin):
    """The deliveries: what was sent, and what waits."""

    list_display = ("type", "endpoint", "session", "status", "attempts", "answer", "tried", "next")
    list_filter = ("state",)
    list_select_related = ("endpoint",)
    search_fields = ("endpoint",)
    search_help_text = "the whole id of a webhook"
    fields = (
        *("endpoint", "type", "event_id", "session_id", "state", "attempts", "redelivery"),
        *("created_at", "attempted_at", "due_at", "finished_at", "response_code", "latency_ms"),
        *("error", "response_excerpt"),
    )

    def found(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """Return the deliveries of one webhook."""
        try:
            return queryset.filter(endpoint=UUID(text))
        except ValueError:
            return queryset.none()

    @column("session")
    def session(self, delivery: WebhookDelivery) -> Any:
        return session_link(delivery.session_id)

    @column("state", label=_DELIVERY_STATES)
    def status(self, delivery: WebhookDelivery) -> str:
        return str(delivery.state)

    @column("answer")
    def answer(self, delivery: WebhookDelivery) -> str:
        return delivery.error if delivery.response_code is None else str(delivery.response_code)

    @column("tried")
    def tried(self, delivery: WebhookDelivery) -> str:
        return past(delivery.attempted_at)

    @column("next attempt")
    def next(self, delivery: WebhookDelivery) -> str:
        return coming(delivery.due_at)
