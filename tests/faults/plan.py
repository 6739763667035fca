"""A plan of faults, drawn from a seed: pure, so that a seed always means the same faults."""

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
    "executor's clock set by 5 min": Kind("executor", 2, 1, 4),
    "executor started twice": Kind("executor", 2, 2, 6),
    "executor cut off": Kind("executor", 2, 2, 20),
    "executor frozen": Kind("executor", 2, 2, 20),
    "broker stopped": Kind("broker", 1, 1, 6),
    "broker wiped": Kind("broker", 1, 0, 2),
    "PostgreSQL restarted": Kind("postgres", 1, 0, 1),
    "database connections cut": Kind("postgres", 1, 0, 0),
    "PostgreSQL slow": Kind("tables", 1, 3, 8),
    "log store full": Kind("log store", 1, 2, 6),
    "poison task": Kind("broker", 1, 0, 0),
    "retries paused": Kind("switch", 1, 1, 4),
    "retries limited": Kind("switch", 1, 2, 5),
}
LONG = 10.0
"""Seconds: longer than a lease lasts (`plant.LEASE_TTL` and its grace). A fault that is planned to
last longer lasts so long at least."""
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
        """Return the part that the fault happens to; a part has one fault at a time."""
        return _part(self.kind, self.target)


def plan(seed: int, seconds: float) -> list[Fault]:
    """Faults for so many seconds. Each kind comes once before any comes twice, and the first of
    its kind is among the longer ones."""
    random = Random(seed)
    faults: list[Fault] = []
    left: list[str] = []
    free_at: dict[str, float] = {}
    gap = min(1.0, (seconds - LEAD) / (len(KINDS) * max(GAP)))
    at = LEAD
    while at < seconds:
        left = left or _round(random)
        kind = left.pop()
        _, parts, shortest, longest = KINDS[kind]
        first = all(fault.kind != kind for fault in faults)
        lasts = random.uniform((shortest + longest) / 2 if first else shortest, longest)
        # One that would have to wait for another to end is rather for the part beside it.
        free = {n: free_at.get(_part(kind, n), 0.0) for n in random.sample(range(parts), parts)}
        target = min(free, key=free.__getitem__)
        fault = Fault(at, kind, target, lasts, random.randrange(1 << 30))
        free_at[fault.part] = max(at, free[target]) + lasts
        faults.append(fault)
        at += gap * random.uniform(*GAP)
    return faults


def _round(random: Random) -> list[str]:
    """All kinds, the last one first; what lasts long begins apart, and early enough to end."""
    drawn = random.sample(sorted(KINDS), len(KINDS))
    long = [kind for kind in drawn if KINDS[kind].longest > LONG]
    kinds = [kind for kind in drawn if kind not in long]
    for number, kind in enumerate(long):
        share = (number + random.random() / 2) / len(long)
        kinds.insert(round(len(kinds) * (1 - share)), kind)
    return kinds


def _part(kind: str, target: int) -> str:
    part, parts, _, _ = KINDS[kind]
    return f"{part} {target}" if parts > 1 else part
