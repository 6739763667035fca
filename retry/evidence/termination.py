"""The known facts about how a session ended, as plain values.

A `Termination` holds facts only; `retry.evidence.causes` decides what they mean.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from retry.evidence.pod_facts import pod_facts

MESSAGE_BYTES = 4096
_MESSAGES = frozenset({"message", "pod_message"})
STATUSES = frozenset({"error", "terminated", "cancelled"})

# PostgreSQL's text and jsonb can store neither NUL nor half of a surrogate pair.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EXIT_CODES = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """The state of one container at the end; `exit_code` is None if it never terminated.

    `finished_at` is RFC 3339 text as the cluster gave it, the text of a number of seconds, or "". A
    `sidecar` serves the other containers as long as they run: it explains why a session failed only
    if none of them did.
    """

    name: str = ""
    init: bool = False
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    finished_at: str = ""
    sidecar: bool = False

    @classmethod
    def from_json(cls, obj: object) -> "ContainerFacts":
        """Read the well-formed facts; all others keep their defaults."""
        return cls(**_read(obj, _CONTAINER_READERS))

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as JSON values."""
        return _dump(self)

    @property
    def failed(self) -> bool:
        return self.exit_code is not None and self.exit_code != 0


@dataclass(frozen=True, slots=True)
class Termination:
    """The recorded end of one session.

    `status` is `error`, `terminated` (success) or `cancelled`. `conditions` and `reason` are words
    in the cluster's spelling (`OOMKilled`, `Evicted`); `reason` is read both as a pod's and as a
    container's. `message` is the workload's own (its termination log), `pod_message` the cluster's.
    `lease_expired` says that the executor or its lease was lost. `rank` says which of several pods
    the facts are about; None if there is only one.
    """

    status: str = "error"
    exit_code: int | None = None
    conditions: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    pod_message: str = ""
    node: str = ""
    lease_expired: bool = False
    containers: tuple[ContainerFacts, ...] = ()
    rank: int | None = None

    @classmethod
    def from_json(cls, obj: object) -> "Termination":
        """Read a termination from any JSON value. Never raises.

        Facts of a wrong type and unknown keys are dropped; NUL and lone surrogates become U+FFFD.
        With a `pod` (as the Kubernetes API gives it) the pod's facts count, and stated ones fill
        the gaps. A stated `status` always counts. Stated conditions are added to the pod's, and so
        is a stated reason if the pod has its own. `deleted_by_us` says that Reprise itself deleted
        the pod.
        """
        facts = _read(obj, _TERMINATION_READERS)
        if isinstance(obj, dict) and "pod" in obj:
            pod = facts_of_pod(obj["pod"], deleted_by_us=obj.get("deleted_by_us") is True)
            pod["conditions"] = (*pod.get("conditions", ()), *_stated_words(facts, pod))
            stated = {"status": facts["status"]} if "status" in facts else {}
            facts = {**facts, **pod, **stated}
        return cls(**facts)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as JSON values that can be stored.

        Of each message the last 4,096 bytes of UTF-8 are kept, cut between characters.
        """
        return _dump(self)


def first_failed_container(termination: Termination) -> ContainerFacts | None:
    """Return the container that failed first, by finish time and then by name; None if none did.

    Init containers count. A container without a readable finish time comes after those with one,
    and sidecars come last.
    """
    return first_failed(termination.containers)


def clean_text(text: str) -> str:
    """Replace what a database cannot store (NUL, lone surrogates) by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def message_tail(text: str) -> str:
    """Return the last 4,096 bytes of the message in UTF-8, cut between characters."""
    if len(text) * 4 <= MESSAGE_BYTES:
        return text
    return text.encode("utf-8", "replace")[-MESSAGE_BYTES:].decode("utf-8", "ignore")


def facts_of_pod(pod: object, *, deleted_by_us: bool = False) -> dict[str, Any]:
    """Return the fields of the `Termination` that a pod states; omit those it does not.

    `message` is the termination message of the first failed container.
    """
    facts = _read(pod_facts(pod, deleted_by_us=deleted_by_us), _TERMINATION_READERS)
    failed = first_failed(facts.get("containers", ()))
    if failed is not None and failed.message:
        facts["message"] = failed.message
    return facts


