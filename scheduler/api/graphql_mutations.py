"""GraphQL mutations of executors."""

from typing import Any

import graphene
from graphql_relay import to_global_id

from scheduler.api import kinds as operations
from scheduler.api.graphql import ClusterNode, Executor, executor_found, node_found
from scheduler.api.kinds import DrainBody, ExecutorCreate, ExecutorFields, QuarantineBody
from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.requests.bodies import CordonBody

_TOKEN_HELP = "The secret that the agent sends as the bearer token. It is shown only once."  # noqa: S105  # a description


class OfExecutor:
    """Input fields that name one executor."""

    name = graphene.String(required=True)


class CreateExecutor(Change, body=ExecutorCreate):
    """Create an executor."""

    executor = graphene.Field(Executor)
    token = graphene.String(description=_TOKEN_HELP)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.create(context.actor, given)
        return {"executor": executor_found(context.actor, made.executor.name), "token": made.token}


class UpdateExecutor(Change, body=ExecutorFields):
    """Change the given fields of an executor."""

    Input = OfExecutor
    executor = graphene.Field(Executor)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = given.pop("name")
        operations.change(context.actor, name, given)
        return {"executor": executor_found(context.actor, name)}


class DeleteExecutor(Deletion):
    """Delete an executor without leases, and its tokens."""

    Input = OfExecutor

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.delete(context.actor, given["name"])
        return {"deleted_id": to_global_id("Executor", given["name"])}


class CordonExecutor(Change, body=CordonBody):
    """Cordon an executor: it gets no new leases. Its running sessions continue."""

    Input = OfExecutor
    executor = graphene.Field(Executor)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = given.pop("name")
        operations.cordon(context.actor, name, given)
        return {"executor": executor_found(context.actor, name)}


class UncordonExecutor(Change):
    """Uncordon an executor. An executor that is not cordoned does not change."""

    Input = OfExecutor
    executor = graphene.Field(Executor)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        operations.uncordon(context.actor, given["name"])
        return {"executor": executor_found(context.actor, given["name"])}


class DrainExecutor(Change, body=DrainBody):
    """Drain an executor: cordon it and preempt its sessions. When the call returns, the runs are
    being stopped. `leaseCount` of the executor shows how many are left. The call can be
    repeated."""

    Input = OfExecutor
    executor = graphene.Field(Executor)
    asked = graphene.Int(description="The number of runs that this call asked to stop.")
    returned = graphene.Int(
        description="The number of leases that the executor had not accepted. They went back to "
        "their queues and were not counted."
    )
    left = graphene.Int(description="The number of leases that the executor still has.")
    kept = graphene.Int(
        description="Of these, the interactive and inference sessions, which run to their own end."
    )

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        name = given.pop("name")
        done = operations.drain(context.actor, name, given)
        return {"executor": executor_found(context.actor, name), **done.counts._asdict()}


class RenewExecutorToken(Change):
    """Create a new token, and revoke all others of this executor. An agent with an older token is
    refused from then on. Give it the new token and restart it before its leases expire."""

    Input = OfExecutor
    executor = graphene.Field(Executor)
    token = graphene.String(description=_TOKEN_HELP)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.token_renew(context.actor, given["name"])
        return {"executor": executor_found(context.actor, given["name"]), "token": made.token}


class OfNode:
    """Input fields that name one node."""

    executor = graphene.String(required=True)
    name = graphene.String(required=True)


class QuarantineNode(Change, body=QuarantineBody):
    """Put a node into quarantine: it gets no leases until it is released. What runs there goes
    on."""

    Input = OfNode
    node = graphene.Field(ClusterNode)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        at = given.pop("executor"), given.pop("name")
        operations.quarantine(context.actor, *at, given)
        return {"node": node_found(context.actor, *at)}


class ReleaseNode(Change):
    """End the quarantine and the suspicion of a node. What it did before counts no longer."""

    Input = OfNode
    node = graphene.Field(ClusterNode)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        at = given["executor"], given["name"]
        operations.release(context.actor, *at)
        return {"node": node_found(context.actor, *at)}


class ExecutorMutations:
    """The root mutation fields for executors."""

    create_executor = CreateExecutor.Field()
    update_executor = UpdateExecutor.Field()
    delete_executor = DeleteExecutor.Field()
    cordon_executor = CordonExecutor.Field()
    uncordon_executor = UncordonExecutor.Field()
    drain_executor = DrainExecutor.Field()
    renew_executor_token = RenewExecutorToken.Field()
    quarantine_node = QuarantineNode.Field()
    release_node = ReleaseNode.Field()
