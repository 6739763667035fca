"""GraphQL mutations of executors and nodes."""

from typing import Any

import graphene

from interfaces.graphql.context import Context
from interfaces.graphql.executors import EXECUTORS, NODES
from interfaces.graphql.mutations.kinds import ActOf, CreateOf, DeleteOf, UpdateOf

_TOKEN_HELP = "The secret that the agent sends as the bearer token. It is shown only once."  # noqa: S105  # a description


class CreateExecutor(CreateOf, of=EXECUTORS):
    """Create an executor."""

    token = graphene.String(description=_TOKEN_HELP)

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"token": result.token}


class UpdateExecutor(UpdateOf, of=EXECUTORS):
    """Change the given fields of an executor."""


class DeleteExecutor(DeleteOf, of=EXECUTORS): ...


class CordonExecutor(ActOf, of=EXECUTORS, act="cordon"):
    """Cordon an executor: it gets no new leases. Its running sessions continue."""


class UncordonExecutor(ActOf, of=EXECUTORS, act="uncordon"):
    """Uncordon an executor. An executor that is not cordoned does not change."""


class DrainExecutor(ActOf, of=EXECUTORS, act="drain"):
    """Drain an executor: cordon it and preempt its sessions. When the call returns, the runs are
    being stopped. `leaseCount` of the executor shows how many are left. The call can be
    repeated."""

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
    def payload(cls, context: Context, result: Any) -> dict[str, Any]:
        executor = cls.kind.found(context.actor, result.name)
        return {"executor": executor, **result.counts._asdict()}


class RenewExecutorToken(ActOf, of=EXECUTORS, act="token"):
    """Create a new token, and revoke all others of this executor. An agent with an older token is
    refused from then on. Give it the new token and restart it before its leases expire."""

    token = graphene.String(description=_TOKEN_HELP)

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"token": result.token}


class QuarantineNode(ActOf, of=NODES, act="quarantine"): ...


class ReleaseNode(ActOf, of=NODES, act="release"): ...


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
