from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.resources import requested, total
from scheduler.core.fit import ANOTHER_NODE, ONE_NODE, OTHERS, PODS, Ask, Misfit, Room
from scheduler.core.node_rules import node_rules

NODES = [
    {"allocatable": {"cpu": "2", "memory": "4Gi"}},
    {"allocatable": {"cpu": "4", "memory": "1Gi"}},
]
GIB = Decimal(2**30)
requests = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.integers(0, 8).map(Decimal), max_size=2
)


def test_plain_amounts_and_requests_are_read() -> None:
    assert requested({"cpu": "500m"}) == {"cpu": Decimal("0.5")}
    assert requested({}) == {}
    nested = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert requested(nested) == {"cpu": 1, "memory": GIB}
    assert requested({"requests": None, "limits": {"cpu": "3"}}) == {"cpu": 3}


def test_amounts_add_up_by_resource() -> None:
    assert total([]) == {}
    assert total([{"cpu": Decimal(1)}, {"cpu": Decimal(2), "gpu": Decimal(1)}]) == {
        "cpu": 3,
        "gpu": 1,
    }


@pytest.mark.parametrize(
    ("wanted", "misfit"),
    [
        ({}, None),
        ({"cpu": "4"}, None),
        ({"cpu": "4001m"}, Misfit("cpu", Decimal("4.001"), Decimal(4), ever=False)),
        ({"memory": "5Gi"}, Misfit("memory", 5 * GIB, 4 * GIB, ever=False)),
        ({"nvidia.com/gpu": "1"}, Misfit("nvidia.com/gpu", Decimal(1), Decimal(0), ever=False)),
        ({"ephemeral-storage": "1Ti"}, None),
    ],
)
def test_a_session_that_no_node_could_hold_never_fits(
    wanted: dict[str, str], misfit: Misfit | None
) -> None:
    assert Room(NODES, []).misfit(requested(wanted)) == misfit


def test_held_amounts_are_not_free() -> None:
    room = Room(NODES, [{"cpu": Decimal(3)}])
    assert room.misfit({"cpu": Decimal(3)}) is None
    room.take({"cpu": Decimal(1)})
    assert room.misfit({"cpu": Decimal(3)}) == Misfit("cpu", Decimal(3), Decimal(2), ever=True)


def test_the_first_misfit_by_name_is_told() -> None:
    misfit = Room([], []).misfit({"memory": Decimal(1), "cpu": Decimal(1)})
    assert misfit is not None
    assert misfit.resource == "cpu"


def test_a_permanent_misfit_is_told_before_a_temporary_one() -> None:
    room = Room(NODES, [{"cpu": Decimal(6)}])
    wanted = {"cpu": Decimal(1), "memory": 5 * GIB}
    assert room.misfit(wanted) == Misfit("memory", 5 * GIB, 4 * GIB, ever=False)


NOWHERE_ELSE = Misfit(ANOTHER_NODE, Decimal(1), Decimal(0), ever=False)


@pytest.mark.parametrize(
    ("nodes", "wanted", "avoid", "misfit"),
    [
        ({"a": {"cpu": "4"}}, {"cpu": "1"}, "a", NOWHERE_ELSE),
        ({"a": {"cpu": "4"}}, {}, "a", NOWHERE_ELSE),
        ({"a": {"cpu": "4"}}, {"cpu": "1"}, "elsewhere", None),
        ({}, {}, "a", None),
        ({"a": {"cpu": "4"}, "b": {"cpu": "4"}}, {"cpu": "4"}, "a", None),
        ({"a": {"cpu": "4"}, "b": {"cpu": "2"}}, {"cpu": "4"}, "a", NOWHERE_ELSE),
        ({"a": {"cpu": "4"}, "b": {"cpu": "2"}}, {"cpu": "4"}, "b", None),
        ({"a": {"cpu": "4"}, "b": {}}, {"ephemeral-storage": "1Ti"}, "a", None),
        # No other node has both.
        (
            {"a": {"cpu": "9", "gpu": "9"}, "b": {"cpu": "4"}, "c": {"gpu": "4"}},
            {"cpu": "4", "gpu": "4"},
            "a",
            NOWHERE_ELSE,
        ),
        # What no node has is told as such.
        (
            {"a": {"cpu": "4"}},
            {"cpu": "5"},
            "a",
            Misfit("cpu", Decimal(5), Decimal(4), ever=False),
        ),
    ],
)
def test_a_node_that_is_avoided_does_not_count(
    nodes: dict[str, dict[str, str]], wanted: dict[str, str], avoid: str, misfit: Misfit | None
) -> None:
    room = Room([{"name": name, "allocatable": has} for name, has in nodes.items()], [])
    assert room.misfit(requested(wanted), avoid) == misfit


