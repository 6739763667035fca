"""The model of the benchmark of preemption: what is needless, and the least that can be lost."""

from itertools import combinations
from random import Random
from uuid import UUID

from benchmarks.played_cluster import CPUS
from benchmarks.preemption import Plan, Run, Running, held, least_loss, needless, places, unfair

NODES = ("a", "b")
NOW = 100.0


def cluster(*runs: Run) -> Running:
    return {UUID(int=number): run for number, run in enumerate(runs, 1)}


def run(cpus: int, *, node: str = "a", lost: float = 1.0, queue: str = "busy") -> Run:
    return Run(queue, cpus, node, NOW - lost)


def plan(running: Running, *victims: int) -> Plan:
    return Plan(UUID(int=99), [UUID(int=each) for each in victims], running, NOW)


FULL = cluster(run(16), run(12), run(4), run(CPUS, node="b"))


def test_victims_are_needless_if_it_would_have_been_enough_without_them() -> None:
    assert needless([plan(FULL, 1)], 16, NODES) == []
    assert needless([plan(FULL, 1, 3)], 16, NODES) == [UUID(int=3)]
    assert needless([plan(FULL, 2, 3)], 16, NODES) == []
    assert needless([plan(FULL, 1, 4)], 16, NODES) == [UUID(int=1), UUID(int=4)], "either will do"


def test_all_are_needless_if_it_was_not_enough_or_there_was_room() -> None:
    assert needless([plan(FULL, 2)], 16, NODES) == [UUID(int=2)]
    half = cluster(run(16), run(CPUS, node="b"))
    assert needless([plan(half, 1)], 16, NODES) == [UUID(int=1)]


def test_what_queues_hold() -> None:
    running = cluster(run(4), run(8, queue="other"), run(1))
    assert held(running) == {"busy": 5, "other": 8}
    assert held(running, {UUID(int=1)}) == {"busy": 1, "other": 8}


def test_the_least_loss_is_that_of_the_best_of_all_sets() -> None:
    random = Random(3)  # repeatable on purpose
    for _ in range(30):
        free, runs = dict.fromkeys(NODES, CPUS), []
        for _ in range(9):
            node, cpus = random.choice(NODES), random.choice((4, 8, 12))
            if free[node] >= cpus:
                free[node] -= cpus
                runs.append(run(cpus, node=node, lost=random.uniform(1, 50)))
        running, wanted = cluster(*runs), random.choice((8, 20, 32))
        losses = [
            sum(NOW - running[key].since for key in gone)
            for count in range(len(running) + 1)
            for gone in combinations(running, count)
            if places(wanted, running, NODES, gone)
        ]
        assert abs(least_loss(wanted, runs, NODES, NOW) - min(losses)) < 1e-9


def test_plans_of_one_sweep_are_judged_together() -> None:
    full = cluster(*[run(4)] * 8, run(CPUS, node="b"))
    three = [plan(full, 1), plan(full, 2), plan(full, 3)]
    assert needless(three, 4, NODES) == []
    assert needless(three, 2, NODES) == [UUID(int=1), UUID(int=2), UUID(int=3)], "any two will do"
    assert needless([plan(full, 1), plan(full)], 4, NODES) == [UUID(int=1)], "one is not enough"


def test_a_sweep_that_goes_on_beyond_the_shares_is_unfair() -> None:
    running = cluster(*[run(8, queue="early")] * 8)
    plans = [plan(running, each) for each in range(1, 5)]
    assert unfair(plans[:3], 8, 32) == 0
    assert unfair(plans[:4], 8, 32) == 0
    assert unfair(plans[:4], 10, 32) == 1, "the queue that takes has 30 of 32 by then"
    assert unfair([plan(running, 1, 2, 3, 4, 5)], 8, 32) == 5, "the other one falls to 24"
    assert unfair(plans, 8, 58) == 4, "it does not have 1.1 of its share"
