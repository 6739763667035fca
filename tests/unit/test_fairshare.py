"""Fair share: the arithmetic of priorities, and the division of what is free."""

from collections import Counter, deque
from collections.abc import Sequence
from decimal import Decimal
from math import isclose
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.fairshare import (
    FLOOR,
    NEAR,
    Claimant,
    Division,
    Limit,
    Order,
    Standing,
    WaitingLine,
    cost,
    current_priority,
    effective_priority,
    levels_with_history,
)

shares = st.floats(0, 1)
CPU = "cpu"


def order(number: int, priority: int = 0) -> Order:
    each = UUID(int=number)
    return Order(-priority, 1_000_000 * number, True, each, each)


def line(
    count: int, cpus: float = 1, *, key: int = 0, retry: bool = False, at: int = 0
) -> WaitingLine:
    """Sessions of so many CPUs each out of a pool of 100; submitted from second `at` on."""
    heads = deque(order(at + number) for number in range(count))
    return WaitingLine(
        key or round(cpus * 1000), retry, {CPU: Decimal(cpus)}, cpus / 100, heads, False
    )


def claimant(
    queue: int, *waiting_lines: WaitingLine, factor: float = 1.0, **fields: Any
) -> Claimant:
    return Claimant(queue, factor, fields.pop("level", 0.0), waiting_lines, **fields)


class Pool:
    """A pool of CPUs, however they lie."""

    def __init__(self, free: float):
        self.free = Decimal(free)

    def place(self, line: WaitingLine) -> str:
        if line.amounts[CPU] > self.free:
            return CPU
        self.free -= line.amounts[CPU]
        return ""


def divide(
    claimants: Sequence[Claimant], free: float, slots: int = 10**6, retry_share: float = 0.5
) -> Division:
    division = Division(claimants, place=Pool(free).place, slots=slots, retry_share=retry_share)
    assert division.go_on() == []
    return division


def counts(division: Division) -> Counter[int]:
    return Counter(grant.claimant.queue for grant in division.grants)


def test_the_cost_is_the_dominant_share() -> None:
    pool = {"cpu": Decimal(100), "memory": Decimal(1000), "gpu": Decimal(0)}
    used = {"cpu": Decimal(10), "memory": Decimal(500), "gpu": Decimal(3), "fpga": Decimal(1)}
    assert cost(used, pool) == 0.5
    assert cost({}, pool) == cost(used, {}) == 0.0


@given(before=shares, now=shares, half_time=st.floats(0.1, 1e6))
def test_after_one_half_time_it_is_half_way(before: float, now: float, half_time: float) -> None:
    """The seed's own words: A + (B - A) / 2."""
    found = current_priority(now, before, half_time, half_time)
    assert isclose(found, max(before + (now - before) / 2, FLOOR), abs_tol=1e-12)


@given(before=shares, now=shares, first=st.floats(0, 1e4), second=st.floats(0, 1e4))
def test_two_steps_are_one(before: float, now: float, first: float, second: float) -> None:
    between = current_priority(now, before, first, 300.0)
    found = current_priority(now, between, second, 300.0)
    # The floor may have lifted the one in between.
    assert isclose(found, current_priority(now, before, first + second, 300.0), abs_tol=2 * FLOOR)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    assert current_priority(1.0, 0.25, -5.0, 300.0) == 0.25


def test_effective_priority_is_the_factor_times_the_current_one() -> None:
    assert effective_priority(4.0, 0.25) == 1.0


def test_fresh_queues_share_by_the_inverses_of_their_factors() -> None:
    queues = [claimant(n, line(1000), factor=factor) for n, factor in enumerate((1.0, 2.0, 4.0))]
    assert counts(divide(queues, free=70)) == {0: 40, 1: 20, 2: 10}


def test_queues_that_used_more_get_less() -> None:
    queues = [claimant(0, line(1000), level=0.3), claimant(1, line(1000), level=0.1)]
    assert counts(divide(queues, free=60)) == {0: 20, 1: 40}


def test_the_lowest_effective_priority_is_first() -> None:
    queues = [claimant(0, line(9), level=0.3), claimant(1, line(9), factor=2.0, level=0.1)]
    assert counts(divide(queues, free=100, slots=1)) == {1: 1}


