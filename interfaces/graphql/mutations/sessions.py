"""Mutations of one session."""

from typing import Any

import graphene

from interfaces.calls import sessions as operations
from interfaces.graphql.context import Context
from interfaces.graphql.kinds import ID_HELP
from interfaces.graphql.mutations.base import Change
from interfaces.graphql.nodes import uuid_of
from interfaces.graphql.scalars import UUID
from interfaces.graphql.session_queries import session_found
from interfaces.graphql.sessions import Session
from interfaces.requests.bodies import (
    SessionCreate,
    SessionPreempt,
    SessionRetry,
    SessionUpdate,
)


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


class UpdateSession(Change, body=SessionUpdate):
    """Change the priority of a session that waits. The call can be repeated."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given.pop("id"))
        operations.update(context.actor, session_id, given)
        return {"session": session_found(context.actor, str(session_id))}


class CancelSession(Change):
    """Cancel the whole chain: the live attempt and a waiting retry. The call can be repeated."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given["id"])
        operations.cancel(context.actor, session_id)
        return {"session": session_found(context.actor, str(session_id))}


class GiveUpSession(Change):
    """End a parked chain as exhausted. The call can be repeated."""

    Input = OfSession
    session = graphene.Field(Session)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given["id"])
        operations.give_up(context.actor, session_id)
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
    session = graphene.Field(
        Session, description="The new attempt, or in a dry run the failed one."
    )
    downstream = graphene.List(
        graphene.NonNull(UUID),
        description="The new attempts of the sessions downstream, or in a dry run the failed ones.",
    )
    secrets_dropped = graphene.List(
        graphene.NonNull(graphene.String),
        description="The names of secrets that the new attempt does not get, because somebody else"
        " gave them and the call changes what runs.",
    )
    warnings = graphene.List(
        graphene.NonNull(graphene.String),
        description="That it fits on no executor with the changes.",
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        session_id = uuid_of("Session", given.pop("id"))
        made = operations.retry(context.actor, session_id, given)
        shown = session_found(context.actor, str(made.child_id or session_id))
        told = {"downstream": made.downstream, "secrets_dropped": list(made.secrets_dropped)}
        return {"session": shown, **told, "warnings": list(made.warnings)}


class SessionMutations:
    """The mutations of one session."""

    create_session = CreateSession.Field()
    update_session = UpdateSession.Field()
    cancel_session = CancelSession.Field()
    give_up_session = GiveUpSession.Field()
    preempt_session = PreemptSession.Field()
    retry_session = RetrySession.Field()
