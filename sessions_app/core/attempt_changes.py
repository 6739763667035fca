"""What changed from one attempt of a chain to another. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from retry.units.durations import in_words

Facts = Mapping[str, Any]

_NAMES = {
    "executor": "Executor",
    "node": "Node",
    "image": "Image",
    "command": "Command",
    "status": "Status",
    "retry_cause": "Cause",
    "failure_category": "Failure category",
    "exit_code": "Exit code",
}
_SECONDS = {"waited": "Waited", "ran": "Ran"}
_MUCH = 1.25
"""The factor from which on two durations differ; none is equal to another."""
_ABSENT: tuple[object, ...] = (None, "", [])
_MAPPINGS = {"resources": "Resource", "environ": "Variable"}


class Change(NamedTuple):
    """A fact of two attempts; None where one does not have it."""

    name: str
    was: Any
    now: Any
    close: bool = False
    """True if the two values differ too little to be shown as a change."""

    @property
    def differs(self) -> bool:
        return bool(self.was != self.now) and not self.close


def attempt_changes(before: Facts, after: Facts) -> list[Change]:
    """Return the facts of two attempts: first those that differ, then those that do not.

    The facts are those of a whole session, and `waited` and `ran` in seconds.
    Of resources and variables only those that differ are returned; if all are equal, their number.
    """
    found = [*_facts(before, after)]
    return sorted(found, key=lambda change: not change.differs)


def _facts(before: Facts, after: Facts) -> Iterator[Change]:
    for field, name in _NAMES.items():
        was, now = before.get(field), after.get(field)
        if was not in _ABSENT or now not in _ABSENT:
            yield Change(name, was, now)
    for field, name in _SECONDS.items():
        was, now = before.get(field), after.get(field)
        if was is not None or now is not None:
            yield Change(name, _words(was), _words(now), close=_close(was, now))
    for field, name in _MAPPINGS.items():
        yield from _within(name, before.get(field) or {}, after.get(field) or {})


def _within(name: str, before: Facts, after: Facts) -> Iterator[Change]:
    names = list(dict.fromkeys([*before, *after]))
    differing = [key for key in names if before.get(key) != after.get(key)]
    for key in differing:
        yield Change(f"{name} {key}", before.get(key), after.get(key))
    if names and not differing:
        all_equal = f"{len(names)}, all equal"
        yield Change(f"{name}s", all_equal, all_equal)


def _words(seconds: float | None) -> str | None:
    return None if seconds is None else in_words(seconds)


def _close(was: float | None, now: float | None) -> bool:
    if was is None or now is None:
        return False
    return max(was, now) <= max(min(was, now), 1.0) * _MUCH
