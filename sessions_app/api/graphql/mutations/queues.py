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
from sessions_app.api.graphql.peers import Peer, alone
from sessions_app.api.graphql.queues import Queue, queues_told
from sessions_app.api.graphql.tenants import split_address
from sessions_app.api.operations import queues as operations
from sessions_app.api.operations.queues import QueueCreate, QueueFields, QueueName
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


def _told(row: Row) -> Peer[Row]:
    return alone(Queue, row, queues_told)


class CreateQueue(Change, body=QueueCreate):
    """Make a queue."""

    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"queue": _told(operations.create(context.actor, given))}


class ReplaceQueue(Change, body=QueueFields):
    """Make a queue, or replace what can be changed of it; its cordon stays."""

    Input = OfQueueVersion
    queue = graphene.Field(Queue)
    created = graphene.Boolean()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), _name(given)
        row, created = operations.put(context.actor, name, given, expected)
        return {"queue": _told(row), "created": created}


class UpdateQueue(Change, body=QueueFields):
    """Change what is named of a queue."""

    Input = OfQueueVersion
    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), _name(given)
        return {"queue": _told(operations.change(context.actor, name, given, expected))}


class DeleteQueue(Deletion):
    """Delete a queue in which no session is recorded any more."""

    Input = OfQueueVersion

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        expected, name = expected_of(given), _name(given)
        operations.delete(context.actor, name, expected)
        return {"deleted_id": to_global_id("Queue", "/".join(name))}


class CordonQueue(Change, body=CordonBody):
    """Close a queue: it takes sessions, but none of them gets an executor."""

    Input = OfQueue
    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = _name(given)
        return {"queue": _told(operations.cordon(context.actor, name, given))}


class UncordonQueue(Change):
    """Open a queue again; on an open one it does nothing."""

    Input = OfQueue
    queue = graphene.Field(Queue)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"queue": _told(operations.uncordon(context.actor, _name(given)))}


class QueueMutations:
    """The mutations of queues."""

    create_queue = CreateQueue.Field()
    replace_queue = ReplaceQueue.Field()
    update_queue = UpdateQueue.Field()
    delete_queue = DeleteQueue.Field()
    cordon_queue = CordonQueue.Field()
    uncordon_queue = UncordonQueue.Field()
