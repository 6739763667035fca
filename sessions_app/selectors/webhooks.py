"""Reads of webhooks; the first argument is the actor."""

from uuid import UUID

from django.db.models import QuerySet

from sessions_app.authorization import Action, Actor, authorize, require_user
from sessions_app.core.errors import NotFound
from sessions_app.models import WebhookDelivery, WebhookEndpoint
from sessions_app.models.tenants import Role


def webhooks_visible(actor: Actor) -> QuerySet[WebhookEndpoint]:
    """Return the webhooks that the actor may read as maintainer: a URL may be a secret."""
    require_user(actor)
    visible = actor.projects(least=Role.MAINTAINER)
    return WebhookEndpoint.objects.filter(project__in=visible).select_related("project__domain")


def webhook_get(actor: Actor, webhook_id: UUID, action: Action) -> WebhookEndpoint:
    """Return one webhook. Raises `NotFound` and `NotPermitted`."""
    require_user(actor)
    found = WebhookEndpoint.objects.select_related("project__domain").filter(pk=webhook_id).first()
    if found is None:
        raise NotFound(f"no webhook {webhook_id}")
    try:
        authorize(actor, action, project=found.project)
    except NotFound:
        raise NotFound(f"no webhook {webhook_id}") from None
    return found


def deliveries_of(endpoint: WebhookEndpoint) -> QuerySet[WebhookDelivery]:
    """Return what was sent to a webhook that the actor may read, and what waits."""
    return WebhookDelivery.objects.filter(endpoint=endpoint)


def delivery_get(endpoint: WebhookEndpoint, number: int) -> WebhookDelivery:
    """Return one delivery of a webhook that the actor may read. Raises `NotFound`."""
    found = WebhookDelivery.objects.filter(endpoint=endpoint, pk=number).first()
    if found is None:
        raise NotFound(f"no delivery {number} of webhook {endpoint.pk}")
    return found
