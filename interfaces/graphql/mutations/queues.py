"""Mutations of queues."""

from interfaces.graphql.mutations.kinds import (
    ActOf,
    CreateOf,
    DeleteOf,
    ReplaceOf,
    UpdateOf,
)
from interfaces.graphql.queues import QUEUES
from interfaces.kinds.queues import QueueFields


class CreateQueue(CreateOf, of=QUEUES): ...


class ReplaceQueue(ReplaceOf, of=QUEUES, body=QueueFields): ...


class UpdateQueue(UpdateOf, of=QUEUES):
    """Change the given fields of a queue."""


class DeleteQueue(DeleteOf, of=QUEUES): ...


class CordonQueue(ActOf, of=QUEUES, act="cordon"):
    """Cordon a queue: it accepts sessions, but none of them is started."""


class UncordonQueue(ActOf, of=QUEUES, act="uncordon"):
    """Uncordon a queue. A queue that is not cordoned does not change."""


class QueueMutations:
    """The mutations of queues."""

    create_queue = CreateQueue.Field()
    replace_queue = ReplaceQueue.Field()
    update_queue = UpdateQueue.Field()
    delete_queue = DeleteQueue.Field()
    cordon_queue = CordonQueue.Field()
    uncordon_queue = UncordonQueue.Field()
