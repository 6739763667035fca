"""The judgement about a steady load: what is flat passes, and each thing that grows is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.endurance_judgement import bloat, dead_rows, reasons, rss_growth
from benchmarks.endurance_watch import Look, Relation

MB = 1 << 20
FAST = {"p99_get_ms": 20.0, "p99_list_ms": 30.0}
Change = Callable[[int, Look], Look]


def _look(number: int, _: Look | None = None) -> Look:
    """A look of a system that holds: its history grows, its work does not."""
    rows = 10_000 * number
    return Look(
        at=10.0 * number,
        attempts=5_000,
        late_p99_s=0.1,
        rss_mb={"server 0": 200.0 + number % 3, "postgresql": 150.0},
        tables={
            "history": Relation(rows, 1_000 * rows, dead=rows // 50, vacuums=number // 12),
            "lease": Relation(500, 2 * MB, dead=30_000 + number % 5, vacuums=number // 6),
        },
        indexes={
            "history_pkey": Relation(rows, 50 * rows, entries=rows),
            "waiting": Relation(rows, 2 * MB, entries=400),
        },
    )


def _looks(change: Change = _look) -> list[Look]:
    return [change(number, _look(number)) for number in range(1, 121)]


def _memory(number: int, look: Look) -> Look:
    return replace(look, rss_mb={**look.rss_mb, "server 0": 200.0 + number})


def _dead(number: int, look: Look) -> Look:
    return replace(look, tables={**look.tables, "lease": Relation(500, MB, dead=900 * number)})


def _fat(number: int, look: Look) -> Look:
    return replace(look, tables={**look.tables, "lease": Relation(500, number * MB)})


def _full_of_nothing(number: int, look: Look) -> Look:
    """A partial index that grows with the history, though few of its entries live."""
    index = Relation(look.tables["history"].rows, 200_000 * number, entries=400)
    return replace(look, indexes={**look.indexes, "waiting": index})


def test_what_is_flat_passes() -> None:
    looks = _looks()
    assert reasons(looks, rate=500, reached=499, latencies_ms=FAST) == []
    assert rss_growth(looks) == {"postgresql": 1.0, "server 0": 1.0}
    assert bloat(looks)["history"] == pytest.approx(1.0)
    assert dead_rows(looks)["lease"] == {"peak": 30_004, "end": 30_000, "autovacuums": 20}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_memory, "memory of server 0 grew"),
        (_dead, "dead rows of lease grew"),
        (_fat, "lease grew 2.00 times"),
        (_full_of_nothing, "waiting has 22 MB for 400 entries"),
    ],
)
def test_what_grows_is_named(change: Change, named: str) -> None:
    found = reasons(_looks(change), rate=500, reached=500, latencies_ms=FAST)
    assert len(found) == 1
    assert named in found[0]


def test_a_rate_that_is_not_reached_and_slow_calls_are_named() -> None:
    slow = {"p99_get_ms": 20.0, "p99_list_ms": 151.0}
    found = reasons(_looks(), rate=500, reached=480, latencies_ms=slow)
    assert found == ["480 attempts/s instead of 500", "p99_list_ms is 151 ms, not below 150"]
