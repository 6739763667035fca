"""The pods recorded from a real cluster, and the parts of one, so that a test can change it."""

import json
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from retry.evidence.pod_facts import TERMINAL_PHASES, pod_phase

PODS = Path(__file__).parents[2] / "fixtures" / "pods"
NAMES = sorted(path.stem for path in PODS.glob("*.json"))
LOGS = sorted(path.stem for path in (PODS / "watch").glob("*.jsonl"))
# Whoever looked at them deleted them in the end.
NEVER_ENDED = {
    "crash-loop-backoff",
    "err-image-never-pull",
    "err-image-pull",
    "image-pull-backoff",
    "invalid-image-name",
    "liveness-restart",
    "running",
    "unschedulable-cpu",
    "unschedulable-selector",
    "volume-mount-stuck",
}


def recorded(name: str) -> Any:
    """A pod object of one's own."""
    return deepcopy(_read(PODS / f"{name}.json")[0])


def watched(name: str) -> list[Any]:
    """Every state of the pod that a watch told, oldest first."""
    return [event["object"] for event in deepcopy(_read(PODS / "watch" / f"{name}.jsonl"))]


def first_end(observations: Iterable[Any]) -> Any:
    """The first observation of a pod, oldest first, in which it has ended; none: None."""
    return next((pod for pod in observations if pod_phase(pod) in TERMINAL_PHASES), None)


@cache
def _read(path: Path) -> list[Any]:
    text = path.read_text()
    return [json.loads(line) for line in (text.splitlines() if path.suffix == ".jsonl" else [text])]


def condition(pod: Any, kind: str, status: str = "True", **fields: str) -> None:
    """Put a condition on the pod, in the place of any of its kind."""
    others = [each for each in pod["status"].get("conditions", []) if each["type"] != kind]
    pod["status"]["conditions"] = [{"type": kind, "status": status, **fields}, *others]


def container(pod: Any, name: str, *, init: bool = False, **state: dict[str, Any]) -> None:
    """Add a container; keywords are its `waiting`, `running` or `terminated`, and `last`."""
    last = state.pop("last", None)
    status = {"name": name, "state": state, "lastState": {"terminated": last} if last else {}}
    pod["status"].setdefault("initContainerStatuses" if init else "containerStatuses", []).append(
        status
    )


def ended(code: int, reason: str = "Error", **fields: Any) -> dict[str, Any]:
    """A container's `terminated`."""
    return {"exitCode": code, "reason": reason, "finishedAt": "2026-11-21T00:12:00Z", **fields}


def composed(name: str) -> Any:
    """A pod that was put together by hand, of one's own; see the README of the fixtures."""
    return deepcopy(_read(PODS.parent / "composed" / f"{name}.json")[0])
