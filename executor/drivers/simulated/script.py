"""The courses of simulated sessions: drawn from rates with a seed, or set by the session itself.

A script (`--script FILE`, JSON) says how all sessions fare. Every key has a default:

    {"seconds": 1,             how long a run lasts: a number, [least, most] or {"mean": 5}
     "start_seconds": 0,       the same, from acceptance to RUNNING
     "failure_rate": 0,        share of runs that fail with one of `exit_codes`
     "exit_codes": [1],
     "oom_rate": 0, "preemption_rate": 0, "hang_rate": 0,
     "node_loss_rate": 0,      share of runs whose node is lost, with all that runs there,
     "node_down_seconds": 60,  for so long
     "node_up_seconds": 5,     until a node of a node template is there for runs that wait for it
     "bad_nodes": {},          node -> share of the runs there that fail with one of `exit_codes`
     "storms": [],             spells in which more goes wrong, see below
     "node": {"cpu": "16", "memory": "64Gi"},
     "output_bytes": 0,        what each run writes
     "clock_offset": 0,        seconds by which the executor's clock is ahead
     "lost_report_rate": 0, "unanswered_report_rate": 0, "repeated_report_rate": 0,
     "reordered_report_rate": 0, "replayed_report_rate": 0}      shares of calls

In a storm, such as {"at": 20, "seconds": 5, "rate": 0.8, "reason": "ImagePullBackOff"}, a share of
the runs that begin between its beginning (`at`, seconds of the executor's life) and its end fails
with its `reason` and `exit_code` (null) after `run_seconds` (0: nobody sees them run).

A session that wants an exact outcome carries it in its environment:

    REPRISE_SIMULATE='{"exit_codes": [1, 1, 0], "seconds": 0}'

The n-th attempt takes the n-th item of each list, the later ones the last. `seconds` null never
ends by itself. `reasons` are words such as OOMKilled, Preempted or NodeLost. When it is told to
stop, the run ends after `stop_seconds` (null: it does not listen) with `stop_exit_code`. `progress`
has what the attempts tell when they begin, such as {"step": 40, "of": 100, "checkpoint": "s3://b"}.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from reprise_client.errors import ConfigError

from base.podspec.resources import check

VARIABLE = "REPRISE_SIMULATE"
SIGTERMED = 143
Span = float | list[float] | dict[str, float]


class ScriptError(ConfigError):
    """A script, or the script of a session, cannot be read."""


@dataclass(frozen=True)
class Storm:
    """A period in which more runs fail, as described above."""

    at: float
    seconds: float
    rate: float
    reason: str
    exit_code: int | None = None
    run_seconds: Span = 0.0

    def hits(self, now: float, random: Random) -> bool:
        """Return whether the storm hits a run that begins `now`."""
        return self.at <= now < self.at + self.seconds and random.random() < self.rate

    def course(self, random: Random) -> "Course":
        """Return the course of a run that the storm hits."""
        return Course(_drawn(self.run_seconds, random), 0.0, self.exit_code, self.reason)


@dataclass(frozen=True)
class Script:
    """The rates for all sessions, as described above."""

    seconds: Span = 1.0
    start_seconds: Span = 0.0
    failure_rate: float = 0.0
    exit_codes: list[int] = field(default_factory=lambda: [1])
    oom_rate: float = 0.0
    preemption_rate: float = 0.0
    hang_rate: float = 0.0
    node_loss_rate: float = 0.0
    node_down_seconds: float = 60.0
    node_up_seconds: float = 5.0
    bad_nodes: dict[str, float] = field(default_factory=dict)
    storms: list[Storm] = field(default_factory=list)
    node: dict[str, str] = field(default_factory=lambda: {"cpu": "16", "memory": "64Gi"})
    output_bytes: int = 0
    clock_offset: float = 0.0
    lost_report_rate: float = 0.0
    unanswered_report_rate: float = 0.0
    repeated_report_rate: float = 0.0
    reordered_report_rate: float = 0.0
    replayed_report_rate: float = 0.0

    @classmethod
    def load(cls, path: Path | None) -> "Script":
        """Return the script of the file, or the default one. Raises `ScriptError`."""
        if path is None:
            return cls()
        try:
            values = _object(path.read_text("utf-8"), {each.name for each in fields(cls)})
            storms = [Storm(**each) for each in values.pop("storms", [])]
            script, random = cls(**values, storms=storms), Random(0)  # noqa: S311
            # Draw once, to find errors in the script now.
            script.draw(random, 0.0)
            check(script.node)
            for name, rate in script.bad_nodes.items():
                if not 0 <= rate <= 1:
                    raise ValueError(f"bad_nodes: {name} must be between 0 and 1")
            for storm in storms:
                storm.hits(storm.at, random)
                storm.course(random)
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise ScriptError(f"--script {path}: {error}") from error
        return script

    @property
    def troubles_reports(self) -> bool:
        """Return whether the script asks for troubles with reports."""
        return bool(
            self.clock_offset
            or self.lost_report_rate
            or self.unanswered_report_rate
            or self.repeated_report_rate
            or self.reordered_report_rate
            or self.replayed_report_rate
        )

    def on_node(self, course: "Course", node: str, random: Random) -> "Course":
        """Return the course of a run on a node: on a bad one it may fail, whatever it is."""
        if node in self.bad_nodes and random.random() < self.bad_nodes[node]:
            return replace(course, exit_code=random.choice(self.exit_codes), reason="")
        return course

    def draw(self, random: Random, now: float) -> "Course":
        """Return the course of a run that begins `now` seconds after the executor started."""
        for storm in self.storms:
            if storm.hits(now, random):
                return storm.course(random)
        seconds = _drawn(self.seconds, random)
        start = _drawn(self.start_seconds, random)
        left = random.random()
        for rate, reason, code in (
            (self.oom_rate, "OOMKilled", 137),
            (self.preemption_rate, "Preempted", SIGTERMED),
            (self.node_loss_rate, NODE_LOST, None),
        ):
            if left < rate:
                return Course(seconds * random.random(), start, code, reason)
            left -= rate
        if left < self.failure_rate:
            return Course(seconds, start, random.choice(self.exit_codes))
        hangs = left - self.failure_rate < self.hang_rate
        return Course(None if hangs else seconds, start)


NODE_LOST = "NodeLost"


@dataclass(frozen=True, slots=True)
class Course:
    """The course of one run if nobody interferes. With `seconds` None it never ends by itself.

    If told to stop, it ends after `stop_seconds`; None means only by force.
    """

    seconds: float | None
    start_seconds: float = 0.0
    exit_code: int | None = 0
    reason: str = ""
    message: str = ""
    stop_seconds: float | None = 0.0
    stop_exit_code: int = SIGTERMED
    told: str = ""
    """The line that tells its progress; "" for none."""


_OWN = frozenset(
    {"seconds", "start_seconds", "exit_codes", "reasons", "message", "stop_seconds"}
    | {"stop_exit_code", "progress"}
)


@lru_cache(maxsize=1024)
def own_course(text: str, attempt: int) -> Course:
    """Return the course that `REPRISE_SIMULATE` gives this attempt. Raises `ScriptError`."""
    try:
        values = _object(text, _OWN)
        seconds, stop = _nth(values.get("seconds", 0), attempt), values.get("stop_seconds", 0)
        reason = str(_nth(values.get("reasons", ""), attempt))
        told = _nth(values.get("progress"), attempt)
        return Course(
            seconds=None if seconds is None else float(seconds),
            start_seconds=float(values.get("start_seconds", 0)),
            exit_code=None
            if reason == NODE_LOST
            else int(_nth(values.get("exit_codes", 0), attempt)),
            reason=reason,
            message=str(values.get("message", "")),
            stop_seconds=None if stop is None else float(stop),
            stop_exit_code=int(values.get("stop_exit_code", SIGTERMED)),
            told="" if told is None else f"::reprise:: {json.dumps(told)}\n",
        )
    except (ValueError, TypeError, LookupError) as error:
        raise ScriptError(f"{VARIABLE}: {error}") from error


def _object(text: str, known: set[str] | frozenset[str]) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    if unknown := sorted(found.keys() - known):
        raise ValueError(f"no such key: {', '.join(unknown)}")
    return found


def _nth(value: Any, attempt: int) -> Any:
    """Return the item of a list for this attempt, or the last one; other values as they are."""
    return value[min(attempt, len(value) - 1)] if isinstance(value, list) else value


def _drawn(span: Any, random: Random) -> float:
    if isinstance(span, Mapping):
        return random.expovariate(1 / span["mean"])
    if isinstance(span, list):
        least, most = span
        return random.uniform(least, most)
    return float(span)