def test_room_unused_by_one_goes_to_the_others() -> None:
    queues = [claimant(0, line(5)), claimant(1, line(1000), factor=100.0)]
    assert counts(divide(queues, free=50)) == {0: 5, 1: 45}


def test_in_a_queue_priority_is_first_then_the_age_of_the_chain_then_the_id() -> None:
    urgent = WaitingLine(1, False, {}, 0.01, deque([order(9, priority=1)]), False)
    mixed = WaitingLine(2, False, {}, 0.01, deque([order(1), order(3)]), False)
    other = WaitingLine(3, True, {}, 0.01, deque([order(2)]), False)
    division = Division(
        [claimant(0, mixed, other, urgent)], place=lambda _: "", slots=9, retry_share=1.0
    )
    division.go_on()
    assert [grant.line.key for grant in division.grants] == [1, 2, 3, 2]


def test_a_session_that_fits_nowhere_hides_nothing_behind_it() -> None:
    queue = claimant(0, line(1000, 60), line(5, 2, at=5000))
    division = divide([queue], free=50)
    assert [grant.line.amounts[CPU] for grant in division.grants] == [2] * 5
    assert queue.waiting_lines[0].closed == CPU


def test_retries_leave_half_to_fresh_sessions_that_wait() -> None:
    def given_to_retries(retries: int, fresh: int, free: float, **held: float) -> int:
        waiting_lines = (line(retries, retry=True, key=1), line(fresh, key=2, at=5000))
        division = divide([claimant(0, *waiting_lines, **held)], free=free)
        assert len(division.grants) == min(free, retries + fresh)
        return sum(grant.line.retry for grant in division.grants)

    assert given_to_retries(100, 100, free=50) == 25
    assert given_to_retries(100, 5, free=50) == 45
    assert given_to_retries(10, 100, free=50) == 10
    # What its retries hold already counts, and of one slot a retry is worth more than none.
    assert given_to_retries(100, 100, free=10, held=0.1, held_by_retries=0.1) == 0
    assert given_to_retries(100, 100, free=10, held=0.1, held_by_retries=0.0) == 10
    assert given_to_retries(1, 1, free=1) == 1


def test_a_limit_holds_for_all_queues_that_share_it() -> None:
    shared = Limit("project", {CPU: Decimal(5)})
    queues = [claimant(n, line(100), limits=[shared]) for n in range(2)]
    queues.append(claimant(2, line(3)))
    assert counts(divide(queues, free=50)) == {0: 3, 1: 2, 2: 3}
    assert queues[0].waiting_lines[0].closed == "project: cpu"


def test_a_limit_that_is_exceeded_already_lets_nothing_through() -> None:
    limit = Limit("queue", {CPU: Decimal(-1)})
    assert limit.exceeded_by({CPU: Decimal(1)}) == CPU
    assert limit.exceeded_by({"memory": Decimal(1)}) is None
    assert limit.exceeded_by({CPU: Decimal(0)}) is None


def test_lines_are_read_on_when_it_is_not_known_who_is_next() -> None:
    queues = [claimant(n, line(2)) for n in range(2)]
    for each in queues:
        each.waiting_lines[0].more = True
    division = Division(queues, place=Pool(50).place, slots=10, retry_share=0.5)
    unread = division.go_on()
    assert unread == [each.waiting_lines[0] for each in queues]
    assert counts(division) == {0: 2, 1: 2}
    for some in unread:
        some.heads.extend(order(n) for n in range(50))
    while unread := division.go_on():
        for some in unread:
            some.more = False
    assert counts(division) == {0: 5, 1: 5}


class Wanted:
    """A queue as a property test draws it."""

    def __init__(self, factor: float, level: float, sizes: list[tuple[int, int]], cap: int | None):
        self.factor, self.level, self.sizes, self.cap = factor, level, sizes, cap

    def __repr__(self) -> str:
        return f"Wanted({self.factor}, {self.level}, {self.sizes}, {self.cap})"

    def claimant(self, number: int) -> Claimant:
        waiting_lines = [
            line(count, cpus, key=1000 * number + position)
            for position, (count, cpus) in enumerate(self.sizes, start=1)
        ]
        limits = [] if self.cap is None else [Limit("queue", {CPU: Decimal(self.cap)})]
        return claimant(number, *waiting_lines, factor=self.factor, level=self.level, limits=limits)


