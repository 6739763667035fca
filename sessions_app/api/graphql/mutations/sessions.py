"""Mutations of one session."""

from typing import Any

import graphene

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import ID_HELP, Change
from sessions_app.api.graphql.nodes import uuid_of
from sessions_app.api.graphql.session_queries import session_found
from sessions_app.api.graphql.sessions import Session
from sessions_app.api.operations import sessions as operations
from sessions_app.api.requests.bodies import SessionCreate, SessionPreempt, SessionRetry


class OfSession:
    """The input fields that name a session."""

    id = graphene.ID(required=True, description=ID_HELP)


class CreateSession(Change, body=SessionCreate):
    """Submit a session. If the `creationId` exists and the input is equal, return that session."""

    session = graphene.Field(Session)
    created = graphene.Boolean(description="False if a session with this `creationId` existed.")
    warnings = graphene.List(
        graphene.NonNull(graphene.String),
        description="Warnings about values of the input that have no effect.",
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.create(context.actor, given)
        session = session_found(context.actor, str(made.session_id))
        return {"session": session, "created": made.created, "warnings": list(made.warnings)}


class CancelSession(Change):
    """Cancel the whole chain: the live attempt and a waiting retry. The call can be repeated."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given["id"])
        operations.cancel(context.actor, session_id)
        return {"session": session_found(context.actor, str(session_id))}


class PreemptSession(Change, body=SessionPreempt):
    """Preempt a run: stop it, and retry it as its policies say. The call can be repeated."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given.pop("id"))
        operations.preempt(context.actor, session_id, given)
        return {"session": session_found(context.actor, str(session_id))}


class RetrySession(Change, body=SessionRetry):
    """Retry a session by hand, at once. No budget is charged. The new attempt gets the resources of
    the one before; given resources replace them."""

    Input = OfSession
    session = graphene.Field(Session, description="The new attempt.")

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given.pop("id"))
        child_id = operations.retry(context.actor, session_id, given)
        return {"session": session_found(context.actor, str(child_id))}


class SessionMutations:
    """The mutations of one session."""

    create_session = CreateSession.Field()
    cancel_session = CancelSession.Field()
    preempt_session = PreemptSession.Field()
    retry_session = RetrySession.Field()
