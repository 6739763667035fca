"""Nodes of executors, as calls: which are suspect, and what operators decide about them."""

from collections.abc import Iterator
from typing import Any

from reprise_client.calls import Calls, part
from reprise_client.models import ClusterNode


class NodeCalls(Calls):
    """The calls about nodes."""

    def nodes(self, **filters: Any) -> Iterator[ClusterNode]:
        """Yield the nodes by executor and name; `filters` are `executor`, and `state`: `open`,
        `suspect` or `quarantined`."""
        return self._pages(ClusterNode, "/nodes/", filters)

    def node(self, executor: str, name: str) -> ClusterNode:
        """Return one node of an executor."""
        return self._get(ClusterNode, _path(executor, name))

    def node_quarantine(self, executor: str, name: str, reason: str) -> ClusterNode:
        """Give it no leases until it is released; present runs go on."""
        path = f"{_path(executor, name)}quarantine/"
        return self._send(ClusterNode, "POST", path, {"reason": reason}, idempotent=True)

    def node_release(self, executor: str, name: str) -> ClusterNode:
        """End its quarantine and its suspicion. What it did before counts no longer."""
        return self._send(
            ClusterNode, "POST", f"{_path(executor, name)}release/", {}, idempotent=True
        )


def _path(executor: str, name: str) -> str:
    return f"/nodes/{part(executor)}/{part(name)}/"
