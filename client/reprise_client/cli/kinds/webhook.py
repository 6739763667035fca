"""The kind of webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.exits import NOT_FOUND, USAGE, CommandError
from reprise_client.cli.kinds.base import (
    Applied,
    FieldError,
    How,
    Kind,
    Row,
    changed,
    found_or_none,
    listed_within,
    missing,
)
from reprise_client.cli.output import facts, grid, heading
from reprise_client.cli.scope import Scope
from reprise_client.cli.text import Text
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import Webhook, WebhookDelivery

SPEC = ("url", "event_types", "description")
SHOWN = 10
"""Most deliveries in a description."""
DELIVERY_HEADS = ("DELIVERY", "TYPE", "SESSION", "STATE", "ATTEMPTS", "ANSWER", "WHEN")
STYLES = {"delivered": "green", "waiting": "yellow", "failed": "red"}


class WebhookKind(Kind["Webhook"]):
    name = "Webhook"
    words = ("webhooks", "webhook", "wh")
    metadata_keys = ("name", "domain", "project")
    spec_keys = SPEC
    identity = ("id", "project")
    address_key = "id"
    made_by = "reprise webhook create URL"
    heads = ("ID", "PROJECT", "URL", "EVENTS", "STATE")
    wide_heads = ("DESCRIPTION", "CREATED")

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        """Change an existing webhook.

        Documents cannot create one, because its secret must be shown.
        """
        number = str(data["metadata"]["name"])
        before = found_or_none(client.webhook, number)
        if before is None:
            text = f"there is no webhook {number!r}; make it: {self.made_by}"
            raise FieldError("metadata.name", text, NOT_FOUND)
        how.require(there=True)
        after = client.webhook_change(before.id, **data["spec"])
        return Applied(after.id, changed(before, after, *SPEC))

    def metadata(self, item: Webhook) -> dict[str, str]:
        return {"name": item.id, **Scope.at(item.project).metadata}

    def all(self, client: Client, home: Scope | None) -> Iterable[Webhook]:
        return listed_within(client.webhooks, home)

    def find(self, client: Client, typed: str, home: Scope) -> Webhook:
        """Return the webhook with this id, or with an id that starts so."""
        return webhook_typed(client, typed)

    def delete(self, client: Client, item: Webhook) -> str:
        client.webhook_delete(item.id)
        return "deleted"

    def row(self, item: Webhook, now: datetime) -> Row:
        return [item.id, item.project, item.url, _types(item), state_text(item)]

    def wide_row(self, item: Webhook, now: datetime) -> Row:
        return [item.description, when(item.created_at, now)]

    def description(self, client: Client, item: Webhook, now: datetime) -> RenderableType:
        paused = f"since {when(item.paused_at, now)}: {item.paused_reason}"
        failing = f"{item.failures} attempts in a row, since {when(item.failing_since, now)}"
        latest = list(islice(client.webhook_deliveries(item.id, page_size=SHOWN), SHOWN))
        return Group(
            facts(
                [
                    ("Webhook", item.id),
                    ("Project", item.project),
                    ("URL", item.url),
                    ("Events", _types(item)),
                    ("Description", item.description),
                    ("Paused", paused if item.paused_at else ""),
                    ("Failing", failing if item.failures else ""),
                    ("Old secret", _overlap(item, now)),
                    ("Created", f"{when(item.created_at, now)} by {item.created_by}"),
                ]
            ),
            *(
                [heading("Deliveries, the newest first"), delivery_table(latest, now)]
                if latest
                else []
            ),
        )


def webhook_typed(client: Client, typed: str) -> Webhook:
    """Return the webhook with this id, or with an id that starts so. Raises `CommandError`."""
    if len(typed) == 36 and (found := found_or_none(client.webhook, typed)) is not None:
        return found
    begun = [each for each in client.webhooks() if each.id.startswith(typed)] if typed else []
    if len(begun) > 1:
        raise CommandError(f"{len(begun)} webhooks begin with {typed}: give more characters", USAGE)
    if not begun:
        raise missing("webhook", typed, "", "webhooks")
    return begun[0]


def delivery_table(deliveries: Iterable[WebhookDelivery], now: datetime) -> RenderableType:
    return grid(DELIVERY_HEADS, (_delivery_row(each, now) for each in deliveries))


def _delivery_row(delivery: WebhookDelivery, now: datetime) -> Row:
    return [
        str(delivery.id),
        delivery.type,
        delivery.session_id or "",
        Text(delivery.state, STYLES.get(delivery.state, "")),
        str(delivery.attempts),
        answer_words(delivery),
        when(delivery.attempted_at or delivery.created_at, now),
    ]


def answer_words(delivery: WebhookDelivery) -> str:
    """Return the receiver's last answer, such as `204 in 12 ms`."""
    if delivery.response_code is None:
        return delivery.error
    return f"{delivery.response_code} in {delivery.latency_ms} ms"


def state_text(item: Webhook) -> Text:
    if item.paused_at is not None:
        return Text(f"paused: {item.paused_reason}", "red")
    return Text("failing", "yellow") if item.failures else Text("active", "green")


def _types(item: Webhook) -> str:
    return ", ".join(item.event_types) or "all"


def _overlap(item: Webhook, now: datetime) -> str:
    until = item.previous_secret_until
    return f"signs, too, until {when(until, now)}" if until and until > now else ""
