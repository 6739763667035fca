"""The model of the benchmark of fair share: who gets free room, and for whom a node is kept."""

from collections import Counter
from itertools import islice

import pytest

from benchmarks.share_model import Job, Model, jobs, share

LONG = Job(1, 100.0)


def filled(*counts: tuple[str, int], factors: dict[str, float], nodes: int = 1) -> Counter[str]:
    """What queues hold after one step, by the sessions of one CPU that they submitted."""
    model = Model([10] * nodes, factors, starved_after=5.0)
    for queue, count in counts:
        for _ in range(count):
            model.submit(queue, LONG, 0.0)
    model.step(0.0)
    return model.held


def test_queues_hold_what_the_inverses_of_their_factors_say() -> None:
    both = ("a", 50), ("b", 50)
    assert filled(*both, factors={"a": 1.0, "b": 1.0}) == {"a": 5, "b": 5}
    assert filled(*both, factors={"a": 1.0, "b": 4.0}) == {"a": 8, "b": 2}


def test_what_a_queue_cannot_use_goes_to_the_others() -> None:
    assert filled(("a", 50), ("b", 2), factors={"a": 1.0, "b": 1.0}) == {"a": 8, "b": 2}


def test_smaller_sessions_go_first_while_there_is_no_room_for_the_oldest() -> None:
    model = Model([10], {"a": 1.0}, starved_after=5.0)
    for cpus in (6, 6, 4, 4):
        model.submit("a", Job(cpus, 2.0), 0.0)
    model.step(0.0)
    assert model.held == {"a": 10}
    model.step(2.0)
    assert model.held == {"a": 10}, "the second large one and the second small one"
    assert model.waiting("a") == 0


def test_a_starved_session_gets_a_node_and_others_stay_away_from_it() -> None:
    model = Model([4, 4], {"small": 1.0, "large": 1.0}, starved_after=5.0)
    for second in range(20):
        for cpus in range(8):
            model.submit("small", Job(1, 2.0 + cpus % 3), second)
        if second == 2:
            model.submit("large", Job(4, 30.0), second)
        model.step(second)
    # Starved at 7; what ran on the node by then takes 4 s at most.
    assert 7.0 < model.started["large"] <= 11.0
    assert model.held == {"small": 4, "large": 4}


def test_at_most_a_quarter_of_the_nodes_is_reserved() -> None:
    model = Model([4] * 8, {"small": 1.0, "x": 1.0, "y": 1.0, "z": 1.0}, starved_after=0.0)
    for number in range(32):
        model.submit("small", Job(1, 5.0 if number % 2 else 20.0), 0.0)
    model.step(0.0)
    for queue in "xyz":
        model.submit(queue, Job(4, 10.0), 1.0)
    model.step(1.0)
    for _ in range(32):
        model.submit("small", LONG, 5.0)
    model.step(5.0)
    assert model.held["small"] == 6 * 4 + 2 * 2
    model.step(20.0)
    assert [model.held[queue] for queue in "xyz"] == [4, 4, 0]


def test_shares_hold_while_everything_that_waits_is_starved() -> None:
    factors = {"a": 1.0, "b": 8.0, "c": 8.0, "d": 8.0, "e": 8.0}
    model = Model([8] * 3, factors, starved_after=0.0)
    coming = {queue: jobs(queue, {1: 1}, 10.0) for queue in factors}
    series = []
    for second in range(100):
        for queue, each in coming.items():
            for job in islice(each, 24 - model.waiting(queue)):
                model.submit(queue, job, second)
        model.step(second)
        series.append((float(second), Counter(model.held)))
    shares = [share(series, queue, 10.0, 100.0) for queue in factors]
    assert shares == pytest.approx([16 / 24, *[2 / 24] * 4], abs=0.01)


def test_nothing_waits_or_is_reserved_for_a_queue_that_left() -> None:
    model = Model([4], {"small": 1.0, "large": 1.0}, starved_after=0.0)
    for _ in range(4):
        model.submit("small", Job(1, 2.0), 0.0)
    model.step(0.0)
    model.submit("large", Job(4, 2.0), 1.0)
    model.step(1.0)
    model.leave("large")
    model.submit("small", Job(1, 2.0), 2.0)
    model.step(2.0)
    assert model.held["small"] == 1
    assert model.waiting("large") == 0


def test_the_sessions_of_a_queue_are_always_the_same() -> None:
    sizes = {1: 3, 32: 1}
    first, again = (list(islice(jobs("a", sizes, 10.0), 400)) for _ in range(2))
    assert first == again != list(islice(jobs("b", sizes, 10.0), 400))
    assert {job.cpus for job in first} == {1, 32}
    assert 60 <= sum(job.cpus == 32 for job in first) <= 140
    assert all(7.0 <= job.seconds <= 10.0 for job in first)


def test_a_share_is_of_what_is_held_and_weighs_time() -> None:
    series = [(0.0, {"a": 1, "b": 1}), (1.0, {"a": 3, "b": 1}), (4.0, {"b": 2})]
    assert share(series, "a", 0.0, 1.0) == 0.5
    assert share(series, "a", 0.0, 4.0) == pytest.approx((0.5 + 3 * 0.75) / 4)
    assert share(series, "a", 3.0, 5.0) == pytest.approx(0.75 / 2)
    assert share(series, "b", 4.0, 9.0) == 1.0
    with pytest.raises(ValueError, match="nothing ran between"):
        share([(0.0, {}), (1.0, {"a": 1})], "a", 0.0, 1.0)
