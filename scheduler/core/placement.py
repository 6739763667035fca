"""Refused plans: what a cluster's words say about the node that a pod was bound to. Pure."""

import re

from scheduler.core.fit import POD_SLOTS

MOST_REFUSALS = 3
"""Refused plans of an attempt, after which it is leased without a node."""
_TOO_MANY = "Too many pods"
_INSUFFICIENT = re.compile(r"Insufficient ([A-Za-z0-9][A-Za-z0-9./_-]{0,252})")


def resources_lacking(words: str) -> list[str]:
    """Return the resources that the node lacks, sorted; empty if it refused for other reasons.

    `words` are those of the kube-scheduler, such as "0/3 nodes are available: 1 Insufficient cpu,
    2 node(s) didn't match Pod's node affinity/selector". It looks for room only on nodes that pass
    the affinity, so the words about room are about the planned node.
    """
    lacking = {name.rstrip(".") for name in _INSUFFICIENT.findall(words)}
    if _TOO_MANY in words:
        lacking.add(POD_SLOTS)
    return sorted(lacking)
