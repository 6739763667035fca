"""The result of a simulation, as pages show it."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from interfaces.templatetags.reprise import duration, words
from retry.simulate import MAX_CHANGED


def simulated(summary: Mapping[str, Any], *, most: int) -> dict[str, Any]:
    """Return the sums of a simulation for a template, with at most `most` changed chains."""
    changed: list[dict[str, str]] = summary["changed"]
    turns = Counter((each["was"], each["would_be"]) for each in changed)
    return {
        **summary,
        "added": f"{summary['added_attempts']:+d}",
        "added_run": _signed(summary["added_run_seconds"]),
        "tables": [
            ("Retries by cause", _bars(summary["by_cause"], words)),
            ("Retries by rule", _bars(summary["by_rule"], str)),
            ("Decisions by reason", _bars(summary["by_reason"], words)),
        ],
        "changed": changed[:most],
        "changed_count": len(changed),
        "capped": len(changed) >= MAX_CHANGED,
        "turns": [(*turn, number) for turn, number in turns.most_common()],
        "holds": _holds(summary),
    }


def _holds(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what breakers and shared budgets held and spared, as names and values."""
    if "held_seconds" not in summary:
        return []
    held = [
        (
            f"held by a {words(name)}",
            f"{times} ({duration(summary['held_seconds'][name])} in all)",
        )
        for name, times in sorted(summary["held"].items())
    ]
    return [*held, ("retries spared", str(summary["spared_retries"]))]


def _signed(seconds: float) -> str:
    """Return the seconds in words, such as `+3 h 20 min`."""
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


def _bars(counts: Mapping[str, int], shown: Callable[[str], str]) -> list[tuple[str, int, int]]:
    """Return (name, number, largest number) for each entry, the largest first."""
    most = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(shown(name), number, most) for name, number in ordered]
