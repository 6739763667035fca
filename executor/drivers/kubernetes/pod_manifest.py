"""Makes the objects of a session: a pod for each rank, and a Service by which they find each other.

Pure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from reprise_client.wire import Spec

from base.podspec import pod_security
from base.podspec.mounts import Mount, read_mount
from base.podspec.pod_defaults import completed, default_problem
from base.podspec.specification import REFUSED, problem, spec_of
from executor.drivers.kubernetes import pod_merge, pod_names
from executor.drivers.protocol import Order

Manifest = dict[str, Any]
NO_DEFAULTS: Mapping[str, Any] = {}


class ManifestError(ValueError):
    """No pods can be made of the session. The message tells its author why."""


def problem_of(spec: Spec, refused: Iterable[str] = REFUSED) -> str | None:
    """Return why no pods can be made of the session, naming the field; None if they can."""
    try:
        _check(spec, refused)
    except ManifestError as error:
        return str(error)
    return None


def manifests(
    order: Order,
    *,
    executor: str,
    namespace: str,
    refused: Iterable[str] = REFUSED,
    security: str = pod_security.RESTRICTED,
    defaults: Mapping[str, Any] = NO_DEFAULTS,
) -> list[Manifest]:
    """Return the pods of an attempt, by rank. `refused` are paths as in `podspec.REFUSED`.

    `security` is one of `pod_security.LEVELS`. `defaults` are the executor's pod defaults, which
    were checked before. Raises `ManifestError`.
    """
    mounts = _check(order.spec, refused)
    projects = order.pod_defaults
    if wrong := default_problem(projects, refused):
        raise ManifestError(f"pod_defaults of its project: {wrong}")
    if projects or defaults:
        pod_spec = completed(order.spec.get("pod_spec") or {}, projects, defaults)
        order = replace(order, spec=cast("Spec", {**order.spec, "pod_spec": pod_spec}))
    size = order.spec.get("cluster_size") or 1
    common = {
        "REPRISE_SESSION_ID": order.key.session_id,
        "REPRISE_CLUSTER_SIZE": str(size),
        "REPRISE_RANK0_HOST": _rank0_host(order, namespace) if size > 1 else "localhost",
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": _metadata(order, rank, executor, namespace),
            "spec": _secured(
                _spec(order, mounts, {**common, "REPRISE_RANK": str(rank)}, rank, size), security
            ),
        }
        for rank in range(size)
    ]


def headless_service(
    order: Order, *, executor: str, namespace: str, owner: Mapping[str, Any]
) -> Manifest:
    """Return the Service that gives the ranks of an attempt their host names.

    It is deleted with `owner`, the pod of rank 0 as the cluster has it.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata_below(order, executor, namespace, owner),
        "spec": {
            "clusterIP": "None",
            "selector": _own(order),
            # Ranks look each other up while they start.
            "publishNotReadyAddresses": True,
        },
    }


