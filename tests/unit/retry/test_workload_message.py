import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.evidence.workload_message import NO_MESSAGE, WorkloadMessage, workload_message_in
from tests.unit.retry.build import a_container, decided
from tests.unit.retry.named import category
from tests.unit.retry.strategies import json_values


def read(message: str) -> WorkloadMessage:
    return workload_message_in(message)


def saying(**wishes: Any) -> str:
    return json.dumps({"reprise": wishes})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (saying(), WorkloadMessage()),
        (saying(retry=False), WorkloadMessage(retry=False)),
        (saying(retry=True), WorkloadMessage()),
        (saying(after=120), WorkloadMessage(after=120.0)),
        (saying(after=0), WorkloadMessage()),
        (
            saying(after=0.5, category="cuda_error"),
            WorkloadMessage(after=0.5, category="cuda_error"),
        ),
        (saying(category=""), WorkloadMessage()),
        (' \n{"reprise": {"after": 1e3}}\n', WorkloadMessage(after=1000.0)),
        ('{"other": [1], "reprise": {"retry": false}, "more": null}', WorkloadMessage(retry=False)),
        ('{"reprise": {"category": "\\u00e4"}}', WorkloadMessage(category="\u00e4")),
    ],
)
def test_a_well_formed_wish_is_heard(message: str, expected: WorkloadMessage) -> None:
    assert read(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "",
        "reprise",
        '"reprise"',
        '["reprise"]',
        "null",
        '{"reprise": null}',
        '{"reprise": true}',
        '{"reprise": "retry"}',
        '{"reprise": [{"retry": false}]}',
        '[{"reprise": {"retry": false}}]',
        '{"Reprise": {"retry": false}}',
        '{"a": {"reprise": {"retry": false}}}',
        'failed: {"reprise": {"retry": false}}',
        '{"reprise": {"retry": false}} and more',
        '{"reprise": {"retry": false}}{"reprise": {"retry": false}}',
        '{"reprise": {"retry": false}',
        "{'reprise': {'retry': false}}",
        '{"reprise": {"retry": False}}',
        '{"reprise": {"retry": false,}}',
        # A wrong type or an unknown key anywhere, and none of it counts.
        '{"reprise": {"retry": "false"}}',
        '{"reprise": {"retry": 0}}',
        '{"reprise": {"retry": null}}',
        '{"reprise": {"retry": false, "after": "120"}}',
        '{"reprise": {"retry": false, "after": true}}',
        '{"reprise": {"retry": false, "after": null}}',
        '{"reprise": {"retry": false, "after": -1}}',
        '{"reprise": {"retry": false, "after": NaN}}',
        '{"reprise": {"retry": false, "after": Infinity}}',
        '{"reprise": {"retry": false, "after": 1e999}}',
        '{"reprise": {"retry": false, "after": 1' + "0" * 400 + "}}",
        '{"reprise": {"retry": false, "category": 7}}',
        '{"reprise": {"retry": false, "category": ["a"]}}',
        '{"reprise": {"retry": false, "later": 1}}',
        '{"reprise": {"Retry": false}}',
        '{"reprise": {"retry": false}, "number": NaN}',
        # What no database could store.
        '{"reprise": {"retry": false, "category": "\\u0000"}}',
        '{"reprise": {"retry": false, "category": "a\\ud800"}}',
        # A duplicate key: it is not clear which one counts.
        '{"reprise": {"retry": false, "retry": true}}',
        '{"reprise": {"retry": false}, "reprise": {}}',
        '{"reprise": {"retry": false}, "deep": ' + "[" * 1500 + "]" * 1500 + "}",
        '{"reprise": {"retry": false}}\x00',
    ],
)
def test_anything_malformed_is_plain_text(message: str) -> None:
    assert read(message) is NO_MESSAGE


def test_only_what_is_stored_of_a_message_is_heard() -> None:
    wish = saying(retry=False)
    assert read(" " * (4096 - len(wish)) + wish) == WorkloadMessage(retry=False)
    long = wish + " " * (4097 - len(wish))
    assert read(long) is NO_MESSAGE
    stored = Termination.from_json(Termination(message=long).to_json())
    assert Ended(stored).wishes is NO_MESSAGE


def test_the_first_container_that_failed_speaks() -> None:
    first = a_container("b", 1, finished_at="1", message=saying(after=1))
    second = a_container("a", 1, finished_at="2", message=saying(after=2))
    well = a_container("c", 0, finished_at="0", message=saying(after=3))
    ended = Ended(Termination(message=saying(after=4), containers=(second, well, first)))
    assert ended.wishes.after == 1


def test_an_init_container_speaks_too() -> None:
    init = a_container("setup", 1, init=True, message=saying(retry=False))
    assert not Ended(Termination(containers=(init,))).wishes.retry


def test_without_a_word_of_a_container_the_message_of_the_session_counts() -> None:
    silent = (a_container("main", 1),)
    assert Ended(Termination(message=saying(after=4), containers=silent)).wishes.after == 4


@given(st.text() | json_values.map(lambda value: json.dumps({"reprise": value})))
def test_no_message_makes_it_raise(message: str) -> None:
    expected = read(message)
    assert expected.after >= 0


CUDA = category("cuda_error", {"onExitCodes": {"operator": "In", "values": [9]}})
DISK = category("disk", {"onExitCodes": {"operator": "In", "values": [1]}})


@pytest.mark.parametrize(
    ("category_name", "found"),
    [("cuda_error", "cuda_error"), ("nobody defined it", "disk"), ("", "disk")],
)
def test_its_category_goes_before_any_matcher_if_it_is_defined(
    category_name: str, found: str
) -> None:
    end = Termination(exit_code=1, message=saying(category=category_name))
    assert decided(end, categories=(CUDA, DISK)).failure_category == found


@pytest.mark.parametrize(
    ("after", "delay"), [(0, 60), (59, 60), (61, 61), (3600, 3600), (3601, 3600)]
)
def test_its_wait_is_a_floor_under_the_cap(after: float, delay: float) -> None:
    end = Termination(exit_code=1, message=saying(after=after))
    assert decided(end, max_retries=1, jitter="none").delay == delay
