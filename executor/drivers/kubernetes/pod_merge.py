"""Merges the session's fields and Reprise's own into the pod specification of a user."""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from reprise_client.wire import Spec

from base.podspec.mounts import Mount
from base.podspec.resources import GROUPS, groups
from base.podspec.specification import MAIN, main_index

FIRST_PORT = 20_000
TERMINATION_LOG = "/dev/termination-log"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_PORT_NAME = 15
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Object = dict[str, Any]


def literal(text: str) -> str:
    """Return the text with `$` escaped, so that Kubernetes does not expand `$(NAME)` or `$$`."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def containers_of(spec: Mapping[str, Any]) -> tuple[list[Object], int]:
    """Return the containers of a specification and the index of the one that runs the session."""
    containers = [dict(each) for each in spec.get("containers") or [{}]]
    index = main_index(containers)
    containers[index].setdefault("name", MAIN)
    return containers, index


def run_in(
    container: Object, spec: Spec, environ: Mapping[str, str], secrets: Iterable[Object] = ()
) -> None:
    """Make the container run the session; the session's fields win over the container's.

    `secrets` are variables whose values are stored elsewhere.
    """
    if spec.get("image"):
        container["image"] = spec["image"]
    if spec["command"]:
        container["command"] = [literal(word) for word in spec["command"]]
        container.pop("args", None)
    ports = _ports(container, spec.get("ports") or ())
    log = container.get("terminationMessagePath") or TERMINATION_LOG
    add_environ(container, spec.get("environ") or {})
    _add_variables(container, list(secrets))
    add_environ(container, {**environ, **ports, "REPRISE_TERMINATION_LOG": log})
    if resources := _resources(container.get("resources") or {}, spec.get("resources") or {}):
        container["resources"] = resources


def forbid_restarts(containers: Iterable[Object], before: Iterable[Object]) -> None:
    """Remove what would make the kubelet run a container again.

    An attempt is one run, and only Reprise decides about another one. `before` are the init
    containers. One that always restarts is a sidecar, which ends with the others.
    """
    for container in (*containers, *before):
        container.pop("restartPolicyRules", None)
    for container in containers:
        container.pop("restartPolicy", None)
    for container in before:
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)


def add_environ(container: Object, environ: Mapping[str, str]) -> None:
    """Set variables of the container; they replace variables with the same names."""
    added = [{"name": name, "value": literal(value)} for name, value in environ.items()]
    _add_variables(container, added)


def _add_variables(container: Object, added: Sequence[Object]) -> None:
    if added:
        names = {each["name"] for each in added}
        others = [each for each in container.get("env") or () if each.get("name") not in names]
        container["env"] = [*others, *added]


def _ports(container: Object, names: Iterable[Any]) -> dict[str, str]:
    """Return a number for each port name: the container's port of this name, or a free one."""
    declared = [dict(each) for each in container.get("ports") or ()]
    numbers = {each.get("name"): each.get("containerPort") for each in declared}
    taken = set(numbers.values())
    given = {}
    for name in names:
        if name not in numbers:
            numbers[name] = next(n for n in range(FIRST_PORT, 2**16) if n not in taken)
            taken.add(numbers[name])
            declared.append({**_port_name(name), "containerPort": numbers[name]})
        given[f"REPRISE_PORT_{name.upper().replace('-', '_')}"] = str(numbers[name])
    if declared:
        container["ports"] = declared
    return given


def _port_name(name: str) -> Object:
    fits = len(name) <= _LONGEST_PORT_NAME and _PORT_NAME.fullmatch(name)
    return {"name": name} if fits else {}


def _resources(base: Mapping[str, Any], asked: Mapping[str, Any]) -> Object:
    """Return the resources of the container, with the session's amounts merged in.

    Requests and limits of extended resources are made equal, because Kubernetes allows nothing
    else.
    """
    amounts = {group: _text(entries) for group, entries in groups(asked).items()}
    for name in {*amounts["requests"], *amounts["limits"]}:
        if "/" in name:
            amount = amounts["limits"].get(name) or amounts["requests"][name]
            amounts["requests"][name] = amounts["limits"][name] = amount
    merged = {group: {**(base.get(group) or {}), **amounts[group]} for group in GROUPS}
    return {**base, **{group: merged[group] for group in GROUPS if merged[group]}}


def _text(amounts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def add_mounts(spec: Object, container: Object, mounts: Iterable[Mount]) -> None:
    """Add a volume to the pod for each mount; it replaces the container's own at the same path."""
    mounts = list(mounts)
    paths = {mount.path for mount in mounts}
    own = [
        each for each in container.get("volumeMounts") or () if each.get("mountPath") not in paths
    ]
    volumes = list(spec.get("volumes") or ())
    for number, mount in enumerate(mounts):
        name = f"reprise-mount-{number}"
        volumes.append({"name": name, **mount.volume})
        optional = {"readOnly": mount.read_only, "subPath": mount.sub_path}
        set_ones = {key: value for key, value in optional.items() if value}
        own.append({"name": name, "mountPath": mount.path, **set_ones})
    if mounts:
        spec["volumes"], container["volumeMounts"] = volumes, own


def avoid(spec: Object, nodes: Iterable[str]) -> None:
    """Forbid nodes, in addition to the node affinity of the specification."""
    for node in nodes:
        _restrict(spec, "NotIn", node)


def bind_to(spec: Object, node: str) -> None:
    """Allow one node only. The cluster's scheduler can still refuse it, by taints or volumes."""
    _restrict(spec, "In", node)


def _restrict(spec: Object, operator: str, node: str) -> None:
    affinity = dict(spec.get("affinity") or {})
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    required = dict(of_nodes.get(_REQUIRED) or {})
    rule = {"key": "metadata.name", "operator": operator, "values": [node]}
    # The terms are alternatives, so each one must have the rule. An empty term never matches.
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), rule]} if term else term
        for term in required.get("nodeSelectorTerms") or [{"matchFields": []}]
    ]
    of_nodes[_REQUIRED] = {**required, "nodeSelectorTerms": terms}
    spec["affinity"] = {**affinity, "nodeAffinity": of_nodes}


def limit_time(spec: Object, session: Spec) -> None:
    """Set the session's times, rounded up to the whole seconds that Kubernetes uses."""
    grace = session.get("termination_grace_period")
    # With a grace of 0 the cluster forgets a pod before anybody has seen it stop.
    spec["terminationGracePeriodSeconds"] = max(1, ceil(30 if grace is None else grace))
    if session.get("batch_timeout") is not None:
        spec["activeDeadlineSeconds"] = ceil(session["batch_timeout"] or 1)
