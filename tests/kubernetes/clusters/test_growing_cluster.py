"""A cluster that adds a node for a session which fits none, from the submission to the end."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.kubernetes.agent import path_of
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.clusters.land import PATCH, Land, Object, Site
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("clusters"), pytest.mark.slow]

LABELS = {"pool": "gpu"}
TAINT = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
TOLERANT = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
TEMPLATE = {
    "name": "gpu",
    "resources": {"cpu": "200"},
    "labels": LABELS,
    "taints": [TAINT],
    "max": 1,
}
NODES = "/api/v1/nodes"


@pytest.fixture
def scheduler(api: ApiServer, kubelet: Kubelet) -> Iterator[None]:
    """A pod with a selector waits until the test binds it."""
    kubelet.mine = lambda pod: "nodeName" in pod["spec"] or "nodeSelector" not in pod["spec"]
    yield
    kubelet.mine = lambda _pod: True
    with suppress(HTTPError):
        api.call("DELETE", f"{NODES}/gpu-0")


@pytest.mark.usefixtures("scheduler")
def test_a_session_that_fits_no_node_gets_a_new_one(
    land: Land, api: ApiServer, tmp_path: Path
) -> None:
    file = tmp_path / "templates.json"
    file.write_text(json.dumps([TEMPLATE]))
    site = land.add("growing", api, "--node-templates", str(file))
    large: dict[str, Any] = {"resources": {"cpu": "100"}}
    with land.open("growing"):
        (intolerant,) = land.submit("true", **large)
        (session,) = land.submit("true", **large, pod_spec=TOLERANT)
        (pod,) = until(lambda: site.pods(session), "it has a pod")
        assert pod["spec"]["nodeSelector"] == LABELS
        assert "affinity" not in pod["spec"]
        (lease,) = land.client.executor_leases("growing")
        assert (lease.session_id, lease.template, lease.nodes) == (session, "gpu", [])
        _add_node(api, "gpu-0")
        _bind(api, pod, "gpu-0")
        land.wait_for_status([session], "TERMINATED")
        assert land.tip(session).node == "gpu-0"
        _has_all_of_its_nodes(land, site)
        # The node is there now, and is given by name.
        (again,) = land.submit("sleep 600", **large, pod_spec=TOLERANT)
        (pod,) = until(lambda: site.pods(again), "it has a pod")
        assert "nodeSelector" not in pod["spec"]
        (lease,) = land.client.executor_leases("growing")
        assert (lease.template, lease.nodes) == ("", ["gpu-0"])
        land.client.cancel(again)
        land.wait_for_status([again], "CANCELLED")
        waits = land.client.session(intolerant)
        assert waits.status == "PENDING"
        assert "growing: no node has all that it needs" in (waits.pending_reason or "")
        land.client.cancel(intolerant)


def _add_node(api: ApiServer, name: str) -> None:
    """As an autoscaler does: with labels, and the taint that its nodes keep."""
    like: Object = api.call("GET", f"{NODES}/node-0")["status"]
    api.call("POST", NODES, {"metadata": {"name": name, "labels": LABELS}})
    amounts = {**like["allocatable"], "cpu": "200"}
    status = {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        **{key: like[key] for key in ("addresses", "daemonEndpoints")},
    }
    api.call("PATCH", f"{NODES}/{name}/status", {"status": status}, kind=PATCH)
    merge = "application/merge-patch+json"
    api.call("PATCH", f"{NODES}/{name}", {"spec": {"taints": [TAINT]}}, kind=merge)


def _bind(api: ApiServer, pod: Object, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
    api.call("POST", f"{path_of(pod)}/binding", body)


def _has_all_of_its_nodes(land: Land, site: Site) -> None:
    def names() -> set[str]:
        return {node.name for node in land.client.executor(site.name).nodes}

    until(lambda: "gpu-0" in names(), "the server knows the new node")
    until(lambda: not land.client.executor(site.name).lease_count, "nothing holds it")
