"""Did a system hold a steady load? Values in, reasons out.

The second quarter of the time is compared with the last one: caches are warm by then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.endurance_watch import Look, Relation

RATE_SHARE = 0.98
P99_MS = 150.0
RSS_GROWTH = 1.05
RSS_FLOOR_MB = 8.0
"""Growth of less is the noise of allocators."""
DEAD_GROWTH = 1.25
DEAD_FLOOR = 2_000
"""Dead rows that autovacuum does not look at, over a minute of a busy small table."""
BLOAT_GROWTH = 1.15
BLOAT_FLOOR = 16 * 1024 * 1024
ENTRY_BYTES = 300
"""The widest entries have some 100 bytes; pages are at worst half empty."""


def quarters(looks: Sequence[Look]) -> tuple[Sequence[Look], Sequence[Look]]:
    """Return the looks of the second and of the last quarter, at least one each."""
    size = max(1, len(looks) // 4)
    return looks[size : 2 * size] or looks[:1], looks[-size:]


def rss_growth(looks: Sequence[Look]) -> dict[str, float]:
    """Return for each process its memory in the last quarter to that in the second one."""
    second, last = (_medians(part, lambda each: each.rss_mb) for part in quarters(looks))
    return {name: round(last[name] / second[name], 3) for name in last if second.get(name)}


def _medians(
    looks: Sequence[Look], values: Callable[[Look], Mapping[str, float]]
) -> dict[str, float]:
    names = {name for each in looks for name in values(each)}
    return {
        name: median([found[name] for found in map(values, looks) if name in found])
        for name in sorted(names)
    }


def dead_rows(looks: Sequence[Look]) -> dict[str, dict[str, Any]]:
    """Return for each table with dead rows their peak, their number at the end, and vacuums."""
    found = {}
    for name, end in looks[-1].tables.items():
        peak = max(each.tables[name].dead for each in looks if name in each.tables)
        if peak >= DEAD_FLOOR:
            vacuums = end.vacuums - looks[0].tables[name].vacuums
            found[name] = {"peak": peak, "end": end.dead, "autovacuums": vacuums}
    return found


def bloat(looks: Sequence[Look]) -> dict[str, float]:
    """Return for each large table and index how its bytes grew, to how its rows did.

    Of one whose rows did not grow it is the growth of its bytes.
    """
    second, last = quarters(looks)
    return {
        name: round(_growth(before.size, now.size) / max(1.0, _growth(before.rows, now.rows)), 3)
        for name, before, now in _pairs(second[-1], last[-1])
        if now.size >= BLOAT_FLOOR
    }


def _pairs(before: Look, now: Look) -> Iterator[tuple[str, Relation, Relation]]:
    for kind in ("tables", "indexes"):
        old, new = getattr(before, kind), getattr(now, kind)
        yield from ((name, old[name], new[name]) for name in new if name in old)


def _growth(before: float, now: float) -> float:
    return now / before if before else 1.0


def reasons(
    looks: Sequence[Look], *, rate: float, reached: float, latencies_ms: Mapping[str, float]
) -> list[str]:
    """Return why the system did not hold the load; empty if it did."""
    found = []
    if reached < RATE_SHARE * rate:
        found.append(f"{reached:.0f} attempts/s instead of {rate:.0f}")
    for name, value in latencies_ms.items():
        if not value < P99_MS:
            found.append(f"{name} is {value:.0f} ms, not below {P99_MS:.0f}")
    return [*found, *_growing_memory(looks), *_growing_dead(looks), *_bloated(looks)]


def _growing_memory(looks: Sequence[Look]) -> Iterator[str]:
    _, last = quarters(looks)
    sizes = _medians(last, lambda each: each.rss_mb)
    for name, growth in rss_growth(looks).items():
        more = sizes[name] - sizes[name] / growth
        if growth > RSS_GROWTH and more > RSS_FLOOR_MB:
            yield f"memory of {name} grew by {more:.0f} MB to {sizes[name]:.0f} MB"


def _growing_dead(looks: Sequence[Look]) -> Iterator[str]:
    second, last = quarters(looks)
    for name in dead_rows(looks):
        before, now = (max((each.tables[name] for each in p), key=_dead) for p in (second, last))
        # Of a table that grows, autovacuum lets a share be dead.
        growth = DEAD_GROWTH * max(1.0, _growth(before.rows, now.rows))
        if now.dead > max(DEAD_FLOOR, growth * before.dead):
            yield f"dead rows of {name} grew from {before.dead} to {now.dead}"


def _dead(table: Relation) -> int:
    return table.dead


def _bloated(looks: Sequence[Look]) -> Iterator[str]:
    for name, growth in bloat(looks).items():
        if growth > BLOAT_GROWTH:
            yield f"{name} grew {growth:.2f} times as much as its rows"
    for name, index in looks[-1].indexes.items():
        if index.size > BLOAT_FLOOR + ENTRY_BYTES * index.entries:
            yield f"{name} has {index.size >> 20} MB for {index.entries:.0f} entries"