def test_other_nodes_may_have_no_room_just_now() -> None:
    nodes = [{"name": name, "allocatable": {"cpu": "4"}} for name in "ab"]
    room = Room(nodes, [{"cpu": Decimal(6)}])
    wanted = {"cpu": Decimal(4)}
    assert room.misfit(wanted, "a") == Misfit("cpu", Decimal(4), Decimal(2), ever=True)


@given(nodes=st.dictionaries(st.sampled_from("abc"), requests, min_size=1), wanted=requests)
def test_avoiding_is_as_if_the_node_were_not_there(
    nodes: dict[str, dict[str, Decimal]], wanted: dict[str, Decimal]
) -> None:
    whole = {name: {r: int(value) for r, value in has.items()} for name, has in nodes.items()}
    listed = [{"name": name, "allocatable": has} for name, has in whole.items()]
    for avoid in nodes:
        others = [has for name, has in whole.items() if name != avoid]
        held = any(all(has.get(r, 0) >= value for r, value in wanted.items()) for has in others)
        assert (Room(listed, []).misfit(wanted, avoid) is None) == held


@given(wishes=st.lists(requests, max_size=10))
def test_no_more_is_granted_than_there_is(wishes: list[dict[str, Decimal]]) -> None:
    room = Room([{"allocatable": {"cpu": 8, "memory": 8}}], [])
    granted = []
    for wish in wishes:
        if room.misfit(wish) is None:
            room.take(wish)
            granted.append(wish)
    assert all(amount <= 8 for amount in total(granted).values())


FOUR_AND_TWO = [
    {"name": "a", "allocatable": {"cpu": "4"}},
    {"name": "b", "allocatable": {"cpu": 2}},
]


def cpus(number: int, pods: int = 1, **spec: object) -> Ask:
    return Ask({"cpu": Decimal(number)}, pods, node_rules(spec))


def test_room_on_two_nodes_is_not_room_on_one() -> None:
    room = Room([{"allocatable": {"cpu": 4}}, {"allocatable": {"cpu": 4}}], [])
    room.take(cpus(3))
    room.take(cpus(3))
    assert room.misfit(cpus(2)) == Misfit("cpu", Decimal(2), Decimal(1), ever=True)
    assert room.misfit(cpus(1)) is None


def test_usage_on_a_known_node_is_taken_there() -> None:
    room = Room(FOUR_AND_TWO, [])
    room.take(cpus(2), nodes=["b"])
    assert room.misfit(cpus(4)) is None
    room.take(cpus(1), nodes=["a"])
    assert room.misfit(cpus(4)) == Misfit("cpu", Decimal(4), Decimal(3), ever=True)


def test_no_node_has_enough_of_everything() -> None:
    room = Room([{"allocatable": {"cpu": 9}}, {"allocatable": {"gpu": 9}}], [])
    wanted = {"cpu": Decimal(1), "gpu": Decimal(1)}
    assert room.misfit(wanted) == Misfit(ONE_NODE, Decimal(1), Decimal(0), ever=False)


def test_all_pods_of_a_cluster_session_fit_or_none() -> None:
    room = Room(FOUR_AND_TWO, [])
    assert room.misfit(cpus(2, pods=3)) is None
    assert room.misfit(cpus(2, pods=4)) == Misfit(PODS, Decimal(4), Decimal(3), ever=False)
    room.take(cpus(1))
    assert room.misfit(cpus(2, pods=3)) == Misfit("cpu", Decimal(6), Decimal(5), ever=True)
    assert room.misfit(cpus(2, pods=2)) is None
    room.take(cpus(2, pods=2))
    assert room.misfit(cpus(1)) is None
    assert room.misfit(cpus(2)) == Misfit("cpu", Decimal(2), Decimal(1), ever=True)


def test_pods_that_fit_together_only_on_an_avoided_node_wait_for_others() -> None:
    room = Room(FOUR_AND_TWO, [])
    assert room.misfit(cpus(2, pods=2), "a") == NOWHERE_ELSE
    assert room.misfit(cpus(1, pods=2), "a") is None


