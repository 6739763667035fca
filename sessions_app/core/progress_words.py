"""How far a session is, in words for its pages. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from retry.units.durations import in_words

_PERIODS = ((1, "s"), (60, "min"), (3600, "h"), (86_400, "day"))
_LONGEST = 100 * 86_400
"""Seconds: nobody plans by a longer rest."""


class ProgressShown(NamedTuple):
    """The step and, if it is known, of how many; further words; and the newest checkpoint."""

    done: str
    share: int | None
    """The part that is done, in percent; None if the total is unknown."""
    words: str
    checkpoint: str
    checkpoint_step: str


def progress_shown(told: Mapping[str, Any] | None, *, live: bool) -> ProgressShown | None:
    """Return how far a session is, from the `progress` of its answer; None if it told nothing."""
    if told is None:
        return None
    step, of = told["step"], told["of"]
    share = int(min(step / of, 1) * 100) if of else None
    done = f"step {_number(step)}" + (f" of {_number(of)} ({share} %)" if of else "")
    words = []
    if told["best_step"] > step:
        words.append(f"best step {_number(told['best_step'])}")
    if rate := told["rate"]:
        words.append(_rate(rate))
        left = (of - step) / rate if of and rate > 0 and of > step else None
        if live and left is not None and left <= _LONGEST:
            words.append(f"{in_words(round(left))} left")
    if told["note"]:
        words.append(told["note"])
    at = told["checkpoint_step"]
    saved = "" if at is None else _number(at)
    return ProgressShown(done, share, ", ".join(words), told["checkpoint"] or "", saved)


def _rate(rate: float) -> str:
    seconds, name = next((each for each in _PERIODS if rate * each[0] >= 1), _PERIODS[-1])
    steps = rate * seconds
    return f"{steps:,.0f}/{name}" if steps >= 100 else f"{steps:.3g}/{name}"


def _number(value: float) -> str:
    whole = float(value).is_integer() and value < 1e15
    return f"{value:,.0f}" if whole else f"{value:,.6g}"
