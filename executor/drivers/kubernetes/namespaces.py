"""Namespaces of projects: whether they exist, and what to do if not."""

from contextlib import suppress

from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Exists,
    NamespaceTrouble,
    NotThere,
    OwnTrouble,
)


async def explained(cluster: Cluster, refusal: ApiRefusal, namespace: str) -> ApiRefusal:
    """Return a refusal that says so if the namespace does not exist; else the same one.

    The API server itself only says that the executor has no rights there: these come with the
    namespace.
    """
    if isinstance(refusal, NamespaceTrouble) and await is_missing(cluster, namespace):
        return NamespaceTrouble(
            f"namespace {namespace} does not exist; create it with its rights: copy"
            f" deploy/kubernetes/example/project, set `namespace: {namespace}` in its"
            " kustomization.yaml, and run `kubectl apply -k` with the copy"
        )
    return refusal


async def is_missing(cluster: Cluster, name: str) -> bool:
    """Return whether there is surely no such namespace."""
    try:
        await cluster.call("GET", f"/api/v1/namespaces/{name}")
    except NotThere:
        return True
    except OwnTrouble as refusal:
        return "not found" in str(refusal)
    except ApiRefusal:
        return False
    return False


async def create(cluster: Cluster, name: str) -> None:
    """Create a namespace. Many sessions of a new project may start at once."""
    with suppress(Exists):
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
