from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.fold import DECISION_FACTS, FACTS, fold

values = st.none() | st.integers() | st.text(max_size=3)
decisions = st.dictionaries(st.sampled_from(DECISION_FACTS), values, max_size=3)
events = st.dictionaries(st.sampled_from((*FACTS, "reason", "by")), values, max_size=4)
logs = st.lists(
    st.builds(
        lambda event, decision: event if decision is None else {**event, "decision": decision},
        events,
        st.none() | decisions,
    ),
    max_size=8,
)


def test_nothing_said_is_nothing_known() -> None:
    assert fold([]) == {}
    assert fold([{"reason": "x", "fencing_token": 3}]) == {}


def test_the_last_word_counts_also_if_it_is_null() -> None:
    log: list[dict[str, Any]] = [
        {"status": "SCHEDULED", "node": "a"},
        {"status": "PENDING", "node": None},
    ]
    assert fold(log) == {"status": "PENDING", "node": None}


def test_a_decision_is_changed_in_part() -> None:
    first: dict[str, Any] = {"decision": {"state": "scheduled", "cause": "unknown"}}
    later: dict[str, Any] = {"decision": {"state": "dispatched", "next_session_id": "b"}}
    assert fold([first, later])["decision"] == {
        "state": "dispatched",
        "cause": "unknown",
        "next_session_id": "b",
    }


@given(log=logs)
def test_each_fact_is_what_was_said_of_it_last(log: list[dict[str, Any]]) -> None:
    state = fold(log)
    for name in FACTS:
        values = [event[name] for event in log if name in event]
        assert (name in state) == bool(values)
        assert not values or state[name] == values[-1]
    assert state.keys() <= {*FACTS, "decision"}


@given(log=logs, cut=st.integers(0, 8))
def test_folding_goes_on_where_it_stopped(log: list[dict[str, Any]], cut: int) -> None:
    assert fold([fold(log[:cut]), *log[cut:]]) == fold(log)


@given(log=logs)
def test_folding_leaves_the_log_alone(log: list[dict[str, Any]]) -> None:
    before = repr(log)
    fold(log)
    assert repr(log) == before
