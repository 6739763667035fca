"""Mutations of queues."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import (
    Change,
    Deletion,
    IfMatch,
    expected_of,
)
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.queues import Queue, render_queues
from sessions_app.api.graphql.tenants import split_address
from sessions_app.api.kinds import queues as operations
from sessions_app.api.kinds.queues import QueueCreate, QueueFields, QueueName
from sessions_app.api.requests.bodies import CordonBody
from sessions_app.models import Queue as Row


class OfQueue:
    """The input fields that name a queue."""

    project = graphene.String(required=True, description="`domain/name`.")
    name = graphene.String(required=True)


class OfQueueVersion(OfQueue, IfMatch):
    """The same, with `ifMatch`."""


def _name(given: dict[str, Any]) -> QueueName:
    return QueueName(*split_address(given.pop("project")), given.pop("name"))


def _peer(row: Row) -> Peer[Row]:
    return single_peer(Queue, row, render_queues)


class CreateQueue(Change, body=QueueCreate):
    """Create a queue."""

    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"queue": _peer(operations.create(context.actor, given))}


class ReplaceQueue(Change, body=QueueFields):
    """Create a queue, or replace its changeable fields. Its cordon stays."""

    Input = OfQueueVersion
    queue = graphene.Field(Queue)
    created = graphene.Boolean()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), _name(given)
        row, created = operations.put(context.actor, name, given, expected)
        return {"queue": _peer(row), "created": created}


class UpdateQueue(Change, body=QueueFields):
    """Change the given fields of a queue."""

    Input = OfQueueVersion
    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), _name(given)
        return {"queue": _peer(operations.change(context.actor, name, given, expected))}


class DeleteQueue(Deletion):
    """Delete a queue that has no recorded sessions."""

    Input = OfQueueVersion

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), _name(given)
        operations.delete(context.actor, name, expected)
        return {"deleted_id": to_global_id("Queue", "/".join(name))}


class CordonQueue(Change, body=CordonBody):
    """Cordon a queue: it accepts sessions, but none of them is started."""

    Input = OfQueue
    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = _name(given)
        return {"queue": _peer(operations.cordon(context.actor, name, given))}


class UncordonQueue(Change):
    """Uncordon a queue. A queue that is not cordoned does not change."""

    Input = OfQueue
    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"queue": _peer(operations.uncordon(context.actor, _name(given)))}


class QueueMutations:
    """The mutations of queues."""

    create_queue = CreateQueue.Field()
    replace_queue = ReplaceQueue.Field()
    update_queue = UpdateQueue.Field()
    delete_queue = DeleteQueue.Field()
    cordon_queue = CordonQueue.Field()
    uncordon_queue = UncordonQueue.Field()