def termination_from_pod(pod: object, *, deleted_by_us: bool = False) -> Termination:
    """Return how a session ended, from its pod as the Kubernetes API gives it. Never raises.

    `pod` is any JSON value; its malformed parts are dropped. The pod need not have ended: one whose
    start failed shows why. `deleted_by_us` says that Reprise itself deleted it.
    """
    return Termination(**facts_of_pod(pod, deleted_by_us=deleted_by_us))


def first_failed(containers: Sequence[ContainerFacts]) -> ContainerFacts | None:
    """Return the container that failed first; None if none did."""
    failed = [container for container in containers if container.failed]
    if len(failed) < 2:
        return failed[0] if failed else None
    return min(failed, key=_finish_order)


def _finish_order(container: ContainerFacts) -> tuple[bool, float, str, str]:
    seconds = _seconds(container.finished_at)
    if seconds is None:
        return container.sidecar, float("inf"), container.finished_at, container.name
    return container.sidecar, seconds, "", container.name


def _seconds(moment: str) -> float | None:
    # Fractions and offsets can be spelled in several ways, so the text itself does not sort.
    try:
        finished = datetime.fromisoformat(moment)
    except ValueError:
        return _number(moment)
    if finished.tzinfo is None:
        finished = finished.replace(tzinfo=UTC)
    return finished.timestamp()


def _number(value: str | float) -> float | None:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _stated_words(facts: dict[str, Any], pod: dict[str, Any]) -> Sequence[str]:
    reason = (facts["reason"],) if pod.get("reason") and facts.get("reason") else ()
    return (*facts.get("conditions", ()), *reason)


class _MalformedError(Exception):
    """The value has a wrong type, so the fact counts as absent."""


_Reader = Callable[[object], Any]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _MalformedError
    return clean_text(value)


def _moment(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _text(value)
    if _number(value) is None:
        raise _MalformedError
    return repr(float(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _MalformedError
    return value


def _exit_code(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _EXIT_CODES:
        raise _MalformedError
    return value


def _rank(value: object) -> int:
    rank = _exit_code(value)
    if rank < 0:
        raise _MalformedError
    return rank


def _status(value: object) -> str:
    status = _text(value).lower()
    if status not in STATUSES:
        raise _MalformedError
    return status


def _words(value: object) -> tuple[str, ...]:
    return tuple(clean_text(word) for word in _list(value) if isinstance(word, str))


def _containers(value: object) -> tuple[ContainerFacts, ...]:
    return tuple(ContainerFacts.from_json(item) for item in _list(value) if isinstance(item, dict))


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise _MalformedError
    return value


def _read(obj: object, readers: dict[str, _Reader]) -> dict[str, Any]:
    if not isinstance(obj, dict):
        return {}
    facts = {}
    for name, reader in readers.items():
        if name in obj:
            try:
                facts[name] = reader(obj[name])
            except _MalformedError:
                continue
    return facts


def _dump(facts: ContainerFacts | Termination) -> dict[str, Any]:
    dumped: dict[str, Any] = {}
    for field in fields(facts):
        value = getattr(facts, field.name)
        if field.default is not MISSING and value == field.default:
            continue
        dumped[field.name] = _dump_value(field.name, value)
    return dumped


def _dump_value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        text = clean_text(value)
        return message_tail(text) if name in _MESSAGES else text
    if name == "conditions":
        return [clean_text(word) for word in value]
    if name == "containers":
        return [container.to_json() for container in value]
    return value


_CONTAINER_READERS: dict[str, _Reader] = {
    "name": _text,
    "init": _flag,
    "sidecar": _flag,
    "exit_code": _exit_code,
    "reason": _text,
    "message": _text,
    "finished_at": _moment,
}
_TERMINATION_READERS: dict[str, _Reader] = {
    "status": _status,
    "exit_code": _exit_code,
    "conditions": _words,
    "reason": _text,
    "message": _text,
    "pod_message": _text,
    "node": _text,
    "lease_expired": _flag,
    "containers": _containers,
    "rank": _rank,
}
