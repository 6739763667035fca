"""How far a session is, in words and as a bar. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprise_client.cli.words import span

if TYPE_CHECKING:
    from reprise_client.models import SessionProgress

WIDTH = 24
_PERIODS = (("s", 1), ("min", 60), ("h", 3600), ("day", 86_400))
_LONGEST = 100 * 86_400
"""Seconds: nobody plans by a longer rest."""


def progress_bar(progress: SessionProgress) -> str:
    """Return `[######------------------] 25 of 100 (25 %)`; without a total `step 25`."""
    if not progress.of:
        return f"step {number(progress.step)}"
    share = min(progress.step / progress.of, 1.0)
    done = int(share * WIDTH)
    bar = "#" * done + "-" * (WIDTH - done)
    return f"[{bar}] {number(progress.step)} of {number(progress.of)} ({int(share * 100)} %)"


def progress_words(progress: SessionProgress, *, live: bool) -> str:
    """Return the bar and, of a live run, the rate and the time left; then the note."""
    words = [progress_bar(progress)]
    if progress.best_step > progress.step:
        words.append(f"best {number(progress.best_step)}")
    if progress.rate:
        words.append(rate_words(progress.rate))
    if live and (left := seconds_left(progress)) is not None:
        words.append(f"{span(left)} left")
    if progress.note:
        words.append(progress.note)
    return ", ".join(words)


def seconds_left(progress: SessionProgress) -> float | None:
    """Return the seconds until the last step at the present rate; None if that is unknown."""
    if not progress.of or not progress.rate or progress.rate < 0 or progress.of < progress.step:
        return None
    left = (progress.of - progress.step) / progress.rate
    return left if left <= _LONGEST else None


def rate_words(rate: float) -> str:
    """Return `2.5/s`, or the rate in the shortest period with at least one step."""
    name, seconds = next((each for each in _PERIODS if rate * each[1] >= 1), _PERIODS[-1])
    steps = rate * seconds
    return f"{steps:,.0f}/{name}" if steps >= 100 else f"{steps:.3g}/{name}"


def number(value: float) -> str:
    """Return `12,000` or `0.25`."""
    return f"{value:,.0f}" if value.is_integer() and value < 1e15 else f"{value:,.6g}"
