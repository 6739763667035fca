"""Mutations of webhooks."""

from typing import Any

import graphene

from interfaces.graphql.context import Context
from interfaces.graphql.mutations.kinds import ActOf, CreateOf, DeleteOf, UpdateOf
from interfaces.graphql.scalars import BigInt
from interfaces.graphql.webhooks import WEBHOOKS, WebhookDelivery, delivery_peers

_SECRET_HELP = "The secret that signs the messages. It is shown only once."  # noqa: S105  # a description


class CreateWebhook(CreateOf, of=WEBHOOKS):
    """Create a webhook of a project."""

    secret = graphene.String(description=_SECRET_HELP)

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"secret": result.new_secret}


class UpdateWebhook(UpdateOf, of=WEBHOOKS):
    """Change the given fields of a webhook."""


class DeleteWebhook(DeleteOf, of=WEBHOOKS): ...


class RotateWebhookSecret(ActOf, of=WEBHOOKS, act="secret"):
    """Create a new secret. During the overlap, the old secret signs too."""

    secret = graphene.String(description=_SECRET_HELP)

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"secret": result.new_secret}


class PauseWebhook(ActOf, of=WEBHOOKS, act="pause"): ...


class ResumeWebhook(ActOf, of=WEBHOOKS, act="resume"): ...


class PingWebhook(ActOf, of=WEBHOOKS, act="ping"):
    """Send a test message, even if the webhook is paused."""

    shows = False
    delivery = graphene.Field(
        WebhookDelivery, description="The delivery of the message. It will show the result."
    )

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"delivery": delivery_peers([result]).each()[0]}


class RedeliverWebhook(ActOf, of=WEBHOOKS, act="redeliver", kinds={"delivery": BigInt}):
    shows = False
    redelivered = graphene.Int(description="The number of deliveries that are sent again.")

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"redelivered": result}


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
