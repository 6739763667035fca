"""Webhooks over REST."""

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.http.paging import RowCursor
from sessions_app.api.http.views import UNKEPT, RestView, body_of, require_no_body
from sessions_app.api.kinds import webhooks as operations
from sessions_app.api.kinds.webhooks import NewSecret, Redeliver, WebhookChanges, WebhookCreate
from sessions_app.api.openapi.generator import query_parameters
from sessions_app.api.render.webhook_render import delivery_json, webhook_json
from sessions_app.api.requests.bodies import CordonBody
from sessions_app.api.requests.filters import DeliveryFilter, WebhookFilter
from sessions_app.api.requests.queries import query_of
from sessions_app.api.shapes import webhook_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.core.errors import NotFound
from sessions_app.models import WebhookEndpoint
from sessions_app.selectors.webhooks import (
    deliveries_of,
    delivery_get,
    webhook_get,
    webhooks_visible,
)


class WebhooksView(RestView):
    """`/webhooks/`."""

    actions: ClassVar = {"GET": Action.WEBHOOK_LIST, "POST": Action.WEBHOOK_WRITE}

    @extend_schema(
        operation_id="webhooks_list",
        parameters=query_parameters(WebhookFilter),
        responses=shapes.WebhookPage,
    )
    def get(self, request: Request) -> Response:
        """List the webhooks of the projects that you maintain, oldest first."""
        wanted = query_of(WebhookFilter, request.query_params)
        rows = wanted.apply(self.actor, webhooks_visible(self.actor))
        return RowCursor("id").answer(rows, request, webhook_json)

    @extend_schema(
        operation_id="webhooks_create",
        request=WebhookCreate,
        responses={201: shapes.WebhookWithSecret},
    )
    def post(self, request: Request) -> Response:
        """Create a webhook. The answer shows its secret, only once."""
        made = operations.create(self.actor, body_of(request))
        return self.created(_with_secret(made), f"{made.pk}/")


class WebhookView(RestView):
    """`/webhooks/{id}/`."""

    actions: ClassVar = {
        "GET": Action.WEBHOOK_READ,
        "PATCH": Action.WEBHOOK_WRITE,
        "DELETE": Action.WEBHOOK_WRITE,
    }

    @extend_schema(operation_id="webhook_read", responses=shapes.Webhook)
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """One webhook."""
        return Response(webhook_json(_webhook(self, webhook_id)))

    @extend_schema(operation_id="webhook_change", request=WebhookChanges, responses=shapes.Webhook)
    def patch(self, request: Request, webhook_id: UUID) -> Response:
        """Change the given fields."""
        endpoint = operations.change(self.actor, webhook_id, body_of(request))
        return Response(webhook_json(endpoint))

    @extend_schema(operation_id="webhook_delete", responses={204: None})
    def delete(self, request: Request, webhook_id: UUID) -> Response:
        """Delete a webhook and its deliveries."""
        operations.delete(self.actor, webhook_id)
        return Response(status=204)


class SecretView(RestView):
    """`/webhooks/{id}/secret/`."""

    actions: ClassVar = {"POST": Action.WEBHOOK_WRITE}

    @extend_schema(
        operation_id="webhook_new_secret",
        request=NewSecret,
        responses={201: shapes.WebhookWithSecret},
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Create a new secret, which is shown only once. During the overlap, the old secret signs
        too."""
        endpoint = operations.new_secret(self.actor, webhook_id, body_of(request))
        return Response(_with_secret(endpoint), status=201, headers=UNKEPT)


class PauseView(RestView):
    """`/webhooks/{id}/pause/`."""

    actions: ClassVar = {"POST": Action.WEBHOOK_WRITE}

    @extend_schema(
        operation_id="webhook_pause", request=CordonBody, responses={200: shapes.Webhook}
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Pause the webhook. Events of the pause are sent after it is resumed."""
        endpoint = operations.pause(self.actor, webhook_id, body_of(request))
        return Response(webhook_json(endpoint))


class ResumeView(RestView):
    """`/webhooks/{id}/resume/`."""

    actions: ClassVar = {"POST": Action.WEBHOOK_WRITE}

    @extend_schema(operation_id="webhook_resume", request=None, responses={200: shapes.Webhook})
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Resume a paused webhook from where it stopped. An active webhook does not change."""
        require_no_body(request)
        endpoint = operations.resume(self.actor, webhook_id)
        return Response(webhook_json(endpoint))


class PingView(RestView):
    """`/webhooks/{id}/ping/`."""

    actions: ClassVar = {"POST": Action.WEBHOOK_WRITE}

    @extend_schema(
        operation_id="webhook_ping", request=None, responses={202: shapes.WebhookDelivery}
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Send a test message, even if the webhook is paused. Its delivery shows the result."""
        require_no_body(request)
        made = operations.ping(self.actor, webhook_id)
        headers = {"Location": request.build_absolute_uri(f"../deliveries/{made.pk}/")}
        return Response(delivery_json(made), status=202, headers=headers)


class RedeliverView(RestView):
    """`/webhooks/{id}/redeliver/`."""

    actions: ClassVar = {"POST": Action.WEBHOOK_WRITE}

    @extend_schema(
        operation_id="webhook_redeliver", request=Redeliver, responses={202: shapes.Redelivered}
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Send one delivery again, or all since a time, with their original ids."""
        count = operations.redeliver(self.actor, webhook_id, body_of(request))
        return Response({"redelivered": count}, status=202)


class DeliveriesView(RestView):
    """`/webhooks/{id}/deliveries/`."""

    actions: ClassVar = {"GET": Action.WEBHOOK_READ}

    @extend_schema(
        operation_id="webhook_deliveries",
        parameters=query_parameters(DeliveryFilter),
        responses=shapes.WebhookDeliveryPage,
    )
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """List the deliveries of a webhook, sent and waiting, newest first."""
        endpoint = _webhook(self, webhook_id)
        wanted = query_of(DeliveryFilter, request.query_params)
        rows = deliveries_of(endpoint).filter(**wanted.conditions())
        return RowCursor("-id").answer(rows, request, delivery_json)


class DeliveryView(RestView):
    """`/webhooks/{id}/deliveries/{number}/`."""

    actions: ClassVar = {"GET": Action.WEBHOOK_READ}

    @extend_schema(operation_id="webhook_delivery", responses=shapes.WebhookDelivery)
    def get(self, request: Request, webhook_id: UUID, number: int) -> Response:
        """One delivery."""
        endpoint = _webhook(self, webhook_id)
        if number >= 2**63:
            raise NotFound(f"no delivery {number} of webhook {webhook_id}")
        return Response(delivery_json(delivery_get(endpoint, number)))


def _webhook(view: RestView, webhook_id: UUID) -> WebhookEndpoint:
    return webhook_get(view.actor, webhook_id, view.required_action)


def _with_secret(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {**webhook_json(endpoint), "secret": endpoint.new_secret}
