"""What goes wrong when, drawn from a seed: pure, so that a seed always means the same faults."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of fault: on what, how many of these there are, and how long it lasts, in seconds."""

    part: str
    parts: int
    shortest: float
    longest: float


KINDS = {
    "worker killed": Kind("worker", 2, 0.2, 4),
    "web killed": Kind("web", 2, 0.2, 3),
    "beat killed": Kind("beat", 1, 0.2, 5),
    "executor killed": Kind("executor", 2, 0.2, 4),
    "executor killed, clock off by 5 min": Kind("executor", 2, 0.2, 2),
    "executor cut off": Kind("executor", 2, 2, 30),
    "executor frozen": Kind("executor", 2, 2, 30),
    "broker stopped": Kind("broker", 1, 1, 6),
    "broker wiped": Kind("broker", 1, 0, 2),
    "PostgreSQL restarted": Kind("postgres", 1, 0, 1),
    "database connections cut": Kind("postgres", 1, 0, 0),
    "log store full": Kind("log store", 1, 2, 6),
    "poison task": Kind("broker", 1, 0, 0),
    "retries paused": Kind("switch", 1, 1, 4),
}
GAP = (1.0, 3.0)
LEAD = 3.0
"""Seconds of peace at the beginning."""


@dataclass(frozen=True)
class Fault:
    """`at` is seconds from the start; `seed` is for what the fault draws itself."""

    at: float
    kind: str
    target: int
    seconds: float
    seed: int

    @property
    def part(self) -> str:
        """What it happens to; one part has one fault at a time."""
        kind = KINDS[self.kind]
        return f"{kind.part} {self.target}" if kind.parts > 1 else kind.part


def plan(seed: int, seconds: float) -> list[Fault]:
    """Faults for so many seconds. Each kind comes once before any comes twice."""
    random = Random(seed)
    faults: list[Fault] = []
    left: list[str] = []
    gap = min(1.0, (seconds - LEAD) / (len(KINDS) * sum(GAP) / 2))
    at = LEAD
    while at < seconds:
        left = left or random.sample(sorted(KINDS), len(KINDS))
        kind = left.pop()
        _, parts, shortest, longest = KINDS[kind]
        lasts = random.uniform(shortest, longest)
        faults.append(Fault(at, kind, random.randrange(parts), lasts, random.randrange(1 << 30)))
        at += gap * random.uniform(*GAP)
    return faults
