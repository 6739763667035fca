"""Failures by their signatures in GraphQL."""

from typing import Any

import graphene

from interfaces.calls import failures as operations
from interfaces.graphql.connections import (
    Page,
    connection_source,
    connection_to,
    one,
    pages,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import RetryCause
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.nodes import RestObject
from interfaces.graphql.peers import Peer, Peers, one_by_one, single_peer
from interfaces.graphql.shapes import arguments_of, shape_of
from interfaces.http.paging import offset_of
from interfaces.render.failure_render import failure_json
from interfaces.requests.failures import FailureFilter, FailureQuery
from interfaces.shapes import failure_shapes as shapes
from sessions_app.locks import database_now
from sessions_app.selectors.failures import Failure as Row
from sessions_app.selectors.failures import failures_listed
from sessions_app.selectors.sessions import projects_visible

_Shape: Any = shape_of(shapes.Failure, kinds={"cause": RetryCause})


class Failure(_Shape, RestObject):
    """Failures of one kind in a project: their signature, and their figures of the asked time."""


FailureConnection = connection_to(Failure)
_render = one_by_one(failure_json)


class FailureQueries:
    """The root fields of failures."""

    failure = one(
        Failure,
        "One kind of failures of a project: the given project, the token's, or the default one.",
        key=graphene.String(required=True),
        **arguments_of(FailureQuery),
    )
    failures = pages(
        FailureConnection,
        "The kinds of failures of a time, each with its figures, most frequent first.",
        **arguments_of(FailureFilter, kinds={"cause": RetryCause}),
    )

    @staticmethod
    def resolve_failure(_root: None, info: Any, key: str, **asked: Any) -> Peer[Row]:
        """Return one failure."""
        wanted = read_arguments(FailureQuery, asked)
        return failure_peer(operations.found(actor_of(info), key, wanted))

    @staticmethod
    def resolve_failures(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        given = read_arguments(FailureFilter, asked)
        wanted, offset = given.wanted(database_now()), offset_of(page.after)
        projects = projects_visible(actor_of(info), given.project)
        rows = failures_listed(projects, wanted, offset=offset, limit=page.first + 1)
        cursors = [str(offset + at + 1) for at in range(len(rows))]
        found = slice_of(rows, page, cursors)
        return connection_source(found, page, Peers(Failure, found.rows, _render).each())


def failure_peer(found: Row) -> Peer[Row]:
    """Return a failure as the source of its object."""
    return single_peer(Failure, found, _render)
