"""Sessions, their attempts and decisions, in GraphQL."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import graphene
from django.db.models import prefetch_related_objects

from interfaces.graphql.connections import (
    Page,
    Slice,
    connection_to,
    pages,
    pages_below,
    slice_of,
)
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import RetryCause, RetryStateName, SessionStatus, SessionType
from interfaces.graphql.events import EventConnection, event_peers, id_behind
from interfaces.graphql.inline_policy import InlinePolicy
from interfaces.graphql.nodes import Node, RestObject
from interfaces.graphql.peers import Peer, Peers, belonging, one_by_one
from interfaces.graphql.queues import Queue
from interfaces.graphql.scalars import UUID
from interfaces.graphql.shapes import shape_of, type_of
from interfaces.graphql.tenants import Project, resolve_project
from interfaces.http.paging import RowCursor
from interfaces.kinds.queues import QUEUE
from interfaces.render.session_render import (
    attempt_json,
    decisions_json,
    graph_json,
    pending_json,
    sessions_json,
    spec_json,
)
from interfaces.shapes import session_shapes as shapes
from sessions_app.authorization import Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.models import Session as Row
from sessions_app.selectors.peers import (
    chains_attempts,
    decisions_found,
    sessions_events,
    sessions_found,
)
from sessions_app.selectors.policies import queues_visible
from sessions_app.selectors.sessions import chains_of, made_room_for

_PENDING = {"pending_reason", "why_pending"}
_PENDING_HELP = "Only for a query of one session, because it looks at every executor."
type_of(shapes.SessionRetryState, kinds={"state": RetryStateName})
_SessionShape: Any = shape_of(
    shapes.Session,
    leave_out={"id", "project", "queue", "chain_url", *_PENDING},
    kinds={
        "status": SessionStatus,
        "session_type": SessionType,
        "retry_cause": RetryCause,
        "retry_policy": InlinePolicy,
    },
)
_AttemptShape: Any = shape_of(
    shapes.Attempt,
    leave_out={"id"},
    kinds={"status": SessionStatus, "cause": RetryCause, "retry_state": RetryStateName},
)
type_of(
    shapes.DependencyNode,
    kinds={"status": SessionStatus, "retry_state": RetryStateName, "retry_cause": RetryCause},
)
_DecisionShape: Any = shape_of(shapes.Decision, kinds={"cause": RetryCause})


class RetryDecision(_DecisionShape, RestObject):
    """The decision after a failure, and its reasons. `delay` is in seconds."""


class Attempt(_AttemptShape, RestObject):
    """A short form of one attempt of a chain. `attempt` counts from 0."""

    session_id = graphene.Field(UUID, required=True)
    session = graphene.Field(lambda: Session, required=True)

    @staticmethod
    def resolve_session_id(source: Peer[Row], _info: Any) -> Any:
        """Return REST's `id`; here `id` would be a global one."""
        return source.row.pk

    @staticmethod
    def resolve_session(source: Peer[Row], _info: Any) -> Peer[Row]:
        return source.ask("session", _as_sessions)


AttemptConnection = connection_to(Attempt)


