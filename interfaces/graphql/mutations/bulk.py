"""Mutations of many sessions, with an outcome for each.

A refused session does not stop the others.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import graphene

from interfaces.calls import bulk as calls
from interfaces.graphql import scalars
from interfaces.graphql.context import Context, actor_of
from interfaces.graphql.enums import enumeration
from interfaces.graphql.inputs import input_of
from interfaces.graphql.mutations.base import Change, MutationError, errors_of
from interfaces.graphql.nodes import RestObject, with_session_keys
from interfaces.graphql.peers import Peer, Peers, belonging
from interfaces.graphql.session_queries import SessionFilterInput
from interfaces.graphql.sessions import Session
from interfaces.render.session_render import sessions_json
from interfaces.requests.bodies import RetryChanges, SessionCreate
from sessions_app.authorization import Actor
from sessions_app.core.errors import DomainError
from sessions_app.selectors.peers import sessions_found
from sessions_app.services.chains.manual_retry import Granted
from sessions_app.services.sessions.submit import Submitted

Fields = dict[str, Any]
"""The outcome of one session, by the names of its fields."""
_MEANINGS = {
    "created": "a new session",
    "exists": "its `creationId` was known",
    "cancelled": "the chain was cancelled",
    "given_up": "the parked chain ended, and is exhausted",
    "preempted": "its executor stops it, or it is back in its queue if none had accepted it",
    "retried": "the new attempt exists",
    "scheduled": "its slot is at `dueAt`",
    "updated": "it has the new priority",
    "refused": "nothing was changed; `errors` say why",
}


SessionInput = input_of(
    SessionCreate, name="SessionInput", description="A session to submit, as in `createSession`."
)


def _outcomes(name: str, *values: str) -> Any:
    meanings = "; ".join(f"`{value}`: {_MEANINGS[value]}" for value in values)
    return enumeration(name, values, f"The outcome for one session. {meanings}.")


class _Outcome:
    """The fields that all outcomes have."""

    errors = graphene.List(graphene.NonNull(MutationError), required=True)
    session = graphene.Field(Session, description="The session, if there is one.")

    @staticmethod
    def resolve_session(source: Peer[Fields], info: Any) -> Any:
        """Return the session; those of all outcomes are read at once."""
        return source.ask("session", partial(_sessions, actor_of(info), "session_id"))


def _sessions(actor: Actor, name: str, rows: Sequence[Fields]) -> list[Any]:
    keys = [row[name] for row in rows]
    return belonging(Session, keys, sessions_found(actor, keys), sessions_json)


class CreateOutcome(_Outcome, RestObject):
    """The outcome of one item."""

    outcome = graphene.Field(_outcomes("Created", "created", "exists", "refused"), required=True)
    session_id = graphene.Field(scalars.UUID)
    warnings = graphene.List(
        graphene.NonNull(graphene.String),
        required=True,
        description="Warnings about values of the item that have no effect.",
    )


class CancelOutcome(_Outcome, RestObject):
    """What became of one session."""

    outcome = graphene.Field(_outcomes("Cancelled", "cancelled", "refused"), required=True)
    session_id = graphene.Field(scalars.UUID, required=True)


class GiveUpOutcome(_Outcome, RestObject):
    """The outcome for one session."""

    outcome = graphene.Field(_outcomes("GivenUp", "given_up", "refused"), required=True)
    session_id = graphene.Field(scalars.UUID, required=True)


class PreemptOutcome(_Outcome, RestObject):
    """The outcome for one session."""

    outcome = graphene.Field(_outcomes("Preempted", "preempted", "refused"), required=True)
    session_id = graphene.Field(scalars.UUID, required=True)


class UpdateOutcome(_Outcome, RestObject):
    """The outcome for one session."""

    outcome = graphene.Field(_outcomes("Updated", "updated", "refused"), required=True)
    session_id = graphene.Field(scalars.UUID, required=True)


class RetryOutcome(_Outcome, RestObject):
    """The outcome for one session. A dry run makes no new attempt."""

    outcome = graphene.Field(_outcomes("Retried", "retried", "scheduled", "refused"), required=True)
    session_id = graphene.Field(scalars.UUID, required=True)
    next_session_id = graphene.Field(scalars.UUID)
    next_session = graphene.Field(Session, description="The new attempt.")
    due_at = graphene.Field(scalars.DateTime)
    secrets_dropped = graphene.List(
        graphene.NonNull(graphene.String),
        required=True,
        description="The names of secrets that the new attempt does not get, because somebody else"
        " gave them and the call changes what runs.",
    )
    warnings = graphene.List(
        graphene.NonNull(graphene.String),
        required=True,
        description="That it fits on no executor with the changes.",
    )

    @staticmethod
    def resolve_next_session(source: Peer[Fields], info: Any) -> Any:
        """Return the new attempt; those of all outcomes are read at once."""
        return source.ask("next", partial(_sessions, actor_of(info), "next_session_id"))


def _results(kind: Any) -> graphene.List:
    return graphene.List(
        graphene.NonNull(kind), description="One outcome for each session, in order."
    )


def _peers(kind: Any, rows: Sequence[Fields]) -> list[Peer[Fields]]:
    return Peers(kind, rows, list).each()


class CreateSessions(Change, checked_by=calls.SessionsBulkCreate):
    """Submit up to 1,000 sessions. A refused session does not stop the others."""

    class Input:
        sessions = graphene.List(graphene.NonNull(SessionInput), required=True)

    results = _results(CreateOutcome)

    @classmethod
    def perform(cls, context: Context, given: Fields) -> Fields:
        outcomes = calls.sessions_create(context.actor, given)
        results = [_created(place, outcome) for place, outcome in enumerate(outcomes)]
        return {"results": _peers(CreateOutcome, results)}


def _created(place: int, outcome: Submitted | calls.Refusal) -> Fields:
    if isinstance(outcome, Submitted):
        outcome_name = "created" if outcome.created else "exists"
        result = {"outcome": outcome_name, "session_id": outcome.session_id, "errors": []}
        return {**result, "warnings": list(outcome.warnings)}
    errors = [
        {**error, "field": ".".join([f"sessions[{place}]", *filter(None, [error["field"]])])}
        for error in errors_of(outcome, SessionCreate)
    ]
    return {"outcome": "refused", "session_id": None, "errors": errors, "warnings": []}


class ByFilter:
    """The input of mutations on the newest attempts that match a filter."""

    filter = SessionFilterInput(required=True)
    dry_run = graphene.Boolean(description="Return what would happen, and change nothing.")
    limit = graphene.Int(
        description=f"The maximum number of sessions in this call, up to {calls.MAX_SESSIONS}."
    )
    after = graphene.ID(description="The `next` of the call before.")


class _Some(Change, abstract=True):
    """The base of mutations on sessions that match a filter."""

    dry_run = graphene.Boolean()
    next = graphene.Field(
        scalars.UUID, description="The value to send as `after` in the next call."
    )
    remaining = graphene.Int(description="The number of sessions left, counted up to 10,000.")


class CancelSessions(_Some, checked_by=calls.BulkCancel):
    """Cancel the chains whose newest attempts match a filter."""

    Input = ByFilter
    results = _results(CancelOutcome)

    @classmethod
    def perform(cls, context: Context, given: Fields) -> Fields:
        done = calls.sessions_cancel(context.actor, _asked(given))
        return _outcomes_payload(CancelOutcome, done, lambda _: {"outcome": "cancelled"})


class GiveUpSessions(_Some, checked_by=calls.BulkGiveUp):
    """End the parked chains whose newest attempts match a filter; they are exhausted then."""

    Input = ByFilter
    results = _results(GiveUpOutcome)

    @classmethod
    def perform(cls, context: Context, given: Fields) -> Fields:
        done = calls.sessions_give_up(context.actor, _asked(given))
        return _outcomes_payload(GiveUpOutcome, done, lambda _: {"outcome": "given_up"})


class PreemptSessions(_Some, checked_by=calls.BulkPreempt):
    """Preempt the newest attempts that match a filter and run."""

    class Input(ByFilter):
        reason = graphene.String(description="Why, for everybody who looks at the sessions.")

    results = _results(PreemptOutcome)

    @classmethod
    def perform(cls, context: Context, given: Fields) -> Fields:
        done = calls.sessions_preempt_matching(context.actor, _asked(given))
        return _outcomes_payload(PreemptOutcome, done, lambda _: {"outcome": "preempted"})


class UpdateSessions(_Some, checked_by=calls.BulkUpdate):
    """Change the priority of the newest attempts that match a filter and wait."""

    class Input(ByFilter):
        priority = graphene.Int(required=True)

    results = _results(UpdateOutcome)

    @classmethod
    def perform(cls, context: Context, given: Fields) -> Fields:
        done = calls.sessions_update(context.actor, _asked(given))
        return _outcomes_payload(UpdateOutcome, done, lambda _: {"outcome": "updated"})


class RetrySessions(_Some, checked_by=calls.BulkRetry):
    """Retry by hand the newest attempts that match a filter, within the storm limits."""

    class Input(ByFilter):
        resources = scalars.JSON(description="Resources that replace those of the attempts before.")
        changes = graphene.InputField(input_of(RetryChanges))
        reason = graphene.String(description="Why, for everybody who looks at the attempts.")
        downstream = graphene.Boolean(
            description="Also retry the sessions that ended as `dependency_failed` because of"
            " these, at most 1,000. They wait for their dependencies again."
        )

    results = _results(RetryOutcome)
    downstream = graphene.List(
        graphene.NonNull(scalars.UUID),
        description="The new attempts of the sessions downstream that do not match themselves, or"
        " in a dry run the failed ones.",
    )

    @classmethod
    def perform(cls, context: Context, given: Fields) -> Fields:
        done = calls.sessions_retry(context.actor, _asked(given))
        payload = _outcomes_payload(RetryOutcome, done, _retried)
        return {**payload, "downstream": list(done.downstream)}


def _asked(given: Fields) -> Fields:
    """Return the body, with keys in place of global ids."""
    wanted = with_session_keys(given["filter"], "root", "parent")
    return {**with_session_keys(given, "after"), "filter": wanted}


def _retried(granted: Granted) -> Fields:
    return {
        "outcome": "scheduled" if granted.due_at else "retried",
        "next_session_id": granted.child_id,
        "due_at": granted.due_at,
        "secrets_dropped": list(granted.secrets_dropped),
        "warnings": list(granted.warnings),
    }


def _outcomes_payload(
    kind: Any, done: calls.Outcomes[Any], render: Callable[[Any], Fields]
) -> Fields:
    def result(session_id: UUID) -> Fields:
        outcome, usual = done.each[session_id], {"session_id": session_id, "errors": []}
        if isinstance(outcome, DomainError):
            return {**usual, **_NO_CHILD, "outcome": "refused", "errors": errors_of(outcome)}
        return {**usual, **render(outcome)}

    return {
        "results": _peers(kind, [result(each) for each in done.page.order]),
        "dry_run": done.dry_run,
        "next": done.page.next,
        "remaining": done.page.remaining,
    }


_NO_CHILD: Fields = {"next_session_id": None, "due_at": None, "secrets_dropped": [], "warnings": []}


class BulkMutations:
    """The mutations of many sessions."""

    create_sessions = CreateSessions.Field()
    cancel_sessions = CancelSessions.Field()
    give_up_sessions = GiveUpSessions.Field()
    preempt_sessions = PreemptSessions.Field()
    retry_sessions = RetrySessions.Field()
    update_sessions = UpdateSessions.Field()
