"""Node templates: the nodes that a cluster's autoscaler can add. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

from base.podspec.labels import read_labels
from base.podspec.quantity import parse_resource

MAX_TEMPLATES = 50
MOST_NODES = 1000
"""Largest `max` of a template."""
MAX_TAINTS = 64
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NAME = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_NAME = re.compile(NAME[1:-1])


class NodeTemplate(TypedDict):
    """A kind of nodes: what each has when it is empty, and how many there can be, `max`.

    `resources` are Kubernetes quantities by name. A node is of the template if it has all of its
    `labels`.
    """

    name: str
    resources: dict[str, str | int | float]
    labels: dict[str, str]
    taints: list[dict[str, str]]
    max: int


def read_templates(value: object) -> list[NodeTemplate]:
    """Return node templates from their JSON value; `labels` and `taints` may be left out.

    Unknown fields are left out. Raises `ValueError`, which names the field, such as "0.max: must
    be ...".
    """
    if not isinstance(value, list) or len(value) > MAX_TEMPLATES:
        raise ValueError(f"must be a list of at most {MAX_TEMPLATES} node templates")
    found: list[NodeTemplate] = []
    for number, each in enumerate(value):
        template = _template(str(number), each)
        if any(template["name"] == other["name"] for other in found):
            raise ValueError(f"{number}.name: there is another template {template['name']!r}")
        found.append(template)
    return found


def _template(place: str, value: object) -> NodeTemplate:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place}: must be an object")
    read: dict[str, Any] = {}
    for name, (reader, default) in _READ.items():
        try:
            read[name] = reader(value.get(name, default))
        except ValueError as error:
            raise ValueError(f"{place}.{name}: {error}") from None
    return cast("NodeTemplate", read)


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            "must be 1 to 63 of letters, digits, '-', '_' and '.', a letter or digit at both ends"
        )
    return value


def _resources(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ValueError('must be an object of resource names and quantities, such as {"cpu": "8"}')
    for name, amount in value.items():
        try:
            parse_resource(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return value


def _taints(value: object) -> list[dict[str, str]]:
    if not isinstance(value, list) or len(value) > MAX_TAINTS:
        raise ValueError(f"must be a list of at most {MAX_TAINTS} taints")
    for each in value:
        texts = isinstance(each, dict) and all(isinstance(text, str) for text in each.values())
        if not texts or not each.get("key"):
            raise ValueError(
                'a taint must be an object such as {"key": "gpu", "effect": "NoSchedule"}'
            )
        if each.get("effect") not in EFFECTS:
            raise ValueError(f"the effect of a taint must be one of {', '.join(EFFECTS)}")
    return value


def _max(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_NODES:
        raise ValueError(f"must be a whole number from 1 to {MOST_NODES}")
    return value


_READ: dict[str, tuple[Callable[[object], Any], object]] = {
    "name": (_name, None),
    "resources": (_resources, None),
    "labels": (read_labels, {}),
    "taints": (_taints, []),
    "max": (_max, None),
}
