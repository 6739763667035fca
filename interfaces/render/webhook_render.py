"""Renders webhooks and their deliveries."""

from typing import Any

from interfaces.render.by_shape import rendered
from interfaces.shapes import webhook_shapes as shapes
from sessions_app.models import WebhookDelivery, WebhookEndpoint


def webhook_json(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return a webhook without its secret."""
    return rendered(shapes.Webhook, endpoint, project=endpoint.project.address)


def delivery_json(delivery: WebhookDelivery) -> dict[str, Any]:
    """Return a delivery, with the result of its last attempt."""
    return rendered(shapes.WebhookDelivery, delivery, next_attempt_at=delivery.due_at)
