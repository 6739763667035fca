"""The root fields `session` and `sessions`."""

from functools import partial
from typing import Any

import graphene

from interfaces.graphql.connections import Page, one, page_of, pages
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import (
    RetryCause,
    RetryStateName,
    SessionStatus,
    SessionType,
    enumeration,
)
from interfaces.graphql.errors import read_input
from interfaces.graphql.nodes import found_by, uuid_of, with_session_keys
from interfaces.graphql.peers import Peer, single_peer
from interfaces.graphql.sessions import Session, SessionConnection
from interfaces.graphql.shapes import filter_of
from interfaces.http.paging import SessionCursor
from interfaces.render.session_render import sessions_json
from interfaces.requests.queries import SessionConditions
from sessions_app.authorization import Actor
from sessions_app.models import Session as Row
from sessions_app.selectors.session_pages import sessions_page
from sessions_app.selectors.sessions import require_project, session_get

NEWEST = "created_at_desc"
_ORDERS = {NEWEST: "-created_at", "created_at_asc": "created_at"}
SessionOrder = enumeration("SessionOrder", _ORDERS, "The order of a list of sessions.")
_Filter: Any = filter_of(
    SessionConditions,
    kinds={
        "status": SessionStatus,
        "session_type": SessionType,
        "retry_cause": RetryCause,
        "retry_state": RetryStateName,
        "root": graphene.ID,
        "parent": graphene.ID,
    },
)


class SessionFilterInput(_Filter, graphene.InputObjectType):
    """Selects sessions. All given conditions must hold."""

    class Meta:
        name = "SessionFilter"


class SessionQueries:
    """The root fields of sessions."""

    session = one(
        Session,
        "One session. If it was archived, it is read from the event log.",
        id=graphene.ID(required=True, description="The global id or REST's id."),
    )
    sessions = pages(
        SessionConnection,
        "The sessions of the projects that you may see.",
        filter=SessionFilterInput(),
        order_by=SessionOrder(default_value=NEWEST),
    )

    @staticmethod
    def resolve_session(_root: None, info: Any, id: str) -> Peer[Row]:
        return session_found(actor_of(info), id)

    @staticmethod
    def resolve_sessions(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page = Page.of(asked)
        wanted, ordering = session_filter(asked), _ORDERS[asked["order_by"] or NEWEST]
        require_project(actor_of(info), wanted.project, field="filter.project")
        rows = partial(sessions_page, actor_of(info), wanted.wanted())
        return page_of(Session, rows, SessionCursor(ordering), page, sessions_json)


def session_filter(asked: dict[str, Any]) -> SessionConditions:
    """Return the argument `filter`. Raises `InvalidInput`."""
    given = with_session_keys(asked.get("filter") or {}, "root", "parent")
    return read_input(SessionConditions, given, "filter")


@found_by("Session")
def session_found(actor: Actor, key: str) -> Peer[Row]:
    """Return a session by its global id or its REST id."""
    return single_peer(Session, session_get(actor, uuid_of("Session", key)), sessions_json)