def secret(order: Order, *, executor: str, namespace: str, owner: Mapping[str, Any]) -> Manifest:
    """Return the Secret with the secret variables of an attempt, for all of its ranks.

    It is deleted with `owner`, as above.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata_below(order, executor, namespace, owner),
        "type": "Opaque",
        "immutable": True,
        "stringData": {
            _secret_key(number): value for number, value in enumerate(order.secrets.values())
        },
    }


def _metadata_below(
    order: Order, executor: str, namespace: str, owner: Mapping[str, Any]
) -> Manifest:
    return {
        "name": _service_name(order),
        "namespace": namespace,
        "labels": _labels(order, executor),
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
        ],
    }


def _secret_key(number: int) -> str:
    """Return the key of a variable. The name of a variable is not always a valid key."""
    return f"variable-{number}"


def _secret_variables(order: Order) -> list[Manifest]:
    name = _service_name(order)
    return [
        {
            "name": variable,
            "valueFrom": {"secretKeyRef": {"name": name, "key": _secret_key(number)}},
        }
        for number, variable in enumerate(order.secrets)
    ]


def _check(spec: Spec, refused: Iterable[str]) -> list[Mount]:
    pod_spec = spec.get("pod_spec") or {}
    if wrong := problem(pod_spec, refused):
        raise ManifestError(f"pod_spec.{wrong}")
    containers, index = pod_merge.containers_of(spec_of(pod_spec))
    if not (spec.get("image") or containers[index].get("image")):
        raise ManifestError("image: a pod needs an image, here or in pod_spec")
    mounts = []
    for number, raw in enumerate(spec.get("mounts") or ()):
        try:
            mounts.append(read_mount(raw))
        except ValueError as error:
            raise ManifestError(f"mounts.{number}: {error}") from None
    return mounts


def _chain(order: Order) -> tuple[str, int]:
    """Return the root of the chain and the number of this attempt."""
    root = order.environ.get("REPRISE_ROOT_SESSION_ID") or order.key.session_id
    return root, int(order.environ.get("REPRISE_ATTEMPT") or 0)


def _rank0_host(order: Order, namespace: str) -> str:
    return f"{_hostname(0)}.{_service_name(order)}.{namespace}.svc"


def _service_name(order: Order) -> str:
    root, _ = _chain(order)
    return pod_names.service_name(root, order.key.fencing_token)


def _hostname(rank: int) -> str:
    return f"rank-{rank}"


def _own(order: Order) -> dict[str, str]:
    """Return the labels that select the pods of this lease only."""
    return {
        pod_names.SESSION: order.key.session_id,
        pod_names.TOKEN: str(order.key.fencing_token),
    }


def _labels(order: Order, executor: str) -> dict[str, str]:
    root, attempt = _chain(order)
    environ = order.environ
    return {
        **_own(order),
        pod_names.ROOT: root,
        pod_names.ATTEMPT: str(attempt),
        pod_names.EXECUTOR: pod_names.label_value(executor),
        pod_names.PROJECT: pod_names.project_label(environ.get("REPRISE_PROJECT", "")),
        pod_names.QUEUE: pod_names.label_value(environ.get("REPRISE_QUEUE", "")),
        pod_names.JOB_SET: pod_names.label_value(environ.get("REPRISE_JOB_SET", "")),
    }


def _metadata(order: Order, rank: int, executor: str, namespace: str) -> Manifest:
    spec, environ = order.spec, order.environ
    users = (spec.get("pod_spec") or {}).get("metadata") or {}
    labels = spec.get("labels") or {}
    root, attempt = _chain(order)
    return {
        "name": pod_names.pod_name(root, rank, attempt),
        "namespace": namespace,
        "labels": {
            **dict(_not_ours(users.get("labels"))),
            **pod_names.users_labels(labels),
            **_labels(order, executor),
            pod_names.RANK: str(rank),
        },
        "annotations": {
            **pod_names.STAYS,
            **dict(_not_ours(users.get("annotations"))),
            pod_names.EXECUTOR: executor,
            pod_names.PROJECT: environ.get("REPRISE_PROJECT", ""),
            pod_names.QUEUE: environ.get("REPRISE_QUEUE", ""),
            pod_names.JOB_SET: environ.get("REPRISE_JOB_SET", ""),
            pod_names.NAME: spec.get("name") or "",
            pod_names.LABELS: json.dumps(labels, sort_keys=True),
            **({pod_names.AWAITS_SECRET: "true"} if order.secrets and rank == 0 else {}),
        },
        "finalizers": [pod_names.FINALIZER],
    }


def _not_ours(given: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in (given or {}).items() if not pod_names.is_ours(key))


def _secured(spec: Manifest, security: str) -> Manifest:
    if security == pod_security.RESTRICTED:
        pod_security.restrict(spec, [*spec["containers"], *(spec.get("initContainers") or ())])
    return spec


def _spec(
    order: Order, mounts: Iterable[Mount], environ: Mapping[str, str], rank: int, size: int
) -> Manifest:
    spec: Manifest = deepcopy(dict(spec_of(order.spec.get("pod_spec") or {})))
    spec.pop("metadata", None)
    containers, index = pod_merge.containers_of(spec)
    environ = {**order.environ, **environ}
    helpers = [*containers[:index], *containers[index + 1 :], *(spec.get("initContainers") or ())]
    for helper in helpers:
        pod_merge.add_environ(helper, environ)
    pod_merge.forbid_restarts(containers, spec.get("initContainers") or ())
    pod_merge.run_in(containers[index], order.spec, environ, _secret_variables(order))
    pod_merge.add_mounts(spec, containers[index], mounts)
    pod_merge.limit_time(spec, order.spec)
    if len(order.nodes) == size:
        pod_merge.bind_to(spec, order.nodes[rank])
    elif avoided := sorted({*filter(None, [order.avoid_node]), *order.avoid_nodes}):
        pod_merge.avoid(spec, avoided)
    if order.node_labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **order.node_labels}
    if size > 1:
        spec["hostname"] = _hostname(rank)
        spec["subdomain"] = _service_name(order)
    # A token of the cluster's API is a secret that most sessions do not need. It is set on each
    # pod, because the account of its namespace may set it otherwise.
    if spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = False
    spec.setdefault("enableServiceLinks", False)
    return {**spec, "containers": containers, "restartPolicy": "Never"}
