"""Mutations of webhooks."""

from typing import Any
from uuid import UUID

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.kinds import ID_HELP
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.graphql.nodes import uuid_of
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.scalars import BigInt
from sessions_app.api.graphql.webhooks import (
    Webhook,
    WebhookDelivery,
    delivery_peers,
    render_webhooks,
)
from sessions_app.api.kinds import webhooks as operations
from sessions_app.api.kinds.webhooks import NewSecret, Redeliver, WebhookChanges, WebhookCreate
from sessions_app.api.requests.bodies import CordonBody
from sessions_app.models import WebhookEndpoint as Row

_SECRET_HELP = "The secret that signs the messages. It is shown only once."  # noqa: S105  # a description


class OfWebhook:
    """The input fields that name a webhook."""

    id = graphene.ID(required=True, description=ID_HELP)


def _key(given: dict[str, Any]) -> UUID:
    return uuid_of("Webhook", given.pop("id"))


def _peer(row: Row) -> Peer[Row]:
    return single_peer(Webhook, row, render_webhooks)


class CreateWebhook(Change, body=WebhookCreate):
    """Create a webhook of a project."""

    webhook = graphene.Field(Webhook)
    secret = graphene.String(description=_SECRET_HELP)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.create(context.actor, given)
        return {"webhook": _peer(made), "secret": made.new_secret}


class UpdateWebhook(Change, body=WebhookChanges):
    """Change the given fields of a webhook."""

    Input = OfWebhook
    webhook = graphene.Field(Webhook)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return {"webhook": _peer(operations.change(context.actor, key, given))}


class DeleteWebhook(Deletion):
    """Delete a webhook and its deliveries."""

    Input = OfWebhook

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        operations.delete(context.actor, key)
        return {"deleted_id": to_global_id("Webhook", str(key))}


class RotateWebhookSecret(Change, body=NewSecret):
    """Create a new secret. During the overlap, the old secret signs too."""

    Input = OfWebhook
    webhook = graphene.Field(Webhook)
    secret = graphene.String(description=_SECRET_HELP)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        row = operations.new_secret(context.actor, key, given)
        return {"webhook": _peer(row), "secret": row.new_secret}


class PauseWebhook(Change, body=CordonBody):
    """Pause the webhook. Events of the pause are sent after it is resumed."""

    Input = OfWebhook
    webhook = graphene.Field(Webhook)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return {"webhook": _peer(operations.pause(context.actor, key, given))}


class ResumeWebhook(Change):
    """Resume a paused webhook from where it stopped. An active webhook does not change."""

    Input = OfWebhook
    webhook = graphene.Field(Webhook)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"webhook": _peer(operations.resume(context.actor, _key(given)))}


class PingWebhook(Change):
    """Send a test message, even if the webhook is paused."""

    Input = OfWebhook
    delivery = graphene.Field(
        WebhookDelivery, description="The delivery of the message. It will show the result."
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.ping(context.actor, _key(given))
        return {"delivery": delivery_peers([made]).each()[0]}


class RedeliverWebhook(Change, body=Redeliver, kinds={"delivery": BigInt}):
    """Send one delivery again, or all since a time, with their original ids."""

    Input = OfWebhook
    redelivered = graphene.Int(description="The number of deliveries that are sent again.")

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return {"redelivered": operations.redeliver(context.actor, key, given)}


class WebhookMutations:
    """The mutations of webhooks."""

    create_webhook = CreateWebhook.Field()
    update_webhook = UpdateWebhook.Field()
    delete_webhook = DeleteWebhook.Field()
    rotate_webhook_secret = RotateWebhookSecret.Field()
    pause_webhook = PauseWebhook.Field()
    resume_webhook = ResumeWebhook.Field()
    ping_webhook = PingWebhook.Field()
    redeliver_webhook = RedeliverWebhook.Field()
