"""The deliveries of webhooks over REST."""

from typing import ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.http.paging import RowCursor
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.render.webhook_render import delivery_json
from interfaces.requests.filters import DeliveryFilter
from interfaces.requests.queries import query_of
from interfaces.shapes import webhook_shapes as shapes
from sessions_app.authorization import Action
from sessions_app.core.errors import NotFound
from sessions_app.models import WebhookEndpoint
from sessions_app.selectors.webhooks import (
    deliveries_of,
    delivery_get,
    webhook_get,
)


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
