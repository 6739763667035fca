"""Plans of preemption: enough, nothing in vain, in the order that is promised."""

from collections import Counter
from decimal import Decimal
from itertools import combinations
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.fit import Ask, Opening
from scheduler.core.preemption import (
    SURPLUS,
    Place,
    Plan,
    Running,
    Shares,
    Taker,
    fits_after,
    plan_by_priority,
    plan_by_share,
    queues_below,
    shares,
)
from scheduler.core.preemption_plans import FAIR_SHARE, PRIORITY, Plans, Rate

NODES = ("a", "b", "c")
WHOLE = 8
NO_SHARES = Shares({}, {})


def cpus(count: int) -> dict[str, Decimal]:
    return {"cpu": Decimal(count)}


def run(  # the facts of a session
    number: int, *nodes: str, cpu: int = 1, rank: int = 0, queue: int = 1, lost: float = 0.0
) -> Running:
    ask = Ask(cpus(cpu), len(nodes))
    return Running(UUID(int=number), queue, rank, ask, nodes, cpu * len(nodes) / 24, lost)


def taker(cpu: int, pods: int = 1, *, rank: int = 5, queue: int = 9) -> Taker:
    return Taker(queue, rank, Ask(cpus(cpu), pods), cpu * pods / 24)


def room(running: list[Running]) -> dict[str, Opening]:
    used = dict.fromkeys(NODES, 0)
    for each in running:
        for name in each.nodes:
            used[name] += int(each.ask.amounts["cpu"])
    return {name: Opening(cpus(WHOLE - used[name]), 100) for name in NODES}


def ids(plan: Plan | None) -> list[int]:
    assert plan is not None
    return sorted(each.id.int for each in plan.victims)


def test_the_lowest_class_gives_first() -> None:
    running = [run(1, "a", cpu=8, rank=1), run(2, "b", cpu=8), run(3, "c", cpu=8, rank=2)]
    assert ids(plan_by_priority(taker(8), running, Place(room(running)), NO_SHARES)) == [2]


def test_then_the_queue_furthest_above_its_share_then_the_least_work() -> None:
    running = [
        run(1, "a", cpu=4, queue=1, lost=1),
        run(2, "a", cpu=4, queue=2, lost=9),
        run(3, "b", cpu=8, queue=2, lost=99),
        run(4, "c", cpu=8, queue=2, lost=98),
    ]
    held = Shares({1: 0.2, 2: 0.8}, {1: 0.5, 2: 0.5})
    assert ids(plan_by_priority(taker(4), running, Place(room(running)), held)) == [2]
    assert ids(plan_by_priority(taker(8), running, Place(room(running)), held)) == [4]


def test_one_node_will_do_before_several_and_a_gang_gives_all_of_it() -> None:
    running = [run(1, "a", "b", cpu=8, lost=50), run(2, "c", cpu=8, lost=400)]
    plan = plan_by_priority(taker(4, 2), running, Place(room(running)), NO_SHARES)
    assert plan is not None
    assert ids(plan) == [1]
    assert len(plan.nodes) == 1
    many = plan_by_priority(taker(8, 3), running, Place(room(running)), NO_SHARES)
    assert ids(many) == [1, 2]


def test_one_large_session_gives_before_many_small_ones_that_are_as_old() -> None:
    others = [run(n, name, cpu=8, rank=9) for n, name in ((90, "b"), (91, "c"))]
    for small, victims in ((10.0, [1]), (2.0, [2, 3, 4, 5])):
        running = [run(1, "a", cpu=4, lost=11), *(run(n, "a", lost=small) for n in range(2, 6))]
        everybody = [*running, *others]
        assert (
            ids(plan_by_priority(taker(4), everybody, Place(room(everybody)), NO_SHARES)) == victims
        )


