"""Queues in GraphQL."""

from typing import Any

import graphene

from interfaces.graphql.connections import connection_to
from interfaces.graphql.kinds import Kind, KindNode, Names, Naming, one_of, pages_of
from interfaces.graphql.shapes import shape_of
from interfaces.graphql.tenants import Project, resolve_project, split_address
from interfaces.kinds.queues import QUEUE

_Shape: Any = shape_of(QUEUE.shape, leave_out={"project"})


class Queue(_Shape, KindNode):
    """A queue of a project. A lower factor means a higher priority."""

    of = QUEUE
    version = graphene.String(required=True, description="The version to send as `ifMatch`.")
    project = graphene.Field(Project, required=True)
    resolve_project = staticmethod(resolve_project)


def _names(key: str) -> Names:
    domain, _, rest = key.partition("/")
    project, _, queue = rest.partition("/")
    return {"domain": domain, "project": project, "queue": queue}


def _taken(given: dict[str, Any]) -> Names:
    domain, project = split_address(given.pop("project"))
    return {"domain": domain, "project": project, "queue": given.pop("name")}


BY_PROJECT = {
    "project": graphene.String(required=True, description="`domain/name`."),
    "name": graphene.String(required=True),
}
QUEUES = Kind(QUEUE, Queue, Naming(BY_PROJECT, _taken, _names))
QueueConnection = connection_to(Queue)


class QueueQueries:
    """The root fields of queues."""

    queue = one_of(QUEUES, **BY_PROJECT)
    queues = pages_of(QUEUES, QueueConnection)
