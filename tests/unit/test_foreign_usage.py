from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.fit import OTHERS, Room
from scheduler.core.foreign_usage import Known, crowded, with_others


def node(name: str, has: str, free: str | None) -> dict[str, Any]:
    free_amounts = {} if free is None else {"cpu": free}
    return {"name": name, "allocatable": {"cpu": has}, "free": free_amounts}


def run(at: str, cpu: int) -> Known:
    return Known(at, {"cpu": Decimal(cpu), "memory": Decimal(1)})


def others(nodes: list[dict[str, Any]], *runs: Known) -> list[str | None]:
    return [each.get(OTHERS, {}).get("cpu") for each in with_others(nodes, runs)]


def test_usage_that_no_run_explains_belongs_to_others() -> None:
    nodes = [node("a", "8", "2"), node("b", "8", "500m")]
    assert others(nodes) == ["6", "7.5"]
    assert others(nodes, run("a", 4), run("b", 1)) == ["2", "6.5"]
    assert others(nodes, run("a", 9)) == [None, "7.5"]


def test_runs_that_are_on_no_node_yet_explain_what_is_left() -> None:
    nodes = [node("a", "8", "6"), node("b", "8", "5")]
    assert others(nodes, run("", 3)) == [None, "2"]
    assert others(nodes, run("gone", 9)) == [None, None]


def test_a_node_that_does_not_say_what_is_free_has_no_others() -> None:
    nodes = [node("a", "8", None), {**node("b", "8", "8"), "free": {"gpu": "0"}}]
    assert not crowded(nodes)
    assert with_others(nodes, []) == nodes
    assert crowded([node("c", "8", "7")])


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 8)), max_size=6),
)
def test_others_and_runs_together_hold_what_is_not_free(
    sizes: list[tuple[int, int]], runs: list[tuple[int, int]]
) -> None:
    nodes = [node(str(i), str(has), str(free)) for i, (has, free) in enumerate(sizes)]
    ours = sum(cpu for _, cpu in runs)
    held = sum(max(has - free, 0) for has, free in sizes)
    marked = with_others(nodes, [run(str(at), cpu) for at, cpu in runs])
    theirs = sum(Decimal(each.get(OTHERS, {}).get("cpu", 0)) for each in marked)
    assert max(held - ours, 0) <= theirs <= held
    whole = sum(has for has, _ in sizes)
    misfit = Room(marked, ()).misfit({"cpu": Decimal(9 * len(sizes))})
    assert misfit is not None
    assert Room(marked, ()).whole == {"cpu": whole}
