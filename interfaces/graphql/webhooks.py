"""Webhooks and their deliveries in GraphQL, without secrets."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import graphene

from interfaces.graphql.connections import (
    Page,
    Slice,
    connection_to,
    pages,
    pages_below,
    slice_of,
)
from interfaces.graphql.enums import DeliveryState
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.kinds import Kind, KindNode, by_uuid, one_of, pages_of
from interfaces.graphql.nodes import RestObject, with_session_keys
from interfaces.graphql.peers import Peer, Peers, one_by_one
from interfaces.graphql.scalars import UUID, BigInt
from interfaces.graphql.shapes import arguments_of, shape_of
from interfaces.graphql.tenants import Project, resolve_project
from interfaces.http.paging import RowCursor
from interfaces.kinds.webhooks import WEBHOOK
from interfaces.render.webhook_render import delivery_json
from interfaces.requests.filters import DeliveryFilter
from interfaces.shapes import webhook_shapes as shapes
from sessions_app.models import WebhookDelivery as DeliveryRow
from sessions_app.models import WebhookEndpoint as Row
from sessions_app.selectors.peers import webhooks_deliveries

_WebhookShape: Any = shape_of(shapes.Webhook, leave_out={"id", "project"})
_DeliveryShape: Any = shape_of(
    shapes.WebhookDelivery,
    kinds={"id": BigInt, "event_id": BigInt, "state": DeliveryState},
)


class WebhookDelivery(_DeliveryShape, RestObject):
    """An event on its way to a webhook, or a ping."""


WebhookDeliveryConnection = connection_to(WebhookDelivery)


class Webhook(_WebhookShape, KindNode):
    """A webhook: a URL that receives a project's events."""

    of = WEBHOOK
    webhook_id = graphene.Field(UUID, required=True, description="The id that REST uses.")
    project = graphene.Field(Project, required=True)
    deliveries = pages(
        WebhookDeliveryConnection,
        "The deliveries, sent and waiting, newest first.",
        **arguments_of(DeliveryFilter, kinds={"state": DeliveryState, "session": graphene.ID}),
    )
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_webhook_id(source: Peer[Row], _info: Any) -> Any:
        return source.row.pk

    @staticmethod
    def resolve_deliveries(source: Peer[Row], _info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        wanted = read_arguments(DeliveryFilter, with_session_keys(asked, "session"))
        load = partial(_deliveries, page, wanted)
        return pages_below(source, ("deliveries", wanted), page, load, delivery_peers)


WebhookConnection = connection_to(Webhook)
WEBHOOKS = Kind(WEBHOOK, Webhook, by_uuid("Webhook"))


class WebhookQueries:
    """The root fields of webhooks."""

    webhook = one_of(WEBHOOKS, id=graphene.ID(required=True))
    webhooks = pages_of(WEBHOOKS, WebhookConnection)


def delivery_peers(rows: Sequence[DeliveryRow]) -> Peers[DeliveryRow]:
    """Return peers of deliveries that were read together."""
    return Peers(WebhookDelivery, rows, one_by_one(delivery_json))


def _deliveries(
    page: Page, wanted: DeliveryFilter, rows: Sequence[Row]
) -> list[Slice[DeliveryRow]]:
    order = RowCursor("-id")
    place = order.number(page.after)
    found = webhooks_deliveries(rows, place, page.first + 1, **wanted.conditions())
    return [slice_of(each, page, order.cursors(each)) for each in found]