class Session(_SessionShape, graphene.ObjectType):
    """One attempt of a submitted session. All attempts form its chain."""

    class Meta:
        interfaces = (Node,)

        @staticmethod
        def default_resolver(
            name: str, _default: Any, source: Peer[Row], info: Any, **_: Any
        ) -> Any:
            """Return a field.

            Fields of lists are read at once, the specification when first asked for.
            """
            summary = source.rest_fields()
            if name in summary:
                return summary[name]
            return source.ask("spec", partial(_specs, actor_of(info)))[name]

    session_id = graphene.Field(UUID, required=True, description="The id that REST uses.")
    project = graphene.Field(Project, required=True)
    queue_name = graphene.String(required=True)
    queue = graphene.Field(Queue, description="Null if the queue was deleted.")
    parent_session = graphene.Field(lambda: Session)
    root_session = graphene.Field(
        lambda: Session, description="Null if the root session was archived."
    )
    attempts = pages(AttemptConnection, "Its chain, oldest first.")
    retry_decision = graphene.Field(RetryDecision, description="Null if there is no decision.")
    events = pages(EventConnection, "Its events, in order.")
    pending_reason = graphene.String(description=_PENDING_HELP)
    why_pending = graphene.Field(type_of(shapes.WhyPending), description=_PENDING_HELP)
    dependency_graph = graphene.Field(
        type_of(shapes.DependencyGraph),
        description="Only for a query of one session: the chains that it waits for, and those that "
        "wait for it, also through others.",
    )

    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_session_id(source: Peer[Row], _info: Any) -> Any:
        return source.row.pk

    @staticmethod
    def resolve_queue_name(source: Peer[Row], _info: Any) -> Any:
        return source.rest_fields()["queue"]

    @staticmethod
    def resolve_queue(source: Peer[Row], info: Any) -> Any:
        return source.ask("queue", partial(_queues, actor_of(info)))

    @staticmethod
    def resolve_parent_session(source: Peer[Row], info: Any) -> Any:
        return source.ask("parent", partial(_linked, actor_of(info), "parent_id"))

    @staticmethod
    def resolve_root_session(source: Peer[Row], info: Any) -> Any:
        return source.ask("root", partial(_linked, actor_of(info), "root_id"))

    @staticmethod
    def resolve_retry_chain(source: Peer[Row], _info: Any) -> Any:
        return source.ask("chain", _chains)

    @staticmethod
    def resolve_made_room_for(source: Peer[Row], info: Any) -> Any:
        return source.ask("made_room_for", partial(made_room_for, actor_of(info)))

    @staticmethod
    def resolve_attempts(source: Peer[Row], info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        load = partial(_attempts, actor_of(info), page)
        return pages_below(source, "attempts", page, load, _attempt_peers)

    @staticmethod
    def resolve_retry_decision(source: Peer[Row], _info: Any) -> Any:
        return source.ask("decision", _decisions)

    @staticmethod
    def resolve_events(source: Peer[Row], _info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        return pages_below(source, "events", page, partial(_events, page), event_peers)

    @staticmethod
    def resolve_pending_reason(source: Peer[Row], _info: Any) -> Any:
        return source.ask("pending", _pending)["pending_reason"]

    @staticmethod
    def resolve_why_pending(source: Peer[Row], _info: Any) -> Any:
        return source.ask("pending", _pending)["why_pending"]

    @staticmethod
    def resolve_dependency_graph(source: Peer[Row], _info: Any) -> Any:
        return source.ask("graph", _graphs)


def session_peers(rows: Sequence[Row]) -> Peers[Row]:
    """Return peers of sessions that were read together."""
    return Peers(Session, rows, sessions_json)


def _as_sessions(rows: Sequence[Row]) -> list[Peer[Row]]:
    return session_peers(rows).each()


def _specs(actor: Actor, rows: Sequence[Row]) -> list[dict[str, Any]]:
    prefetch_related_objects(rows, "spec", "root")
    if waiting := [row for row in rows if row.spec.on_dependency_failure]:
        prefetch_related_objects(waiting, "root__dependencies")
    return [spec_json(row, actor) for row in rows]


def _pending(rows: Sequence[Row]) -> list[dict[str, Any]]:
    if len(rows) > 1:
        # This question looks at every executor.
        raise InvalidInput({"why_pending": ["is available for one session only: session(id)"]})
    prefetch_related_objects(rows, "spec")
    return [pending_json(row) for row in rows]


def _graphs(rows: Sequence[Row]) -> list[dict[str, Any]]:
    if len(rows) > 1:
        raise InvalidInput({"dependency_graph": ["is available for one session only: session(id)"]})
    return [graph_json(row) for row in rows]


def _queues(actor: Actor, rows: Sequence[Row]) -> list[Any]:
    keys = [row.queue_id for row in rows]
    found = queues_visible(actor).in_bulk(set(keys))
    return belonging(Queue, keys, found, partial(QUEUE.render, actor))


def _linked(actor: Actor, link: str, rows: Sequence[Row]) -> list[Peer[Row] | None]:
    return sessions_linked(actor, [getattr(row, link) for row in rows])


def sessions_linked(actor: Actor, keys: Sequence[Any]) -> list[Peer[Row] | None]:
    """Return the sessions with these ids, None for those that no longer exist."""
    return belonging(Session, keys, sessions_found(actor, keys), sessions_json)


def _chains(rows: Sequence[Row]) -> list[list[Any]]:
    chains = chains_of(rows)
    return [chains[row.root_id] for row in rows]


def _attempts(actor: Actor, page: Page, rows: Sequence[Row]) -> list[Slice[Row]]:
    order = RowCursor("retry_count")
    found = chains_attempts(actor, rows, order.number(page.after), page.first + 1)
    return [slice_of(each, page, order.cursors(each)) for each in found]


def _attempt_peers(rows: Sequence[Row]) -> Peers[Row]:
    return Peers(Attempt, rows, one_by_one(attempt_json))


def _events(page: Page, rows: Sequence[Row]) -> list[Slice[Any]]:
    found = sessions_events(rows, id_behind(page), page.first + 1)
    return [slice_of(each, page, [str(event.pk) for event in each]) for each in found]


def _decisions(rows: Sequence[Row]) -> list[dict[str, Any] | None]:
    found = list(zip(rows, decisions_found(rows), strict=True))
    shown = iter(decisions_json([(row, each) for row, each in found if each is not None]))
    return [None if each is None else next(shown) for _, each in found]


SessionConnection = connection_to(Session)