def test_a_plan_loses_little_more_than_the_least() -> None:
    random, lost, least = Random(1), 0.0, 0.0  # repeatable on purpose
    for _ in range(200):
        running = _crowded(random)
        wanted = random.choice((2, 4, 6))
        plan = plan_by_priority(taker(wanted), running, Place(room(running)), NO_SHARES)
        assert plan is not None
        lost += sum(each.lost for each in plan.victims)
        least += min(
            sum(each.lost for each in chosen)
            for name in NODES
            for there in [[each for each in running if each.nodes == (name,)]]
            for count in range(len(there) + 1)
            for chosen in combinations(there, count)
            if fits_after(taker(wanted).ask, chosen, {name: room(running)[name]})
        )
    assert lost <= 1.02 * least


def _crowded(random: Random) -> list[Running]:
    """Sessions of many sizes that are about as old, on almost full nodes."""
    free, running = dict.fromkeys(NODES, WHOLE), []
    for number in range(1, 60):
        node, cpu = random.choice(NODES), random.choice((1, 1, 2, 4))
        if free[node] >= cpu:
            free[node] -= cpu
            running.append(run(number, node, cpu=cpu, lost=random.uniform(28, 30)))
    return running


def test_nothing_is_taken_if_it_would_not_be_enough() -> None:
    running = [run(1, "a", cpu=8, rank=9), run(2, "b", cpu=8, rank=5), run(3, "c", cpu=8)]
    assert plan_by_priority(taker(8, 2), running, Place(room(running)), NO_SHARES) is None


def test_a_queue_gives_back_only_what_is_above_its_share() -> None:
    running = [run(n, "abc"[n % 3], cpu=4, queue=1) for n in range(6)]
    held = shares({1: 1.0, 9: 1.0}, {1: 1.0})
    assert len(ids(plan_by_share(taker(8), running, Place(room(running)), held))) == 2
    assert (
        plan_by_share(taker(8, 2), running, Place(room(running)), held) is None
    )  # above its own share
    near = Shares({1: 0.54}, {1: 0.5, 9: 0.5})
    assert plan_by_share(taker(4), running, Place(room(running)), near) is None
    assert plan_by_share(taker(4, rank=-1), running, Place(room(running)), held) is None


def test_queues_without_their_share_are_found() -> None:
    held = shares({1: 1.0, 2: 1.0, 3: 2.0}, {1: 0.31, 2: 0.9})
    assert queues_below(held, [1, 2, 3], 0.8) == {1, 3}
    assert queues_below(held, [2], 0.8) == set()


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Running], Taker, Shares]:
    free = dict.fromkeys(NODES, WHOLE)
    running = []
    for number in range(draw(st.integers(0, 8))):
        nodes = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True))
        cpu = draw(st.integers(1, WHOLE))
        if any(free[name] < cpu for name in nodes):
            continue
        for name in nodes:
            free[name] -= cpu
        rank, queue = draw(st.integers(-1, 2)), draw(st.integers(1, 3))
        lost = draw(st.floats(0, 100))
        running.append(run(number, *nodes, cpu=cpu, rank=rank, queue=queue, lost=lost))
    wanted = taker(
        draw(st.integers(1, WHOLE)),
        draw(st.integers(1, 3)),
        rank=draw(st.integers(-1, 2)),
        queue=draw(st.integers(1, 4)),
    )
    held: dict[int, float] = {}
    for each in running:
        held[each.queue] = held.get(each.queue, 0.0) + each.size
    return running, wanted, shares(dict.fromkeys((1, 2, 3, 4), 1.0), held)


def _is_whole_and_needed(plan: Plan, wanted: Taker, running: list[Running]) -> None:
    openings = {name: each for name, each in room(running).items() if name in plan.nodes}
    assert fits_after(wanted.ask, plan.victims, openings)
    for each in plan.victims:
        rest = [other for other in plan.victims if other is not each]
        assert not fits_after(wanted.ask, rest, openings)


@given(clusters())
def test_a_plan_by_priority_is_enough_and_takes_from_lower_classes_only(
    world: tuple[list[Running], Taker, Shares],
) -> None:
    running, wanted, held = world
    plan = plan_by_priority(wanted, running, Place(room(running)), held)
    lower = [each for each in running if each.rank < wanted.rank]
    if plan is None:
        assert not fits_after(wanted.ask, lower, room(running))
    else:
        assert all(each in lower for each in plan.victims)
        _is_whole_and_needed(plan, wanted, running)


