"""Webhooks."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, StrictInt, StrictStr, model_validator

from sessions_app.api.requests.bodies import CordonBody, ProjectAddress
from sessions_app.api.requests.queries import Time
from sessions_app.api.requests.strict import StrictModel
from sessions_app.api.requests.whole_numbers import WHOLE
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.models import WebhookDelivery, WebhookEndpoint
from sessions_app.models.webhooks import MAX_REASON, MAX_URL, DeliveryState
from sessions_app.selectors.sessions import project_resolve
from sessions_app.selectors.webhooks import webhook_get
from sessions_app.webhooks import endpoints
from sessions_app.webhooks.rules import CLUSTER_TYPES, TYPES

MAX_OVERLAP = 7 * 86_400
Address = Annotated[StrictStr, Field(min_length=1, max_length=MAX_URL)]
EventTypes = Annotated[
    list[Annotated[StrictStr, Field(min_length=1, max_length=64)]],
    Field(max_length=len(TYPES | CLUSTER_TYPES)),
]
Description = Annotated[StrictStr, Field(max_length=MAX_REASON)]
_STATES = {
    "failed": (DeliveryState.FAILED,),
    "delivered": (DeliveryState.DELIVERED,),
    "all": (DeliveryState.FAILED, DeliveryState.DELIVERED),
}


class WebhookCreate(StrictModel):
    """The body of `POST /webhooks/`."""

    project: ProjectAddress | None = None
    """`domain/name`."""
    url: Address
    event_types: EventTypes = []
    """Types, or beginnings of types followed by `*`. Empty means all."""
    description: Description = ""


class WebhookChanges(StrictModel):
    """The fields that `PATCH` may change."""

    url: Address | None = None
    event_types: EventTypes | None = None
    description: Description | None = None


class NewSecret(StrictModel):
    """The body of `POST .../secret/`, which may be empty."""

    overlap: Annotated[StrictInt, Field(ge=0, le=MAX_OVERLAP), WHOLE] = 86_400
    """Seconds for which the old secret also signs."""


class Redeliver(StrictModel):
    """The body of `POST .../redeliver/`: one delivery, or all since a time."""

    delivery: Annotated[StrictInt, Field(ge=0, lt=2**63), WHOLE] | None = None
    since: Time | None = None
    state: Literal["failed", "delivered", "all"] = "failed"
    """With `since`: the state of the event's last delivery."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.delivery is None) == (self.since is None):
            raise InvalidInput({"delivery": ["give either this or since"]})
        return self


def _found(actor: Actor, webhook_id: UUID) -> WebhookEndpoint:
    return webhook_get(actor, webhook_id, Action.WEBHOOK_WRITE)


def create(actor: Actor, body: Mapping[str, Any]) -> WebhookEndpoint:
    """Create a webhook. Its secret is shown only now."""
    asked = WebhookCreate.model_validate(body)
    project = project_resolve(actor, asked.project, Action.WEBHOOK_WRITE)
    return endpoints.webhook_create(
        project=project,
        url=asked.url,
        event_types=asked.event_types,
        description=asked.description,
        by=actor.name,
    )


def change(actor: Actor, webhook_id: UUID, body: Mapping[str, Any]) -> WebhookEndpoint:
    """Change the given fields."""
    endpoint = _found(actor, webhook_id)
    asked = WebhookChanges.model_validate(body)
    sent = {k: v for k, v in asked.model_dump(exclude_unset=True).items() if v is not None}
    for name, value in sent.items():
        setattr(endpoint, name, value)
    endpoints.webhook_change(endpoint, by=actor.name, fields=sent)
    return endpoint


def delete(actor: Actor, webhook_id: UUID) -> None:
    """Delete a webhook and its deliveries."""
    endpoints.webhook_delete(_found(actor, webhook_id), by=actor.name)


def new_secret(actor: Actor, webhook_id: UUID, body: Mapping[str, Any]) -> WebhookEndpoint:
    """Create a new secret. The old one also signs during the overlap."""
    endpoint = _found(actor, webhook_id)
    overlap = timedelta(seconds=NewSecret.model_validate(body).overlap)
    endpoints.webhook_new_secret(endpoint, overlap=overlap, by=actor.name)
    return endpoint


def pause(actor: Actor, webhook_id: UUID, body: Mapping[str, Any]) -> WebhookEndpoint:
    """Send nothing more; new events wait in the log."""
    endpoint = _found(actor, webhook_id)
    reason = CordonBody.model_validate(body).reason
    endpoints.webhook_pause(endpoint, reason=reason, by=actor.name)
    return endpoint


def resume(actor: Actor, webhook_id: UUID) -> WebhookEndpoint:
    """Continue from where it was paused."""
    endpoint = _found(actor, webhook_id)
    endpoints.webhook_resume(endpoint, by=actor.name)
    return endpoint


def ping(actor: Actor, webhook_id: UUID) -> WebhookDelivery:
    """Send a test message, even if it is paused."""
    return endpoints.webhook_ping(_found(actor, webhook_id))


def redeliver(actor: Actor, webhook_id: UUID, body: Mapping[str, Any]) -> int:
    """Repeat one delivery, or those since a time, and return how many."""
    endpoint = _found(actor, webhook_id)
    asked = Redeliver.model_validate(body)
    return endpoints.webhook_redeliver(
        endpoint, delivery=asked.delivery, since=asked.since, states=_STATES[asked.state]
    )
