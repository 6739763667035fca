"""Webhooks."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, StrictInt, StrictStr, model_validator

from interfaces.kinds.resource import Call, Listing, Resource, each, showing
from interfaces.render.webhook_render import delivery_json, webhook_json
from interfaces.requests.bodies import CordonBody, ProjectAddress
from interfaces.requests.filters import WebhookFilter
from interfaces.requests.queries import Time
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from interfaces.shapes import webhook_shapes as shapes
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.models import WebhookDelivery, WebhookEndpoint
from sessions_app.models.webhooks import MAX_REASON, MAX_URL, DeliveryState
from sessions_app.selectors.sessions import project_resolve
from sessions_app.selectors.webhooks import webhook_get, webhooks_visible
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


def _with_secret(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {**webhook_json(endpoint), "secret": endpoint.new_secret}


WEBHOOK = Resource(
    name="webhook",
    many="webhooks",
    address="webhooks",
    place="<uuid:webhook_id>",
    shape=shapes.Webhook,
    page=shapes.WebhookPage,
    render=each(webhook_json),
    listing=Listing(
        Action.WEBHOOK_LIST,
        "List the webhooks of the projects that you maintain, oldest first.",
        webhooks_visible,
        ["id"],
        WebhookFilter,
    ),
    read=Call(Action.WEBHOOK_READ, "One webhook.", webhook_get),
    create=Call(
        Action.WEBHOOK_WRITE,
        "Create a webhook. The answer shows its secret, only once.",
        create,
        WebhookCreate,
        shape=shapes.WebhookWithSecret,
        show=showing(_with_secret),
    ),
    patch=Call(Action.WEBHOOK_WRITE, "Change the given fields.", change, WebhookChanges),
    delete=Call(Action.WEBHOOK_WRITE, "Delete a webhook and its deliveries.", delete),
    acts={
        "secret": Call(
            Action.WEBHOOK_WRITE,
            "Create a new secret, which is shown only once. During the overlap, the old "
            "secret signs\ntoo.",
            new_secret,
            NewSecret,
            shape=shapes.WebhookWithSecret,
            show=showing(_with_secret),
            status=201,
            once=True,
            named="webhook_new_secret",
        ),
        "pause": Call(
            Action.WEBHOOK_WRITE,
            "Pause the webhook. Events of the pause are sent after it is resumed.",
            pause,
            CordonBody,
        ),
        "resume": Call(
            Action.WEBHOOK_WRITE,
            "Resume a paused webhook from where it stopped. An active webhook does not change.",
            resume,
        ),
        "ping": Call(
            Action.WEBHOOK_WRITE,
            "Send a test message, even if the webhook is paused. Its delivery shows the result.",
            ping,
            shape=shapes.WebhookDelivery,
            show=showing(delivery_json),
            status=202,
            location=lambda delivery: f"../deliveries/{delivery.pk}/",
        ),
        "redeliver": Call(
            Action.WEBHOOK_WRITE,
            "Send one delivery again, or all since a time, with their original ids.",
            redeliver,
            Redeliver,
            shape=shapes.Redelivered,
            show=showing(lambda count: {"redelivered": count}),
            status=202,
        ),
    },
)
