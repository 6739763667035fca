"""Webhooks, as calls; they are for those who maintain a project."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls, part, present
from reprise_client.models import Redelivered, Webhook, WebhookDelivery


class WebhookCalls(Calls):
    """The calls by which webhooks are made, looked at, paused and asked to send again."""

    def webhooks(self, **filters: Any) -> Iterator[Webhook]:
        """Those of the projects that one maintains; `filters` are `project` and `paused`."""
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
        """Makes a webhook, whose `secret` is told this once.

        `event_types` are types, or their beginnings with a `*` behind; none: all.
        """
        body = {"url": url, "event_types": list(event_types), "description": description}
        placed = present({"project": project or self.project})
        return self._send(Webhook, "POST", "/webhooks/", {**body, **placed})

    def webhook_change(self, webhook_id: str, /, **fields: Any) -> Webhook:
        """Changes what is named: `url`, `event_types`, `description`."""
        return self._send(Webhook, "PATCH", _path(webhook_id), fields, idempotent=True)

    def webhook_delete(self, webhook_id: str) -> None:
        """Deletes it with the log of its deliveries."""
        self._transport.request("DELETE", _path(webhook_id), idempotent=True)

    def webhook_secret(self, webhook_id: str, *, overlap: int | None = None) -> Webhook:
        """Makes a new `secret`, told this once; for `overlap` seconds the old one signs, too."""
        body = present({"overlap": overlap})
        return self._send(Webhook, "POST", f"{_path(webhook_id)}secret/", body)

    def webhook_pause(self, webhook_id: str, reason: str) -> Webhook:
        """Sends nothing more; what happens meanwhile waits in the log."""
        body = {"reason": reason}
        return self._send(Webhook, "POST", f"{_path(webhook_id)}pause/", body, idempotent=True)

    def webhook_resume(self, webhook_id: str) -> Webhook:
        """Goes on from where it was paused."""
        return self._send(Webhook, "POST", f"{_path(webhook_id)}resume/", {}, idempotent=True)

    def webhook_ping(self, webhook_id: str) -> WebhookDelivery:
        """Sends a test message; `webhook_delivery` tells later what came of it."""
        return self._send(WebhookDelivery, "POST", f"{_path(webhook_id)}ping/", {})

    def webhook_deliveries(self, webhook_id: str, **filters: Any) -> Iterator[WebhookDelivery]:
        """Newest first; `filters` are `state`, `session` and `type`."""
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
        """Sends one delivery again, or those since a time; how many.

        `state` says which of the latter: `failed` (those if it is None), `delivered` or `all`.
        """
        body = present({"delivery": delivery, "since": since, "state": state})
        path = f"{_path(webhook_id)}redeliver/"
        return self._send(Redelivered, "POST", path, body).redelivered


def _path(webhook_id: str) -> str:
    return f"/webhooks/{part(webhook_id)}/"
