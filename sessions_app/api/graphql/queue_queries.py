"""The root fields `queue` and `queues`."""

from typing import Any

import graphene

from sessions_app.api.graphql.connections import Page, connection_to, one, page_of, pages
from sessions_app.api.graphql.context import actor_of
from sessions_app.api.graphql.errors import read_arguments
from sessions_app.api.graphql.nodes import found_by
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.queues import Queue, render_queues
from sessions_app.api.graphql.shapes import arguments_of
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.requests.filters import QueueFilter
from sessions_app.authorization import Action, Actor
from sessions_app.models import Queue as Row
from sessions_app.selectors.policies import queue_get, queues_visible
from sessions_app.selectors.sessions import project_get

QueueConnection = connection_to(Queue)


class QueueQueries:
    """The root fields of queues."""

    queue = one(
        Queue,
        "One queue.",
        project=graphene.String(required=True, description="`domain/name`."),
        name=graphene.String(required=True),
    )
    queues = pages(
        QueueConnection,
        "The queues of the projects that you may see, oldest first.",
        **arguments_of(QueueFilter),
    )

    @staticmethod
    def resolve_queue(_root: None, info: Any, project: str, name: str) -> Peer[Row]:
        return queue_found(actor_of(info), f"{project}/{name}")

    @staticmethod
    def resolve_queues(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(QueueFilter, asked).apply(actor, queues_visible(actor))
        return page_of(Queue, rows, RowCursor("id"), page, render_queues)


@found_by("Queue")
def queue_found(actor: Actor, key: str) -> Peer[Row]:
    """Return a queue by its address, `domain/project/name`."""
    domain, _, rest = key.partition("/")
    name, _, queue = rest.partition("/")
    project = project_get(actor, domain, name, Action.QUEUE_READ)
    return single_peer(Queue, queue_get(project, queue), render_queues)
