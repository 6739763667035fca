"""What one chain adds to reports, and times in buckets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.retry_worth import (
    Attempt,
    Dimension,
    bucket_of,
    kept_parts,
    percentile,
    worth_of,
)

BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)


def attempt(number: int, begin: float | None, end: float, **facts: Any) -> Attempt:
    started = None if begin is None else BEGIN + timedelta(seconds=begin)
    known = {
        "status": "ERROR", "cause": "oom_killed", "rule": "team/memory", "signature": "a1",
        "queue": "gpu", "owner": "ann", "image": "busybox:1", "node": "node-1", **facts,
    }  # fmt: skip
    return Attempt(number, started_at=started, finished_at=BEGIN + timedelta(seconds=end), **known)


def succeeded(number: int, begin: float, end: float, **facts: Any) -> Attempt:
    return attempt(
        number, begin, end, status="TERMINATED", cause="", rule="", signature="", **facts
    )


def test_a_recovered_chain_counts_once_under_each_value_of_its_attempts() -> None:
    chain = [
        attempt(0, 0, 10),
        attempt(1, 15, 35, node="node-2", rule="", cause="preempted"),
        succeeded(2, 45, 105),
    ]
    found = worth_of("succeeded", chain)
    every = found[Dimension.ALL, ""]
    assert (every.chains, every.retried, every.recovered, every.given_up) == (1, 1, 1, 0)
    assert (every.attempts, every.run, every.rescued, every.wasted) == (3, 90, 90, 30)
    assert every.waiting == 5 + 10
    assert every.recoveries == {bucket_of(95): 1}
    first, second = found[Dimension.NODE, "node-1"], found[Dimension.NODE, "node-2"]
    assert (first.chains, first.attempts, first.run, first.wasted) == (1, 2, 70, 10)
    assert (second.chains, second.attempts, second.run, second.wasted) == (1, 1, 20, 20)
    assert first.rescued == second.rescued == 90
    memory = found[Dimension.CAUSE, "oom_killed"]
    assert (memory.chains, memory.recovered, memory.attempts, memory.run) == (1, 1, 1, 10)
    assert memory.waiting == 5
    assert found[Dimension.POLICY, "team"] == found[Dimension.RULE, "team/memory"]
    assert not [value for dimension, value in found if dimension and not value]


@pytest.mark.parametrize(
    ("state", "last", "ended"),
    [
        ("exhausted", "ERROR", (0, 1, 0)),
        ("not_retried", "ERROR", (0, 1, 0)),
        ("cancelled", "ERROR", (0, 0, 1)),
        ("not_retried", "CANCELLED", (0, 0, 1)),
        ("succeeded", "TERMINATED", (0, 0, 0)),
    ],
)
def test_a_chain_of_one_attempt_ends_in_one_way(
    state: str, last: str, ended: tuple[int, int, int]
) -> None:
    found = worth_of(state, [attempt(0, None, 5, status=last)])[Dimension.ALL, ""]
    assert (found.recovered, found.given_up, found.cancelled) == ended
    assert (found.chains, found.retried, found.run, found.recoveries) == (1, 0, 0, {})


def test_an_attempt_that_never_ran_was_waited_for_until_its_end() -> None:
    chain = [attempt(0, 0, 10), attempt(1, None, 17)]
    assert worth_of("exhausted", chain)[Dimension.ALL, ""].waiting == 7


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        # (last step, step of its checkpoint) of each attempt
        ([(50, 40), (60, None), (None, None)], [0.8, 0, 0]),
        ([(50, 40), (60, 50), (100, 100)], [0.8, 0.5, 0]),
        ([(50, 50), (50, None)], [1, 0]),  # a last attempt has nobody to keep it
        ([(50, 40)], [0]),
        ([(None, None), (10, None), (10, 5)], [0, 0, 0]),  # nothing is known, or nothing is saved
        ([(0, 0), (10, 10), (20, 20)], [0, 1, 0]),
        ([(50, 40), (30, 20), (40, None)], [0.8, 2 / 3, 0]),  # the second began anew
        ([(50, 40), (30, None), (40, None)], [0.8, 0, 0]),
        ([(50, 40), (None, None), (60, 60), (60, None)], [0.8, 0, 1, 0]),  # one never ran
        ([(10, 40), (50, None)], [1, 0]),  # a checkpoint beyond its own last step
    ],
)
def test_what_the_next_attempt_keeps_is_a_part_of_the_steps(
    told: list[tuple[float | None, float | None]], kept: list[float]
) -> None:
    chain = [attempt(at, 0, 1, step=step, saved=saved) for at, (step, saved) in enumerate(told)]
    assert kept_parts(chain) == pytest.approx(kept)


_STEP = st.one_of(st.none(), st.floats(0, 1e300))


@given(st.lists(st.tuples(_STEP, _STEP), max_size=6))
def test_what_is_kept_is_between_nothing_and_all(told: list[tuple[float, float]]) -> None:
    chain = [attempt(at, 0, 1, step=step, saved=saved) for at, (step, saved) in enumerate(told)]
    assert all(0 <= part <= 1 for part in kept_parts(chain))


def test_what_a_checkpoint_keeps_is_not_wasted() -> None:
    """The example of the documentation."""
    chain = [
        attempt(0, 0, 600, step=50, saved=40),
        attempt(1, 700, 940, step=60),
        succeeded(2, 1000, 1500, step=100),
    ]
    found = worth_of("succeeded", chain)
    assert found[Dimension.ALL, ""].wasted == pytest.approx(360)
    assert found[Dimension.ALL, ""].rescued == 1340
    # An attempt that is looked at alone has kept as much as within its chain.
    only = worth_of("succeeded", chain, {Dimension.CAUSE: "oom_killed"})
    assert only[Dimension.CAUSE, "oom_killed"].wasted == pytest.approx(360)
    # A success has wasted nothing.
    assert worth_of("succeeded", chain[2:])[Dimension.ALL, ""].wasted == 0


@given(st.lists(st.floats(0.01, 3e7), min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_percentiles_are_within_15_percent(times: list[float], share: float) -> None:
    buckets: dict[int, int] = {}
    for time in times:
        buckets[bucket_of(time)] = buckets.get(bucket_of(time), 0) + 1
    found = percentile(buckets, share)
    exact = next(time for place, time in enumerate(sorted(times), 1) if place >= share * len(times))
    assert found == pytest.approx(exact, rel=0.15)


def test_nothing_has_no_percentile_and_an_instant_takes_none() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({bucket_of(0.001): 3}, 0.5) == 0
    assert bucket_of(1e30) < 120
