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
    """Submit a session; the same `creationId` with the same input finds it again."""

    session = graphene.Field(Session)
    created = graphene.Boolean(description="False: it was there, with the same `creationId`.")
    warnings = graphene.List(
        graphene.NonNull(graphene.String), description="What of the input has no effect."
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.create(context.actor, given)
        session = session_found(context.actor, str(made.session_id))
        return {"session": session, "created": made.created, "warnings": list(made.warnings)}


class CancelSession(Change):
    """Cancel the whole chain: the live attempt and a waiting retry. Repeating it is fine."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given["id"])
        operations.cancel(context.actor, session_id)
        return {"session": session_found(context.actor, str(session_id))}


class PreemptSession(Change, body=SessionPreempt):
    """Take a run off its executor, to be retried as its policies say. Repeating it is fine."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given.pop("id"))
        operations.preempt(context.actor, session_id, given)
        return {"session": session_found(context.actor, str(session_id))}


class RetrySession(Change, body=SessionRetry):
    """Retry by hand, at once, on nobody's budget.

    The new attempt gets the resources of the one before, with those that are given in their place.
    """

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
