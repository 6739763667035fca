"""Webhooks as calls, for the maintainers of a project."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls, part, present
from reprise_client.models import Redelivered, Webhook, WebhookDelivery


class WebhookCalls(Calls):
    """The calls to create, show, pause and resume webhooks, and to repeat deliveries."""

    def webhooks(self, **filters: Any) -> Iterator[Webhook]:
        """Yield the webhooks of projects that the user maintains; `filters` are `project` and
        `paused`."""
        return self._pages(Webhook, "/webhooks/", filters)

    def webhook(self, webhook_id: str) -> Webhook:
        return self._get(Webhook, _path(webhook_id))

    def webhook_create(
        self,
        url: str,
        *,
        project: str | None = None,
        event_types: Sequence[str] = (),
        description: str = "",
    ) -> Webhook:
        """Create a webhook; its `secret` is shown only in this answer.

        `event_types` are types, or beginnings of types followed by `*`. Empty means all.
        """
        body = {"url": url, "event_types": list(event_types), "description": description}
        placed = present({"project": project or self.project})
        return self._send(Webhook, "POST", "/webhooks/", {**body, **placed})

    def webhook_change(self, webhook_id: str, /, **fields: Any) -> Webhook:
        """Change the given fields: `url`, `event_types`, `description`."""
        return self._send(Webhook, "PATCH", _path(webhook_id), fields, idempotent=True)

    def webhook_delete(self, webhook_id: str) -> None:
        """Delete it with the log of its deliveries."""
        self._transport.request("DELETE", _path(webhook_id), idempotent=True)

    def webhook_secret(self, webhook_id: str, *, overlap: int | None = None) -> Webhook:
        """Create a new `secret`, shown only here; the old one also signs for `overlap` seconds."""
        body = present({"overlap": overlap})
        return self._send(Webhook, "POST", f"{_path(webhook_id)}secret/", body)

    def webhook_pause(self, webhook_id: str, reason: str) -> Webhook:
        """Send nothing more; new events wait in the log."""
        body = {"reason": reason}
        return self._send(Webhook, "POST", f"{_path(webhook_id)}pause/", body, idempotent=True)

    def webhook_resume(self, webhook_id: str) -> Webhook:
        """Continue from where it was paused."""
        return self._send(Webhook, "POST", f"{_path(webhook_id)}resume/", {}, idempotent=True)

    def webhook_ping(self, webhook_id: str) -> WebhookDelivery:
        """Send a test message; `webhook_delivery` later shows the result."""
        return self._send(WebhookDelivery, "POST", f"{_path(webhook_id)}ping/", {})

    def webhook_deliveries(self, webhook_id: str, **filters: Any) -> Iterator[WebhookDelivery]:
        """Yield the deliveries, newest first; `filters` are `state`, `session` and `type`."""
        return self._pages(WebhookDelivery, f"{_path(webhook_id)}deliveries/", filters)

    def webhook_delivery(self, webhook_id: str, number: int) -> WebhookDelivery:
        return self._get(WebhookDelivery, f"{_path(webhook_id)}deliveries/{number}/")

    def webhook_redeliver(
        self,
        webhook_id: str,
        *,
        delivery: int | None = None,
        since: datetime | None = None,
        state: str | None = None,
    ) -> int:
        """Repeat one delivery, or those since a time, and return how many.

        For those since a time, `state` is `failed` (the default), `delivered` or `all`.
        """
        body = present({"delivery": delivery, "since": since, "state": state})
        path = f"{_path(webhook_id)}redeliver/"
        return self._send(Redelivered, "POST", path, body).redelivered


def _path(webhook_id: str) -> str:
    return f"/webhooks/{part(webhook_id)}/"
