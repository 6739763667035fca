"""Queues in GraphQL."""

from typing import Any

import graphene

from sessions_app.api.graphql.nodes import RestNode
from sessions_app.api.graphql.peers import Peer, one_by_one
from sessions_app.api.graphql.shapes import shape_of
from sessions_app.api.graphql.tenants import Project, resolve_project
from sessions_app.api.render.policy_render import queue_json
from sessions_app.api.shapes import policy_shapes as shapes
from sessions_app.models import Queue as Row
from sessions_app.services.resources.queues import queue_version

_Shape: Any = shape_of(shapes.Queue, leave_out={"project"})


class Queue(_Shape, RestNode):
    """A queue of a project. A lower factor means a higher priority."""

    version = graphene.String(required=True, description="The version to send as `ifMatch`.")
    project = graphene.Field(Project, required=True)
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_id(source: Peer[Row], _info: Any) -> str:
        return str(source.row)

    @staticmethod
    def resolve_version(source: Peer[Row], _info: Any) -> str:
        """Return its version, which is REST's `ETag`."""
        return queue_version(source.row)


render_queues = one_by_one(queue_json)
"""Return queues in REST's form."""
