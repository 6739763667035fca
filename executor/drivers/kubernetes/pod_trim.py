"""Cuts a pod object of the Kubernetes API down to what is read of it later.

The result is well-formed, so its readers need no checks.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from executor.drivers.kubernetes.pod_names import is_ours
from executor.runs import MESSAGE_BYTES

Object = dict[str, Any]
Pod = Mapping[str, Any]

MOST_STATUSES = 64
"""Most statuses of each kind of container. Those that have failed come first."""
ALL_MESSAGES = 32 * 1024
"""Most bytes of all messages of a pod together. If they exceed it, each gets an equal share."""
_WORD = 253
_WAITING = ("reason", "message")
_TERMINATED = ("exitCode", "reason", "message", "startedAt", "finishedAt", "signal")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_STATUS = ("name", "image", "imageID", "restartCount")
_INIT_CONTAINER = ("name", "restartPolicy")
_POD_STATUS = ("phase", "reason", "message", "observedGeneration", "startTime")
_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)


class Trimmed(dict[str, Any]):
    """A pod that was cut down already. Cutting it again would change nothing."""


def trimmed(pod: object) -> Trimmed:
    """Return the parts of a pod that classification and the check of starts read. Never raises.

    The result has at most some 200 KB. Leaf values other than text and whole numbers are left out.
    Of each message the last 4,096 bytes stay.
    """
    if isinstance(pod, Trimmed):
        return pod
    whole = _object(pod)
    status = _object(whole.get("status"))
    kept = Trimmed(
        metadata=_metadata(_object(whole.get("metadata"))),
        spec=_spec(_object(whole.get("spec"))),
        status={
            **_leaves(status, _POD_STATUS),
            "conditions": [
                _leaves(each, _CONDITION) for each in _objects(status, "conditions")[:MOST_STATUSES]
            ],
            "initContainerStatuses": _statuses(status, "initContainerStatuses"),
            "containerStatuses": _statuses(status, "containerStatuses"),
        },
    )
    _bound(kept)
    return kept


def _metadata(metadata: Object) -> Object:
    labels = _object(metadata.get("labels"))
    ours = {key: value[:_WORD] for key, value in labels.items() if _our_label(key, value)}
    return {**_leaves(metadata, _METADATA), "labels": ours}


def _spec(spec: Object) -> Object:
    """Return the node, and which init containers are sidecars that run as long as the pod does."""
    inits = (_leaves(each, _INIT_CONTAINER) for each in _objects(spec, "initContainers"))
    stay = [each for each in inits if "restartPolicy" in each][:MOST_STATUSES]
    return {**_leaves(spec, ("nodeName",)), **({"initContainers": stay} if stay else {})}


def _our_label(key: object, value: object) -> bool:
    return isinstance(key, str) and is_ours(key) and isinstance(value, str)


def _statuses(status: Object, name: str) -> list[Object]:
    kept = [_container(each) for each in _objects(status, name)]
    if len(kept) <= MOST_STATUSES:
        return kept
    failed = [bool(each["state"].get("terminated", {}).get("exitCode")) for each in kept]
    first = sorted(range(len(kept)), key=lambda number: not failed[number])
    return [kept[number] for number in sorted(first[:MOST_STATUSES])]


def _container(status: Object) -> Object:
    return {
        **_leaves(status, _STATUS),
        "state": _state(_object(status.get("state"))),
        "lastState": _state(_object(status.get("lastState"))),
    }


def _state(state: Object) -> Object:
    kinds = {"waiting": _WAITING, "running": ("startedAt",), "terminated": _TERMINATED}
    return {
        kind: _leaves(_object(state[kind]), names) for kind, names in kinds.items() if kind in state
    }


def _leaves(value: Object, names: tuple[str, ...]) -> Object:
    return {name: _leaf(name, value[name]) for name in names if _is_leaf(value.get(name))}


def _is_leaf(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**63)


def _leaf(name: str, value: str | int) -> str | int:
    if isinstance(value, int):
        return value
    return tail(value, MESSAGE_BYTES) if name == "message" else value[:_WORD]


def tail(text: str, size: int) -> str:
    """Return the last `size` bytes of the text in UTF-8, cut between characters."""
    if len(text) * 4 <= size:
        return text
    return text.encode("utf-8", "replace")[-size:].decode("utf-8", "ignore")


def _bound(pod: Object) -> None:
    holders = list(_with_messages(pod))
    if sum(len(holder["message"]) * 4 for holder in holders) > ALL_MESSAGES:
        for holder in holders:
            holder["message"] = tail(holder["message"], ALL_MESSAGES // len(holders))


def _with_messages(pod: Object) -> Iterator[Object]:
    """Yield all objects that still have a message.

    Only the known places are searched, because this runs for each event of a watch.
    """
    status = pod["status"]
    containers = (*status["initContainerStatuses"], *status["containerStatuses"])
    states = (each[name].values() for each in containers for name in ("state", "lastState"))
    for holder in (status, *status["conditions"], *chain.from_iterable(states)):
        if isinstance(holder.get("message"), str):
            yield holder


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _objects(value: Object, name: str) -> list[Object]:
    items = value.get(name)
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
