"""Node templates: how they are read, and what they can still bring."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.node_templates import MAX_TEMPLATES, read_templates
from scheduler.core.fit import PODS, Ask, Misfit, Room
from scheduler.core.node_rules import node_rules
from tests.unit.test_fit import packs

GPU: dict[str, Any] = {
    "name": "gpu",
    "resources": {"cpu": "8"},
    "labels": {"pool": "gpu"},
    "taints": [],
    "max": 2,
}
TAINT = {"key": "gpu", "effect": "NoSchedule"}


def cpus(number: int, pods: int = 1, **pod_spec: Any) -> Ask:
    return Ask({"cpu": Decimal(number)}, pods, node_rules(pod_spec))


def node(name: str, cpu: int = 8, **labels: str) -> dict[str, Any]:
    return {"name": name, "allocatable": {"cpu": cpu}, "labels": labels}


def template(**fields: Any) -> dict[str, Any]:
    return {**GPU, **fields}


def test_templates_are_read_with_what_is_left_out() -> None:
    given = {"name": "gpu", "resources": {"cpu": 8}, "max": 2, "colour": "red"}
    assert read_templates([given]) == [template(resources={"cpu": 8}, labels={})]
    assert read_templates([]) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": ""}, "0.name: must be 1 to 63 of"),
        ({"name": None}, "0.name: must be 1 to 63 of"),
        ({"name": "a" * 64}, "0.name: must be 1 to 63 of"),
        ({"resources": {}}, "0.resources: must be an object of"),
        ({"resources": {"cpu": "lots"}}, "0.resources: cpu: "),
        ({"labels": {"pool": 3}}, "0.labels: pool: must be the value"),
        ({"labels": {"a b": "c"}}, "0.labels: 'a b' is not the name"),
        ({"taints": {}}, "0.taints: must be a list of at most 64"),
        ({"taints": [{"effect": "NoSchedule"}]}, "0.taints: a taint must be an object such as"),
        ({"taints": [{"key": "a", "effect": "Never"}]}, "0.taints: the effect of a taint must be"),
        ({"max": 0}, "0.max: must be a whole number from 1 to 1000"),
        ({"max": 1001}, "0.max: must be a whole number from 1 to 1000"),
        ({"max": True}, "0.max: must be a whole number from 1 to 1000"),
        ({"max": 1.5}, "0.max: must be a whole number from 1 to 1000"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=r"^0") as refused:
        read_templates([template(**fields)])
    assert str(refused.value).startswith(why)


def test_the_list_has_a_limit_and_each_name_once() -> None:
    many = [template(name=f"t{number}") for number in range(MAX_TEMPLATES)]
    assert len(read_templates(many)) == MAX_TEMPLATES
    wrong: Any
    for wrong in ([*many, template(name="more")], {}, "gpu"):
        with pytest.raises(ValueError, match="must be a list of at most 50"):
            read_templates(wrong)
    with pytest.raises(ValueError, match=r"1\.name: there is another template 'gpu'"):
        read_templates([template(), template()])
    with pytest.raises(ValueError, match="0: must be an object"):
        read_templates(["gpu"])


def test_what_fits_no_node_now_gets_one_of_a_template() -> None:
    room = Room([node("a", 4)], (), [template()])
    assert room.misfit(cpus(8)) is None
    assert room.place(cpus(8)) is None
    assert room.grow(cpus(8)) == "gpu"
    # What has a node needs no template.
    assert room.place(cpus(4)) == ["a"]


def test_templates_bring_no_more_than_their_most() -> None:
    room = Room([node("a", 4), node("b", 8, pool="gpu")], (), [template()])
    assert room.place(cpus(8)) == ["b"]
    # One of the two is there, so one is left, and several pods share it.
    assert room.grow(cpus(5)) == "gpu"
    assert room.grow(cpus(3)) == "gpu"
    assert room.grow(cpus(1)) is None
    assert room.misfit(cpus(8)) == Misfit("cpu", Decimal(8), Decimal(4), ever=True)
    assert room.misfit(cpus(9)) == Misfit("cpu", Decimal(9), Decimal(8), ever=False)


def test_leases_without_a_node_count_on_their_template() -> None:
    room = Room([node("a", 4)], (), [template()])
    room.take(cpus(8), template="gpu")
    room.take(cpus(6), template="gpu")
    # They hold nothing of the nodes that are there.
    assert room.place(cpus(4)) == ["a"]
    assert room.misfit(cpus(3)) == Misfit("cpu", Decimal(3), Decimal(0), ever=True)
    assert room.grow(cpus(2)) == "gpu"


def test_a_new_node_is_for_those_who_wait_for_it() -> None:
    """Until its cluster has put them there."""
    room = Room([node("new", 8, pool="gpu")], (), [template(taints=[TAINT])])
    room.take(cpus(8), template="gpu")
    assert room.place(cpus(1)) is None
    tolerant = cpus(8, tolerations=[{"operator": "Exists"}])
    assert room.grow(tolerant) == "gpu"
    assert room.grow(tolerant) is None


def test_a_lease_whose_node_is_known_counts_there() -> None:
    room = Room([node("a", 8, pool="gpu")], (), [template()])
    room.take(cpus(8), ["a"], template="gpu")
    assert room.grow(cpus(8)) == "gpu"
    assert room.grow(cpus(1)) is None


def test_a_lease_of_a_template_that_is_gone_counts_somewhere() -> None:
    room = Room([node("a", 8)], (), [])
    room.take(cpus(8), template="gpu")
    assert room.misfit(cpus(1)) == Misfit("cpu", Decimal(1), Decimal(0), ever=True)


def test_labels_and_taints_of_templates_decide() -> None:
    room = Room([node("a", 8)], (), [template(taints=[TAINT])])
    picky: dict[str, Any] = {"nodeSelector": {"pool": "gpu"}}
    assert room.never(cpus(1, **picky)) == Misfit("taint gpu", Decimal(1), Decimal(0), ever=False)
    assert room.grow(cpus(1, **picky)) is None
    tolerant = {**picky, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert room.never(cpus(1, **tolerant)) is None
    assert room.grow(cpus(1, **tolerant)) == "gpu"
    other: dict[str, Any] = {"nodeSelector": {"pool": "tpu"}}
    assert room.never(cpus(1, **other)) == Misfit(
        "label pool=tpu", Decimal(1), Decimal(0), ever=False
    )


def test_the_first_template_that_can_is_taken() -> None:
    large = template(name="large", resources={"cpu": "64"}, labels={"pool": "large"}, max=1)
    room = Room([], (), [template(max=1), large])
    assert [room.grow(cpus(8)) for _ in range(2)] == ["gpu", "large"]
    assert [room.grow(cpus(16)), room.grow(cpus(32)), room.grow(cpus(32))] == [
        *("large", "large"),
        None,
    ]


def test_all_pods_of_a_session_are_on_one_template() -> None:
    nodes = [node("a", 8), node("b", 8, pool="gpu")]
    room = Room(nodes, (), [template()])
    # On one that is there and one that is not.
    room.take(cpus(8), ["a"])
    assert room.grow(cpus(8, 2)) == "gpu"
    assert Room(nodes, (), [template()]).never(cpus(8, 3)) == Misfit(
        PODS, Decimal(3), Decimal(2), ever=False
    )


def test_nodes_that_are_kept_free_are_not_used_for_a_template() -> None:
    room = Room([node("a", 8, pool="gpu")], (), [template()])
    room.take(cpus(1), ["a"])
    assert room.keep(["a"])
    assert room.grow(cpus(7)) == "gpu"
    assert room.grow(cpus(1)) == "gpu"
    assert room.grow(cpus(1)) is None


def test_a_template_may_say_how_many_pods_its_nodes_take() -> None:
    room = Room([], (), [template(resources={"cpu": "8", "pods": "2"}, max=1)])
    assert [room.grow(cpus(1)) for _ in range(3)] == ["gpu", "gpu", None]


def test_without_nodes_templates_hold_what_asks_for_nothing() -> None:
    room = Room([], (), [template(max=1)])
    assert room.place(Ask({})) is None
    assert room.grow(Ask({})) == "gpu"


@given(
    nodes=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=3),
    size=st.integers(1, 8),
    most=st.integers(1, 3),
    wishes=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3)), max_size=10),
)
def test_what_templates_hold_has_a_place_on_their_nodes(
    nodes: list[tuple[int, bool]], size: int, most: int, wishes: list[tuple[int, int]]
) -> None:
    """Whatever is on nodes by name, and however many of the template's nodes there are already."""
    sizes = {f"n{number}": cpu for number, (cpu, _) in enumerate(nodes)}
    of_template = [f"n{number}" for number, (_, labelled) in enumerate(nodes) if labelled]
    listed = [
        node(f"n{number}", cpu, **({"pool": "gpu"} if labelled else {}))
        for number, (cpu, labelled) in enumerate(nodes)
    ]
    room = Room(listed, (), [template(resources={"cpu": size}, max=most)])
    free, growing = dict(sizes), []
    for cpu, pods in wishes:
        places = room.place(cpus(cpu, pods))
        for name in places or ():
            free[name] -= cpu
        if places is None and room.grow(cpus(cpu, pods)):
            growing += [cpu] * pods
    assert min(free.values(), default=0) >= 0
    left = [free[name] for name in of_template] + [size] * max(most - len(of_template), 0)
    assert packs(sorted(growing, reverse=True), left)
