"""Suspect nodes: those that fail more than the same work elsewhere, and no others."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.suspects import (
    LONGEST,
    SHORTEST,
    Group,
    Verdict,
    binomial_tail,
    judge,
    lasting,
    most_out,
    worst,
)

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
Attempt = tuple[int, int, int, bool]
"""A node, a job set, a chain, and whether it failed."""


def groups_of(attempts: Iterable[Attempt]) -> dict[int, list[Group]]:
    """What is compared of each node, counted naively."""
    here: Counter[tuple[int, int]] = Counter()
    failed: Counter[tuple[int, int]] = Counter()
    chains: dict[tuple[int, int], set[int]] = defaultdict(set)
    all_of: Counter[int] = Counter()
    failed_of: Counter[int] = Counter()
    for node, job_set, chain, failure in attempts:
        at = node, job_set
        here[at] += 1
        all_of[job_set] += 1
        if failure:
            failed[at] += 1
            failed_of[job_set] += 1
            chains[at].add(chain)
    found: dict[int, list[Group]] = defaultdict(list)
    for (node, job_set), count in here.items():
        bad = failed[node, job_set]
        elsewhere = all_of[job_set] - count, failed_of[job_set] - bad
        found[node].append(Group(count, bad, len(chains[node, job_set]), *elsewhere))
    return found


def suspects(attempts: Iterable[Attempt], nodes: int) -> set[int]:
    return {
        node for node, groups in groups_of(attempts).items() if judge(groups, nodes) is not None
    }


def newest(attempts: list[Attempt]) -> list[Attempt]:
    """The newest 200 of each node."""
    seen: Counter[int] = Counter()
    kept = []
    for attempt in reversed(attempts):
        seen[attempt[0]] += 1
        if seen[attempt[0]] <= 200:
            kept.append(attempt)
    return kept


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("job_sets", [1, 50])
@pytest.mark.parametrize("usual", [0.02, 0.2, 0.4])
def test_bad_nodes_are_found_and_no_others(seed: int, job_sets: int, usual: float) -> None:
    random = Random(seed)
    bad = set(random.sample(range(200), 5))
    attempts = []
    # Where much fails, it takes more attempts to tell.
    for chain in range(10_000 if usual < 0.1 else 25_000):
        for _ in range(3):
            node = random.randrange(200)
            failure = random.random() < (0.8 if node in bad else usual)
            attempts.append((node, chain % job_sets, chain, failure))
            if not failure:
                break
    assert suspects(newest(attempts), 200) == bad


@pytest.mark.parametrize("seed", range(5))
def test_broken_job_sets_that_are_packed_on_two_nodes_convict_nobody(seed: int) -> None:
    random = Random(seed)
    attempts = []
    for job_set in range(200):
        broken = job_set % 10 == 0
        on = random.sample(range(200), 2 if broken else 20)
        attempts += [
            (random.choice(on), job_set, job_set * 50 + chain, broken or random.random() < 0.02)
            for chain in range(50)
        ]
    random.shuffle(attempts)
    assert len(suspects(newest(attempts), 200)) <= 1


def test_what_ran_nowhere_else_counts_for_nothing() -> None:
    assert judge([Group(100, 100, 100, 0, 0)], 2) is None
    good = Group(100, 1, 1, 1000, 10)
    assert judge([Group(100, 100, 100, 0, 0), good], 2) is None


@pytest.mark.parametrize(
    ("failures", "chains", "elsewhere_failures", "suspect"),
    [
        (5, 3, 0, True),
        (4, 4, 0, False),  # too few failures
        (5, 2, 0, False),  # too few chains
        (60, 60, 126, False),  # less than three times the expected odds
        (60, 60, 120, True),
    ],
)
def test_each_threshold(failures: int, chains: int, elsewhere_failures: int, suspect: bool) -> None:
    found = judge([Group(200, failures, chains, 1000, elsewhere_failures)], 1)
    assert (found is not None) == suspect


def test_a_node_can_be_suspect_where_much_fails() -> None:
    """170 of 200 are more than three times 54 by the odds only."""
    assert judge([Group(200, 170, 150, 5000, 1350)], 200) is not None
    assert judge([Group(200, 100, 90, 5000, 1350)], 200) is None
    assert judge([Group(200, 200, 150, 5000, 4000)], 200) is not None


def test_more_nodes_ask_for_more_evidence() -> None:
    groups = [Group(10, 5, 5, 998, 109)]  # 1.1 expected
    assert judge(groups, 1) is None
    groups = [Group(10, 5, 5, 998, 49)]  # 0.5 expected: a tail of 6.4e-5
    assert judge(groups, 15) is not None
    assert judge(groups, 16) is None


@given(st.integers(0, 80), st.integers(1, 60), st.floats(0.001, 0.999))
def test_the_tail_is_that_of_the_sum(count: int, attempts: int, rate: float) -> None:
    terms = [
        math.comb(attempts, n) * rate**n * (1 - rate) ** (attempts - n)
        for n in range(count, attempts + 1)
    ]
    found = binomial_tail(count, attempts, rate)
    assert found == pytest.approx(math.fsum(terms), rel=1e-6, abs=1e-12)


def test_the_ends_of_the_tail() -> None:
    assert binomial_tail(0, 5, 0.0) == binomial_tail(5, 5, 1.0) == 1.0
    assert binomial_tail(3, 5, 0.0) == binomial_tail(6, 5, 1.0) == 0.0
    assert 0 <= binomial_tail(200, 200, 0.01) < 1e-300


@pytest.mark.parametrize(
    ("nodes", "most"), [(0, 0), (1, 0), (2, 1), (5, 1), (9, 1), (10, 2), (200, 40)]
)
def test_at_most_a_fifth_is_out_and_never_the_only_node(nodes: int, most: int) -> None:
    assert most_out(nodes) == most


def test_the_worst_go_first() -> None:
    def verdict(expected: float) -> Verdict:
        return Verdict(20, 10, 5, expected)

    found = [("c", verdict(2.0)), ("b", verdict(1.0)), ("a", verdict(1.0))]
    assert [name for name, _ in worst(found, 2)] == ["a", "b"]
    assert worst(found, 0) == worst(found, -1) == []


def test_a_node_that_is_suspected_again_stays_so_twice_as_long() -> None:
    assert lasting(None, None, NOW) == SHORTEST
    lately, long_ago = NOW - timedelta(hours=23), NOW - timedelta(hours=25)
    assert lasting(SHORTEST, lately, NOW) == 2 * SHORTEST
    assert lasting(SHORTEST, long_ago, NOW) == SHORTEST
    assert lasting(timedelta(hours=16), lately, NOW) == LONGEST


def test_the_reason_says_what_was_counted() -> None:
    assert Verdict(20, 18, 12, 0.44).reason == (
        "18 of 20 attempts failed, of 12 chains; 0.4 failures were to be expected, as the same "
        "job sets fare on other nodes"
    )