@given(clusters())
def test_a_plan_by_share_leaves_all_queues_their_share(
    world: tuple[list[Running], Taker, Shares],
) -> None:
    running, wanted, held = world
    plan = plan_by_share(wanted, running, Place(room(running)), held)
    if plan is None:
        return
    _is_whole_and_needed(plan, wanted, running)
    taken = held.held.get(wanted.queue, 0.0) + wanted.size
    assert taken <= SURPLUS * held.fair[wanted.queue]
    for queue, fair in held.fair.items():
        given_back = sum(each.size for each in plan.victims if each.queue == queue)
        assert not given_back or held.held[queue] - given_back >= fair - 1e-9
    assert all(each.rank <= wanted.rank for each in plan.victims)


@given(clusters(), st.integers(-1, 3), st.integers(1, 6))
def test_plans_one_after_the_other_hold_together(
    world: tuple[list[Running], Taker, Shares], slots: int, count: int
) -> None:
    running, wanted, held = world
    plans, made = Plans(running, held, slots), list[Plan]()
    for _ in range(count):
        plan = plans.plan(wanted, FAIR_SHARE, room(running))
        if plan is None:
            break
        plans.book(wanted, plan)
        made.append(plan)
    gone = [each.id for plan in made for each in plan.victims]
    assert len(gone) == len(set(gone))
    assert not made or slots + len(gone) >= len(made)
    for queue, fair in held.fair.items():
        given_back = sum(each.size for each in running if each.id in gone and each.queue == queue)
        assert not given_back or held.held[queue] - given_back >= fair - 1e-9
    if made:
        assert held.held.get(wanted.queue, 0.0) + len(made) * wanted.size <= 1.1 * 0.25 + 1e-9
    if wanted.ask.pods == 1:
        left = room([each for each in running if each.id not in gone])
        taken = Counter(plan.nodes[0] for plan in made)
        for name, times in taken.items():
            assert left[name].holds(Ask(wanted.ask.amounts, times), {}, 0) == times


def test_the_room_that_one_taker_gets_is_not_planned_for_the_next() -> None:
    running = [run(1, "a", cpu=8, lost=1), run(2, "b", cpu=8, lost=2), run(3, "c", cpu=8, lost=3)]
    plans, before = Plans(running, NO_SHARES, 100), room(running)
    for victim in (1, 2, 3):
        plan = plans.plan(taker(8), PRIORITY, before)
        assert ids(plan) == [victim]
        assert plan is not None
        plans.book(taker(8), plan)
    assert plans.plan(taker(8), PRIORITY, before) is None


def test_a_session_that_lacks_a_slot_only_takes_that_of_the_first_in_order() -> None:
    running = [run(1, "a", lost=9), run(2, "b", lost=1), run(3, lost=0.5)]
    place = Place(room(running), slots=0)
    assert ids(plan_by_priority(taker(1), running, place, NO_SHARES)) == [3], "on no known node"
    short = place._replace(slots=-1)
    assert ids(plan_by_priority(taker(1), running, short, NO_SHARES)) == [2, 3]
    assert plan_by_priority(taker(1), running, place._replace(slots=-3), NO_SHARES) is None


def test_victims_on_a_node_count_as_slots_too() -> None:
    running = [run(1, "a", cpu=8, lost=5), run(2, "b", cpu=8, lost=9), run(3, "c", cpu=8, lost=9)]
    place = Place(room(running), slots=0)
    assert ids(plan_by_priority(taker(8), running, place, NO_SHARES)) == [1]


def test_a_rate_always_lets_one_plan_pass() -> None:
    rate = Rate(0, 3.2)
    assert (rate.allows(50), rate.left, rate.used_up) == (True, 3, False)
    later = rate.after(2)
    assert (later.allows(1), later.allows(2), later.left) == (True, False, 1)
    assert later.after(1).used_up
    assert not Rate(0, 0.5).used_up
    assert Rate(1, 0.5).used_up
