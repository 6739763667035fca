"""The defaults and maximums that a queue sets for the times of its sessions. Pure."""

from collections.abc import Mapping
from typing import Any

from sessions_app.core.errors import InvalidInput

LIMITED = ("queue_timeout", "scheduling_timeout", "batch_timeout")
"""The times that a queue can limit, which are fields of a session."""
LONGEST = 10 * 365 * 86_400
"""Most seconds of such a time: ten years."""
Times = Mapping[str, float | None]
TimeLimits = Mapping[str, Mapping[str, float]]
"""By the name of a time: its `default` and its `max`, each in seconds and each of them optional."""


def times_within(
    asked: Mapping[str, Any], limits: TimeLimits, queue: str, *, scheduling: float
) -> Times:
    """Return the times of a session in a queue with these limits.

    A time that is not given is the default, or else the maximum; but not that for a pod without a
    node if the server's own, `scheduling` seconds (0: none), is shorter. Raises `InvalidInput` if a
    given one is above the maximum.
    """
    times: dict[str, float | None] = {name: asked.get(name) for name in LIMITED}
    errors = {
        name: [above(limits[name]["max"], queue)]
        for name, value in times.items()
        if value is not None and is_above(value, limits.get(name, {}))
    }
    if errors:
        raise InvalidInput(errors)
    for name, limit in limits.items():
        if name in times and times[name] is None:
            times[name] = limit.get("default", _longest(name, limit, scheduling))
    return times


def _longest(name: str, limit: Mapping[str, float], scheduling: float) -> float | None:
    most = limit.get("max")
    is_shorter = most is not None and 0 < scheduling <= most
    return None if name == "scheduling_timeout" and is_shorter else most


def is_above(value: float | None, limit: Mapping[str, float]) -> bool:
    """Return whether a time is above the maximum; None, no limit at all, is above each."""
    return "max" in limit and (value is None or value > limit["max"])


def above(most: float, queue: str) -> str:
    """Return why a time is refused."""
    return f"must be at most {most:g} seconds, the limit of queue {queue}"


def time_limits_check(limits: TimeLimits) -> None:
    """Raise `InvalidInput` unless each limit is of a known time, and no default above its max."""
    for name, limit in limits.items():
        if name not in LIMITED or not limit.keys() <= {"default", "max"}:
            text = f"{name}: each is the default or the max of one of {', '.join(LIMITED)}"
            raise InvalidInput({"time_limits": [text]})
        if not all(0 < seconds <= LONGEST for seconds in limit.values()):
            text = f"{name}: must be more than 0 and at most {LONGEST} seconds"
            raise InvalidInput({"time_limits": [text]})
        if "default" in limit and is_above(limit["default"], limit):
            text = f"{name}: the default must be at most the max of {limit['max']:g} seconds"
            raise InvalidInput({"time_limits": [text]})


def time_limits_words(limits: TimeLimits) -> list[str]:
    """Return each limit as `queue_timeout max: 3600`, which forms read again."""
    return [
        f"{name} {kind}: {limit[kind]:.15g}"
        for name, limit in limits.items()
        for kind in ("default", "max")
        if kind in limit
    ]
