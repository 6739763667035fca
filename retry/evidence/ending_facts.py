"""The facts of an end that a decision's trace stores, for the sentences about it."""

from typing import Any

from retry.evidence.termination import ContainerFacts, Termination

# Limited, because they are stored with every failure and contain free text from clusters.
TRACED_CHARACTERS = 200
_CONDITIONS = 20


def ending_facts(
    termination: Termination, container: ContainerFacts | None, exit_code: int | None
) -> dict[str, Any]:
    """Return the facts for a sentence about this end; `container` failed first, if any."""
    facts: dict[str, Any] = {
        "exit_code": exit_code,
        "container": container.name[:TRACED_CHARACTERS] if container else "",
        "reason": termination.reason[:TRACED_CHARACTERS],
        "conditions": [word[:TRACED_CHARACTERS] for word in termination.conditions[:_CONDITIONS]],
        "lease_expired": termination.lease_expired,
        "node": termination.node[:TRACED_CHARACTERS],
    }
    if termination.rank is not None:
        facts["rank"] = termination.rank
    if termination.pod_message:
        facts["said"] = termination.pod_message[:TRACED_CHARACTERS]
    return facts
