"""Changes that a person, or a rule, makes to the next attempt of a chain. Pure.

A mapping with some of: `image`, `command`, `environ` (null removes a variable), `secret_environ`,
`batch_timeout`, `pod_spec`, `priority`, `retry_policy` (the given fields), `resources`, `reason`,
and `frozen`, the whole inline policy of the attempt as it is stored. A rule gives `placement`: its
`nodeSelector` and `executors`.

The door gives the values of `secret_environ`. The service keeps only the names there, and adds
`secrets`, all secrets of the attempt as they are stored, with the id of the user who gave them, and
`secrets_dropped`, the names of those that it does not get any more.
"""

from collections.abc import Callable, Mapping
from typing import Any

from retry.units.resources import merged_resources

Changes = Mapping[str, Any]
RUN_FIELDS = frozenset({"image", "command", "environ", "secret_environ", "pod_spec"})
"""What decides who gets to see the secrets of an attempt: the program, and all that it is given."""
SPEC_FIELDS = RUN_FIELDS | {"batch_timeout", "placement"}
"""What is part of the specification, so that it takes a new one."""
_AS_THEY_ARE = (
    *("image", "command", "resources", "priority", "batch_timeout", "retry_policy", "reason"),
    *("placement", "secret_environ", "secrets_dropped"),
)


def merged_changes(before: Changes | None, after: Changes) -> dict[str, Any]:
    """Return changes over earlier ones that did not come to run; of equal fields the later's."""
    merged = {**(before or {}), **after}
    for name in ("environ", "retry_policy"):
        if name in after:
            merged[name] = {**((before or {}).get(name) or {}), **after[name]}
    if "resources" in after:
        earlier = (before or {}).get("resources") or {}
        merged["resources"] = merged_resources(earlier, after["resources"])
    return merged


def changes_shown(changes: Changes | None) -> dict[str, Any] | None:
    """Return the changes for everybody who may read the session; None without any.

    Of variables only the names are shown, and of a pod specification that it has changed: not
    everybody may see the values in them.
    """
    if not changes:
        return None
    shown = {name: changes[name] for name in _AS_THEY_ARE if name in changes}
    if "environ" in changes:
        shown["environ"] = sorted(changes["environ"])
    if "pod_spec" in changes:
        shown["pod_spec"] = True
    return shown or None


def changes_words(shown: Changes | None) -> str:
    """Return changes as they are shown, in a line: `image a:2, variables X and Y; because ...`."""
    if not shown:
        return ""
    words = [_WORDS[name](shown[name]) for name in _WORDS if name in shown]
    reason = f"; {shown['reason']}" if shown.get("reason") else ""
    return f"changed: {', '.join(words)}{reason}" if words else reason.removeprefix("; ")


def _places(placement: Changes) -> list[str]:
    labels = (placement.get("executors") or {}).get("labels") or {}
    nodes = [f"{name}={value}" for name, value in (placement.get("nodeSelector") or {}).items()]
    return [*nodes, *(f"executor:{name}={value}" for name, value in labels.items())]


_WORDS: Mapping[str, Callable[[Any], str]] = {
    "image": lambda value: f"image {value}",
    "command": lambda value: f"command {' '.join(value)}",
    "environ": lambda value: f"environ {' '.join(value)}",
    "secret_environ": lambda value: f"secret_environ {' '.join(value)}",
    "secrets_dropped": lambda value: f"without the secrets {' '.join(value)}",
    "resources": lambda value: "resources " + " ".join(f"{k}={v}" for k, v in value.items()),
    "priority": lambda value: f"priority {value}",
    "batch_timeout": lambda value: f"batch_timeout {'none' if value is None else f'{value:g} s'}",
    "retry_policy": lambda value: f"retry_policy {' '.join(value)}",
    "pod_spec": lambda _: "pod_spec",
    "placement": lambda value: f"placement {' '.join(_places(value))}",
}