def wanted(sizes: Any, caps: Any) -> Any:
    return st.lists(
        st.builds(Wanted, st.floats(0.1, 10), shares, sizes, caps), min_size=1, max_size=5
    )


any_sizes = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=3)
one_size = st.integers(1, 60).map(lambda count: [(count, 1)])


@given(queues=wanted(any_sizes, st.none() | st.integers(0, 50)), free=st.integers(0, 100))
def test_nothing_is_left_that_somebody_could_use(queues: list[Wanted], free: int) -> None:
    claimants = [each.claimant(number) for number, each in enumerate(queues)]
    pool = Pool(free)
    Division(claimants, place=pool.place, slots=10**6, retry_share=0.5).go_on()
    for each in claimants:
        for waiting in each.waiting_lines:
            if waiting.heads:
                limited = any(limit.exceeded_by(waiting.amounts) for limit in each.limits)
                assert limited or waiting.amounts[CPU] > pool.free


@given(queues=wanted(any_sizes, st.integers(0, 50)), free=st.integers(0, 100))
def test_no_queue_is_above_its_limit(queues: list[Wanted], free: int) -> None:
    claimants = [each.claimant(number) for number, each in enumerate(queues)]
    division = divide(claimants, free)
    used: Counter[int] = Counter()
    for grant in division.grants:
        used[grant.claimant.queue] += int(grant.line.amounts[CPU])
    assert all(used[number] <= (each.cap or 0) for number, each in enumerate(queues))
    assert used.total() <= free


def ideal(queues: list[Wanted], free: float) -> list[float]:
    """Return the share of each if sessions were sand: the level to which all are filled, by
    bisection.

    Of a queue with factor f, level b and at most w of work, level L gives min(w, L / f - b).
    """
    most = [sum(count * cpus for count, cpus in each.sizes) / 100 for each in queues]
    caps = [
        work if each.cap is None else min(work, each.cap / 100)
        for work, each in zip(most, queues, strict=True)
    ]

    def filled(level: float) -> list[float]:
        return [
            min(cap, max(0.0, level / each.factor - each.level))
            for cap, each in zip(caps, queues, strict=True)
        ]

    low, high = 0.0, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(filled(middle)) < free / 100 else (low, middle)
    return filled(low)


@given(queues=wanted(one_size, st.none() | st.integers(0, 50)), free=st.integers(0, 100))
def test_shares_are_within_one_sessions_size_of_the_ideal(queues: list[Wanted], free: int) -> None:
    division = divide([each.claimant(number) for number, each in enumerate(queues)], free)
    got = counts(division)
    for number, share in enumerate(ideal(queues, free)):
        assert abs(got[number] / 100 - share) <= 0.01 + 1e-9


