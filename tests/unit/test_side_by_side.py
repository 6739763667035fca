"""Two attempts beside each other: their logs, and what changed between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.attempt_changes import Change, attempt_changes
from sessions_app.core.side_by_side import AROUND, Pair, side_by_side

LINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=30)


def test_lines_that_differ_are_marked_and_paired() -> None:
    assert side_by_side(["start", "step 1", "end"], ["start", "step 2", "more", "end"]) == [
        Pair("start", "start", same=True),
        Pair("step 1", "step 2", same=False),
        Pair(None, "more", same=False),
        Pair("end", "end", same=True),
    ]


def test_times_and_colours_are_not_compared() -> None:
    left = ["2026-03-01T12:00:00.5Z \x1b[32mready\x1b[0m", "[10:00:01] go"]
    right = ["2026-03-02T01:10:09Z ready", "[23:59:59] go"]

    assert side_by_side(left, right) == []
    assert len(side_by_side(left, ["2026-03-02T01:10:09Z ready", "[23:59:59] stop"])) == 2


def test_equal_lines_far_from_a_difference_are_counted_only() -> None:
    same = [f"line {number}" for number in range(20)]
    found = side_by_side([*same, "x", *same], [*same, "y", *same])

    assert [pair.gap for pair in found if pair.gap] == [20 - AROUND, 20 - AROUND]
    assert len(found) == 2 * AROUND + 2


def test_lines_beyond_the_cut_of_one_log_are_no_difference() -> None:
    left, right = ["2", "3", "4", "5"], ["3", "4", "5", "6"]

    assert side_by_side(left, right, cut="start")[0].left == "3"
    assert [pair.right for pair in side_by_side(left, right, cut="end")][-1] == "5"
    assert len(side_by_side(left, right)) == 5


@given(LINES, LINES)
def test_no_line_is_lost(left: list[str], right: list[str]) -> None:
    found = side_by_side(left, right)
    equal = sum(pair.gap for pair in found)
    equal += sum(pair.same and pair.left is not None for pair in found)
    ours = [pair.left for pair in found if not pair.same and pair.left is not None]
    theirs = [pair.right for pair in found if not pair.same and pair.right is not None]

    if left == right:
        assert found == []
    else:
        assert equal + len(ours) == len(left)
        assert equal + len(theirs) == len(right)


def test_what_changed_comes_first() -> None:
    before = {
        "executor": "a",
        "node": "n1",
        "exit_code": 137,
        "resources": {"memory": "2Gi", "cpu": "1"},
        "environ": {"A": "1", "B": "2"},
        "image": "job:1",
    }
    after = {**before, "node": "n2", "exit_code": None, "resources": {"memory": "4Gi", "cpu": "1"}}

    assert attempt_changes(before, after) == [
        Change("Node", "n1", "n2"),
        Change("Exit code", 137, None),
        Change("Resource memory", "2Gi", "4Gi"),
        Change("Executor", "a", "a"),
        Change("Image", "job:1", "job:1"),
        Change("Variables", "2, all equal", "2, all equal"),
    ]
    assert attempt_changes({}, {}) == []


@pytest.mark.parametrize(
    ("was", "now", "differs"),
    [(60.0, 70.0, False), (60.0, 90.0, True), (0.01, 0.5, False), (None, 5.0, True)],
)
def test_durations_that_are_close_are_no_change(
    was: float | None, now: float | None, differs: bool
) -> None:
    (change,) = attempt_changes({"ran": was}, {"ran": now})

    assert change.differs is differs
