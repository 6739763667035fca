"""Slots: never more than a limit in a minute, always the first that is free, spread evenly."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.storm_limits import MINUTE, Key, Slot, SlotBook, StormLimits

LIMITS = st.none() | st.integers(1, 4)
STORM_LIMITS = st.builds(StormLimits, LIMITS, LIMITS).filter(
    lambda storm_limits: storm_limits.limited
)
TAKEN = st.dictionaries(
    st.tuples(st.none() | st.integers(1, 3), st.integers(5, 12)), st.integers(0, 6), max_size=12
)


def taken_by(book: SlotBook, queues: Sequence[int]) -> list[Slot]:
    return [book.take(queue) for queue in queues]


def naive(
    storm_limits: StormLimits, first: int, taken: dict[Key, int], queues: Sequence[int]
) -> list[int]:
    """The minute of each, looked for from the beginning every time."""
    counts = Counter(taken)
    minutes = []
    for queue in queues:
        minute = first
        while (
            storm_limits.cluster is not None and counts[None, minute] >= storm_limits.cluster
        ) or (storm_limits.queue is not None and counts[queue, minute] >= storm_limits.queue):
            minute += 1
        counts[None, minute] += 1
        counts[queue, minute] += 1
        minutes.append(minute)
    return minutes


@given(STORM_LIMITS, TAKEN, st.lists(st.integers(1, 3), max_size=30))
def test_each_gets_the_first_minute_with_room(
    storm_limits: StormLimits, taken: dict[Key, int], queues: list[int]
) -> None:
    slots = taken_by(SlotBook(storm_limits, 5, taken), queues)
    assert [slot.minute for slot in slots] == naive(storm_limits, 5, taken, queues)
    assert all(0 <= slot.offset < MINUTE for slot in slots)


@given(STORM_LIMITS, TAKEN, st.lists(st.integers(1, 3), max_size=30))
def test_given_slots_are_to_be_written(
    storm_limits: StormLimits, taken: dict[Key, int], queues: list[int]
) -> None:
    book = SlotBook(storm_limits, 5, taken)
    slots = taken_by(book, queues)
    expected: Counter[Key] = Counter()
    if storm_limits.cluster is not None:
        expected.update((None, slot.minute) for slot in slots)
    if storm_limits.queue is not None:
        expected.update((queue, slot.minute) for queue, slot in zip(queues, slots, strict=True))
    assert book.given == expected
    full = [storm_limits.queue if queue else storm_limits.cluster for queue, _ in expected]
    assert all(
        limit is not None and count + taken.get(key, 0) <= limit
        for (key, count), limit in zip(expected.items(), full, strict=True)
    )


def test_a_minute_is_filled_evenly() -> None:
    slots = taken_by(SlotBook(StormLimits(cluster=4), 0, {}), [1] * 8)
    assert slots == [Slot(m, o) for m in (0, 1) for o in (0, 15_000_000, 30_000_000, 45_000_000)]


def test_of_two_limits_the_slower_one_spreads() -> None:
    (first, second, *_) = taken_by(SlotBook(StormLimits(cluster=1000, queue=2), 0, {}), [7, 7])
    assert (first.offset, second.offset) == (0, MINUTE // 2)


def test_a_long_backlog_of_one_queue_leaves_the_minutes_to_the_others() -> None:
    book = SlotBook(StormLimits(cluster=10, queue=2), 0, {})
    assert taken_by(book, [1] * 100)[-1].minute == 49
    assert [slot.minute for slot in taken_by(book, [2] * 4)] == [0, 0, 1, 1]


def test_gaps_are_filled() -> None:
    taken: dict[Key, int] = {(None, minute): 1 if minute == 4 else 2 for minute in range(10)}
    book = SlotBook(StormLimits(cluster=2), 0, taken)
    assert [slot.minute for slot in taken_by(book, [1, 1, 1])] == [4, 10, 10]


@pytest.mark.parametrize("limit", [1, 7, 59, 61, 10**6, 2**31 - 1])
def test_the_last_slot_of_a_minute_lies_in_it(limit: int) -> None:
    slot = SlotBook(StormLimits(cluster=limit), 3, {(None, 3): limit - 1}).take(1)
    assert slot == Slot(3, (limit - 1) * MINUTE // limit)
    assert slot.offset < MINUTE


def test_a_limit_that_was_lowered_counts_what_was_given_before() -> None:
    assert SlotBook(StormLimits(cluster=3), 0, {(None, 0): 50, (None, 1): 2}).take(1) == Slot(
        1, 2 * MINUTE // 3
    )


def test_no_limit_is_none() -> None:
    assert not StormLimits().limited
    assert StormLimits(queue=1).limited
