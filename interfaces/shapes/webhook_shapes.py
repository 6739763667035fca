"""The shapes of webhooks, for the OpenAPI document."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from interfaces.shapes.pages import Page


class Webhook(BaseModel):
    """A webhook: a URL that receives a project's events."""

    id: UUID
    project: str
    url: str
    description: str
    event_types: list[str]
    """Empty means all types."""
    paused_at: datetime | None
    paused_reason: str
    failures: int
    """Failed attempts since the last successful one."""
    failing_since: datetime | None
    previous_secret_until: datetime | None
    """The end of the time in which the previous secret also signs."""
    created_at: datetime
    created_by: str


class WebhookWithSecret(Webhook):
    """The answer with the secret, which is shown only once."""

    secret: str


class WebhookPage(Page[Webhook]):
    """Webhooks, oldest first."""


class WebhookDelivery(BaseModel):
    """An event on its way to a webhook, or a ping."""

    id: int
    message_id: str
    """The `webhook-id`, by which a receiver detects repetitions."""
    type: str
    event_id: int | None
    """None for a ping, and for an event that belongs to no session."""
    session_id: UUID | None
    state: Literal["waiting", "delivered", "failed"]
    attempts: int
    redelivery: bool
    created_at: datetime
    attempted_at: datetime | None
    next_attempt_at: datetime | None
    """None also while it waits for an earlier event of its session."""
    finished_at: datetime | None
    response_code: int | None
    response_excerpt: str
    error: str
    latency_ms: int | None


class WebhookDeliveryPage(Page[WebhookDelivery]):
    """Deliveries, newest first."""


class Redelivered(BaseModel):
    """The number of deliveries that are sent again."""

    redelivered: int