@pytest.mark.parametrize("at_once", [1, 20, 100], ids=lambda n: f"{n} of 100 slots at a time")
def test_shares_converge_to_the_inverses_of_the_factors(at_once: int) -> None:
    """However coarse the rounds are, and though one queue had everything at first."""
    factors, half_time, life = (1.0, 2.0, 4.0), 300.0, 100.0
    running: deque[int] = deque([2] * 100)
    levels = [FLOOR, FLOOR, 0.9]
    history: list[list[float]] = []
    step = life * at_once / 100
    for _ in range(int(5 * half_time / step)):
        for _ in range(at_once):
            running.popleft()
        held = [running.count(queue) / 100 for queue in range(3)]
        queues = [
            claimant(n, line(at_once), factor=factors[n], level=max(levels[n], held[n]))
            for n in range(3)
        ]
        running.extend(grant.claimant.queue for grant in divide(queues, at_once).grants)
        now = [running.count(queue) / 100 for queue in range(3)]
        levels = [current_priority(now[n], levels[n], step, half_time) for n in range(3)]
        history.append(now)
    last = history[-max(1, len(history) // 5) :]
    mean = [sum(each[n] for each in last) / len(last) for n in range(3)]
    assert mean == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.03)


def test_history_decides_between_queues_near_their_share() -> None:
    levels = levels_with_history({1: Standing(1, 0.51, 0.3), 2: Standing(1, 0.49, 0.7)}, left=1)
    assert levels[1] < levels[2]
    # By how much they had, not by when: both had less while nothing ran.
    levels = levels_with_history({1: Standing(1, 0.5, 0.02), 2: Standing(1, 0.5, 0.01)}, left=1)
    assert levels[1] > levels[2]


def test_history_says_nothing_of_a_queue_far_from_its_share() -> None:
    standings = {1: Standing(1, 0.39, 0.9), 2: Standing(1, 0.61, 0.0)}
    assert levels_with_history(standings, left=1) == {1: 0.39, 2: 0.61}
    standings = {1: Standing(1, 0.45, 0.9), 2: Standing(1, 0.61, 0.0)}
    assert levels_with_history(standings, left=1) == {1: 0.45, 2: 0.61}
    # Others hold 0.4, so the share of each is 0.3.
    assert levels_with_history(standings, left=0.6)[2] == 0.61


def test_queues_without_a_past_keep_their_proportions() -> None:
    standings = {n: Standing(n, 0.4 / n, 0.0) for n in (1, 2, 4)}
    levels = levels_with_history(standings, left=0.7)
    assert {n: n * level for n, level in levels.items()} == pytest.approx(
        dict.fromkeys(levels, 0.4)
    )


@given(
    st.dictionaries(
        st.integers(0, 9), st.builds(Standing, st.floats(0.1, 10), shares, shares), min_size=1
    ),
    shares,
)
def test_history_moves_nobody_out_of_the_neighbourhood_of_its_share(
    standings: dict[int, Standing], left: float
) -> None:
    weights = sum(1 / each.factor for each in standings.values())
    for queue, level in levels_with_history(standings, left).items():
        share, held = left / standings[queue].factor / weights, standings[queue].held
        assert level == max(held, FLOOR) or (
            abs(held - share) <= NEAR and abs(level - share) <= NEAR + FLOOR
        )


class Rounds:
    """A pool of equal places on a simulated clock. All queues always have work."""

    REFRESH = 15
    """Seconds between two times at which decayed priorities are stored."""

    def __init__(self, places: int, run: float, half_time: float):
        self.places, self.run, self.half_time = places, run, half_time
        self.now = 0.0
        self.ends: list[tuple[float, int]] = []
        self.stored: dict[int, tuple[float, float, float]] = {}
        self.step = 0.25

    def held(self, queue: int) -> float:
        return sum(each == queue for _, each in self.ends) / self.places

    def history(self, queue: int) -> float:
        at, spent, before = self.stored.get(queue, (self.now, 0.0, 0.0))
        return current_priority(spent, before, self.now - at, self.half_time)

    def round(self, queues: Sequence[int]) -> None:
        self.now += self.step
        self.ends = [(end, queue) for end, queue in self.ends if end > self.now]
        if self.now % self.REFRESH == 0:
            self.stored = {q: (self.now, self.held(q), self.history(q)) for q in (0, 1)}
        levels = levels_with_history(
            {q: Standing(1.0, self.held(q), self.history(q)) for q in queues}, left=1.0
        )
        size = 1 / self.places
        claimants = [
            Claimant(q, 1.0, levels[q], [
                WaitingLine(q, False, {}, size, deque(order(n) for n in range(self.places)))
            ])
            for q in queues
        ]  # fmt: skip
        free = self.places - len(self.ends)
        division = Division(claimants, place=lambda _: "", slots=free, retry_share=1.0)
        assert division.go_on() == []
        for grant in division.grants:
            # Some last a little longer, so that their ends spread out.
            longer = 1 + 0.1 * (hash((self.now, len(self.ends))) % 10) / 10
            self.ends.append((self.now + self.run * longer, grant.claimant.queue))


@pytest.mark.parametrize("half_time", [20.0, 300.0])
@pytest.mark.parametrize("places", [16, 100])
def test_the_shares_of_two_equal_queues_do_not_swing(places: int, half_time: float) -> None:
    """One has the pool for itself for a while; then another one comes."""
    pool = Rounds(places, run=5.0, half_time=half_time)
    while pool.now < 10 * 60:
        pool.round([0])
    came = pool.now
    windows: dict[int, list[tuple[float, float]]] = {}
    while pool.now < came + 10 * 60:
        pool.round([0, 1])
        windows.setdefault(int((pool.now - came) // 5), []).append((pool.held(0), pool.held(1)))
    for number, seen in windows.items():
        means = [sum(each) / len(seen) for each in zip(*seen, strict=True)]
        if number >= 3:
            assert means == pytest.approx([0.5, 0.5], abs=0.1), f"{5 * number} s after it came"