def test_nodes_are_kept_free_where_a_session_will_fit_first() -> None:
    room = Room([{"name": n, "allocatable": {"cpu": 4}} for n in "abc"], [])
    for node, used in (("a", 3), ("b", 1), ("c", 2)):
        room.take(cpus(used), nodes=[node])
    room.reserve(cpus(4))
    assert room.misfit(cpus(3)) is not None
    assert room.misfit(cpus(2)) is None
    room.reserve(cpus(4, pods=3))
    assert room.misfit(cpus(1)) is not None


def all_full(*names: str, **facts: Any) -> Room:
    room = Room([{"name": n, "allocatable": {"cpu": 4}, **facts.get(n, {})} for n in names], [])
    for name in names:
        room.take(cpus(4 - int(facts.get(name, {}).get(OTHERS, {}).get("cpu", 0))), nodes=[name])
    return room


def test_each_session_has_a_node_of_its_own_kept_free_if_it_can() -> None:
    room = all_full(*"abcde")
    assert room.keep(["a"], cpus(4))
    assert [room.reserve(cpus(4)), room.reserve(cpus(4, pods=2))] == [["b"], ["c", "d"]]
    room = all_full(*"abcd")
    assert room.keep(["a", "b"], cpus(4, pods=2))
    assert room.reserve(cpus(4, pods=2)) == ["c", "d"]
    assert len(room.reserve(cpus(4))) == 1, "it waits behind another one"


def test_a_node_that_others_hold_is_kept_free_only_if_no_other_can_be() -> None:
    facts = {"a": {OTHERS: {"cpu": "1"}}}
    assert all_full(*"ab", **facts).reserve(cpus(4)) == ["b"]
    assert all_full(*"ab", **facts).reserve(cpus(3)) == ["a"]
    assert all_full("a", **facts).reserve(cpus(4)) == ["a"]


def test_nothing_is_kept_free_if_some_pods_would_have_no_node() -> None:
    room = Room([{"name": n, "allocatable": {"cpu": 4}} for n in "abc"], [])
    assert room.reserve(cpus(4, pods=3), "c") == []
    assert room.misfit(cpus(4)) is None, "nothing was taken"
    room.close(["b"])
    assert room.reserve(cpus(4, pods=3)) == []
    assert room.reserve(cpus(4, pods=2)) == ["a", "c"]


def test_labels_and_taints_decide_on_which_nodes() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes: list[dict[str, Any]] = [
        {"name": "a", "allocatable": {"cpu": 4}, "taints": [taint]},
        {"name": "b", "allocatable": {"cpu": 2}, "labels": {"disk": "ssd"}},
    ]
    room = Room(nodes, [])
    assert room.misfit(cpus(4)) == Misfit(ONE_NODE, Decimal(1), Decimal(0), ever=False)
    assert room.misfit(cpus(4, tolerations=[{"operator": "Exists"}])) is None
    assert room.misfit(cpus(2, nodeSelector={"disk": "ssd"})) is None
    room.take(cpus(2, nodeSelector={"disk": "ssd"}))
    assert room.misfit(cpus(1, nodeSelector={"disk": "ssd"})) == Misfit(
        "cpu", Decimal(1), Decimal(0), ever=True
    )
    nowhere = room.misfit(cpus(1, nodeSelector={"disk": "tape"}))
    assert nowhere == Misfit("label disk=tape", Decimal(1), Decimal(0), ever=False)


def test_without_nodes_a_rule_about_them_cannot_be_met() -> None:
    assert Room([], []).misfit(Ask({})) is None
    assert Room([], []).misfit(Ask({}, rules=node_rules({"nodeSelector": {"a": "b"}}))) is not None


@given(
    nodes=st.lists(st.integers(0, 8), max_size=4),
    wishes=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=12),
)
def test_granted_sessions_have_a_place_on_the_nodes(
    nodes: list[int], wishes: list[tuple[int, int]]
) -> None:
    """A session that fits the sum of the nodes and no single one would wait on the cluster
    forever."""
    room = Room([{"allocatable": {"cpu": each}} for each in nodes], [])
    pods = []
    for number, count in wishes:
        if number and room.misfit(cpus(number, count)) is None:
            room.take(cpus(number, count))
            pods += [number] * count
    assert packs(sorted(pods, reverse=True), nodes)


def packs(pods: list[int], free: list[int]) -> bool:
    """Return whether there is any way to put the pods on the nodes."""
    if not pods:
        return True
    first, rest = pods[0], pods[1:]
    tried = set()
    for position, has in enumerate(free):
        if has >= first and has not in tried:
            tried.add(has)
            if packs(rest, [*free[:position], has - first, *free[position + 1 :]]):
                return True
    return False
