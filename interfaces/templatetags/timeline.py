"""The chain as a picture: for each attempt its waiting, its run and the delay after it, to scale.

Positions are percentages of the picture's width, so that a template can draw it as SVG without
any arithmetic or inline style.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from typing import Any

from django import template

from interfaces.templatetags.reprise import duration, seconds_between, tone, words
from sessions_app.core.chain_runs import Run

register = template.Library()

LEAST_WIDTH = 0.6
"""Percent: what is shorter is still drawn this wide."""
MOST_TICKS = 4
_DAY = 86_400.0
_STEPS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
)

Attempt = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one attempt; `kind` is `waiting`, `preparing`, `running` or `delay`."""

    kind: str
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as it is drawn; `x` and `width` in percent."""

    kind: str
    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt: its bars, and the same in a sentence."""

    attempt: Attempt
    number: int
    tone: str
    bars: list[Bar]
    text: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the picture: an attempt, or a run with the bars of its attempts but delays."""

    run: Run
    rows: list[Row]
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis; `anchor` keeps its text inside of the picture."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All lanes on one scale of `seconds`, which begins when the root was created."""

    lanes: list[Lane]
    ticks: list[Tick]
    seconds: float

    @property
    def rows(self) -> list[Row]:
        return [row for lane in self.lanes for row in lane.rows]


@register.simple_tag
def chain_picture(
    attempts: Sequence[Attempt],
    due_at: datetime | None,
    now: datetime,
    folded: Sequence[Run] | None = None,
) -> Picture:
    """Lay out a chain, oldest attempt first; `due_at` is when a retry that waits comes due.

    `folded` is the chain in runs; without it each attempt has a lane of its own.
    """
    upcoming = None if due_at is None else max(due_at, now)
    follow_ups = [*(later["created_at"] for _, later in pairwise(attempts)), upcoming]
    spans = [
        list(_spans(attempt, following, now))
        for attempt, following in zip(attempts, follow_ups, strict=True)
    ]
    origin = attempts[0]["created_at"]
    end = max((span.end for row in spans for span in row), default=origin)
    scale = max(seconds_between(origin, end) or 0.0, 0.001)
    rows = [
        Row(
            attempt=attempt,
            number=attempt["attempt"] + 1,
            tone=_tone(attempt),
            bars=[_bar(span, origin, scale) for span in row],
            text=_sentence(attempt, row),
        )
        for attempt, row in zip(attempts, spans, strict=True)
    ]
    return Picture(list(_lanes(folded, rows)), list(_ticks(scale)), scale)


def _tone(attempt: Attempt) -> str:
    # What the platform ended is no failure of the work.
    return "off" if Run([attempt]).churn else tone(attempt["status"])


def _lanes(folded: Sequence[Run] | None, rows: Sequence[Row]) -> Iterator[Lane]:
    remaining = iter(rows)
    for run in folded or [Run([row.attempt]) for row in rows]:
        mine = list(islice(remaining, len(run.attempts)))
        yield Lane(run, mine, _merged([bar for row in mine for bar in row.bars]))


def _merged(bars: Sequence[Bar]) -> list[Bar]:
    """Join bars of one kind that nobody could tell apart: a long run stays a small picture."""
    joined: dict[str, list[Bar]] = {}
    for bar in bars:
        if bar.kind == "delay":
            continue
        row = joined.setdefault(bar.kind, [])
        last = row[-1] if row else None
        if last is not None and bar.x <= last.x + last.width + LEAST_WIDTH:
            end = max(last.x + last.width, bar.x + bar.width)
            row[-1] = Bar(bar.kind, last.x, round(end - last.x, 3), bar.kind)
        else:
            row.append(bar)
    return [bar for row in joined.values() for bar in row]


def _spans(attempt: Attempt, following: datetime | None, now: datetime) -> Iterator[Span]:
    end = attempt["finished_at"] or now
    marks = [
        ("waiting", attempt["created_at"]),
        ("preparing", attempt["scheduled_at"]),
        ("running", attempt["started_at"]),
        ("delay" if attempt["finished_at"] and following else "over", end),
    ]
    if following is not None:
        marks.append(("over", following))
    reached = attempt["created_at"]
    known = []
    for kind, at in marks:
        if at is not None:
            # Clocks of executors differ: nothing begins before what precedes it, or after the end.
            reached = max(reached, at if kind in {"delay", "over"} else min(at, end))
            known.append((kind, reached))
    for (kind, start), (_, stop) in pairwise(known):
        if kind != "over" and stop > start:
            yield Span(kind, start, stop)


def _bar(span: Span, origin: datetime, scale: float) -> Bar:
    begin = (seconds_between(origin, span.start) or 0.0) / scale * 100
    width = max(span.seconds / scale * 100, LEAST_WIDTH)
    x = min(begin, 100 - width)
    return Bar(span.kind, round(x, 3), round(width, 3), f"{span.kind} {duration(span.seconds)}")


_VERBS = {"waiting": "waited", "preparing": "prepared for", "running": "ran"}


def _sentence(attempt: Attempt, spans: Sequence[Span]) -> str:
    phrases = [f"{_VERBS[s.kind]} {duration(s.seconds)}" for s in spans if s.kind in _VERBS]
    cause = f" ({words(attempt['cause'])})" if attempt["cause"] else ""
    phrases.append(f"{attempt['status']}{cause}")
    phrases.extend(f"then a delay of {duration(s.seconds)}" for s in spans if s.kind == "delay")
    return f"Attempt {attempt['attempt'] + 1}: {', '.join(phrases)}."


def _ticks(scale: float) -> Iterator[Tick]:
    step = next((step for step in _STEPS if scale / step <= MOST_TICKS), None)
    if step is None:
        step = _DAY * max(1, -(-scale // (_DAY * MOST_TICKS)))
    for count in range(int(scale / step) + 1):
        x = count * step / scale * 100
        anchor = "start" if count == 0 else "end" if x > 90 else "middle"
        yield Tick(round(x, 3), duration(count * step), anchor)
