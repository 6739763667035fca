"""References to policies: what a queue, the cluster or a session may name, and what a chain gets.

Everything here runs in the transaction that stores the names, so that no policy is deleted in
between.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from retry.policies.documents import MAX_POLICIES
from sessions_app.core.errors import InvalidInput
from sessions_app.locks import QueueNames, policies_named, queues_for_submit
from sessions_app.models import Project

FIELD = "retry_policies"


def policies_require(
    names: Sequence[str], *, project: Project | None, field: str = FIELD
) -> list[str]:
    """Return the names without repeats, after a check that all are policies in reach of a project.

    `project` None stands for the cluster, which reaches its own policies only. None of the policies
    is deleted before the transaction ends. Raises `InvalidInput` for `field` with all missing
    names.
    """
    unique = list(dict.fromkeys(names))
    if len(unique) > MAX_POLICIES:
        raise InvalidInput({field: [f"must be at most {MAX_POLICIES} policies, not {len(unique)}"]})
    project_id = project.pk if project else None
    found = policies_named({(project_id, name) for name in unique}, attach=True)
    missing = [name for name in unique if (project_id, name) not in found]
    if missing:
        raise _unknown(missing, field)
    return unique


def _unknown(names: Iterable[str], field: str) -> InvalidInput:
    return InvalidInput({field: [f"unknown retry policies: {', '.join(names)}"]})


@dataclass(frozen=True, slots=True)
class Asked:
    """The policies that a new chain's session adds to those of its queue."""

    project_id: int
    queue_id: int
    added: tuple[str, ...]


def chains_policies(chains: Collection[Asked]) -> dict[Asked, list[str] | InvalidInput]:
    """Return the policies of new chains: the queue's in order, then the session's, each once.

    If neither names any, the cluster's default policy applies. An `InvalidInput` stands for unknown
    names, too many names, or a deleted queue. Takes two statements, one if nothing is named.
    """
    queues = queues_for_submit({chain.queue_id for chain in chains})
    wanted = {chain: _names(chain, queues) for chain in chains}
    known = policies_named(
        {(chain.project_id, name) for chain, names in wanted.items() for name in names},
        attach=False,
    )
    return {chain: _frozen(chain, wanted[chain], queues, known) for chain in wanted}


def _names(chain: Asked, queues: Mapping[int, QueueNames]) -> list[str]:
    queue = queues.get(chain.queue_id)
    if queue is None:
        return []
    names = list(dict.fromkeys([*queue.retry_policies, *chain.added]))
    return names or [name for name in [queue.default_policy] if name]


def _frozen(
    chain: Asked,
    names: list[str],
    queues: Mapping[int, QueueNames],
    known: Collection[tuple[int | None, str]],
) -> list[str] | InvalidInput:
    if chain.queue_id not in queues:
        return InvalidInput({"queue": ["was deleted"]})
    missing = [name for name in names if (chain.project_id, name) not in known]
    if unknown := [name for name in missing if name in chain.added]:
        return _unknown(unknown, FIELD)
    # A name that only the queue or the default had was detached and deleted since it was read.
    frozen = [name for name in names if name not in missing]
    if len(frozen) > MAX_POLICIES:
        text = f"a chain has at most {MAX_POLICIES} policies; with those of its queue these are"
        return InvalidInput({FIELD: [f"{text} {len(frozen)}"]})
    return frozen
