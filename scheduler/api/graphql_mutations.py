"""GraphQL mutations of executors."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from scheduler.api import operations
from scheduler.api.graphql import Executor, executor_found
from scheduler.api.operations import DrainBody, ExecutorCreate, ExecutorFields
from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.requests.bodies import CordonBody

_TOKEN_HELP = "What its agent sends as the bearer; told this once."  # noqa: S105  # a description


class OfExecutor:
    """Input fields that name one executor."""

    name = graphene.String(required=True)


class CreateExecutor(Change, body=ExecutorCreate):
    """Make an executor."""

    executor = graphene.Field(Executor)
    token = graphene.String(description=_TOKEN_HELP)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name, token = operations.create(context.actor, given)
        return {"executor": executor_found(context.actor, name), "token": token}


class UpdateExecutor(Change, body=ExecutorFields):
    """Change what is named of an executor."""

    Input = OfExecutor
    executor = graphene.Field(Executor)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = given.pop("name")
        operations.change(context.actor, name, given)
        return {"executor": executor_found(context.actor, name)}


class DeleteExecutor(Deletion):
    """Delete an executor that holds no leases, and its tokens."""

    Input = OfExecutor

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.delete(context.actor, given["name"])
        return {"deleted_id": to_global_id("Executor", given["name"])}


class CordonExecutor(Change, body=CordonBody):
    """Close an executor: it gets no new leases, what runs goes on."""

    Input = OfExecutor
    executor = graphene.Field(Executor)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = given.pop("name")
        operations.cordon(context.actor, name, given)
        return {"executor": executor_found(context.actor, name)}


class UncordonExecutor(Change):
    """Open an executor again; on an open one it does nothing."""

    Input = OfExecutor
    executor = graphene.Field(Executor)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.uncordon(context.actor, given["name"])
        return {"executor": executor_found(context.actor, given["name"])}


class DrainExecutor(Change, body=DrainBody):
    """Close an executor and preempt what runs there, until it is uncordoned.

    The runs are being stopped when this answers; `leaseCount` of the executor tells when they have
    gone. Repeating it is fine.
    """

    Input = OfExecutor
    executor = graphene.Field(Executor)
    asked = graphene.Int(description="Runs that this call asked to stop.")
    returned = graphene.Int(
        description="Leases that it had not accepted: they went back to their queues, uncounted."
    )
    left = graphene.Int(description="Leases that it still has.")
    kept = graphene.Int(
        description="Of these, interactive and inference sessions, which run on to their own end."
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = given.pop("name")
        done = operations.drain(context.actor, name, given)
        return {"executor": executor_found(context.actor, name), **done._asdict()}


class RenewExecutorToken(Change):
    """Make a new token, and revoke all others of this executor.

    An agent that runs with an older one is refused from then on: give it the new one and start it
    again before its leases end.
    """

    Input = OfExecutor
    executor = graphene.Field(Executor)
    token = graphene.String(description=_TOKEN_HELP)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        token = operations.token_renew(context.actor, given["name"])
        return {"executor": executor_found(context.actor, given["name"]), "token": token}


class ExecutorMutations:
    """The root mutation fields for executors."""

    create_executor = CreateExecutor.Field()
    update_executor = UpdateExecutor.Field()
    delete_executor = DeleteExecutor.Field()
    cordon_executor = CordonExecutor.Field()
    uncordon_executor = UncordonExecutor.Field()
    drain_executor = DrainExecutor.Field()
    renew_executor_token = RenewExecutorToken.Field()
