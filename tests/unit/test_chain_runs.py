"""How a long chain is folded into a few rows."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.chain_runs import LONG, Run, runs

CODES = {"p": "preempted", "e": "evicted", "f": "kernel_nonzero_exit", "o": "oom_killed", "-": None}


def chain(letters: str) -> list[dict[str, Any]]:
    """A chain: one letter for the cause of each attempt."""
    return [
        {
            "id": UUID(int=number),
            "attempt": number,
            "status": "RUNNING" if CODES[letter] is None else "ERROR",
            "cause": CODES[letter],
            "exit_code": 1 if letter == "f" else None,
            "failure_category": None,
            "failure_signature": None,
            "node": f"n{number % 3}",
        }
        for number, letter in enumerate(letters)
    ]


def spans(found: list[Run]) -> list[tuple[int, int]]:
    return [(run.first, run.last) for run in found if run.folded]


@pytest.mark.parametrize(
    ("letters", "shown", "folds"),
    [
        ("f", 0, []),
        ("ppf", 2, []),
        ("pppf", 3, [(1, 3)]),
        ("pepfppp-", 3, [(1, 3), (5, 7)]),
        # The attempt of the page and the newest one stay in sight.
        ("ppppppp", 3, [(1, 3), (5, 6)][:1]),
        ("pppppppp", 3, [(1, 3), (5, 7)]),
        # Failures stay apart as long as the chain is readable.
        ("ffffffffff", 9, []),
        ("f" * 40, 39, [(1, 39)]),
        ("o" + "f" * 40, 20, [(2, 20), (22, 40)]),
    ],
)
def test_churn_is_folded_and_failures_are_not(
    letters: str, shown: int, folds: list[tuple[int, int]]
) -> None:
    assert spans(runs(chain(letters), UUID(int=shown))) == folds


def test_a_fold_says_what_is_in_it() -> None:
    (fold, last) = runs(chain("ppepf"), UUID(int=4))

    assert fold.text == "3 preempted, 1 evicted on 3 nodes"
    assert fold.churn
    assert not last.churn
    assert Run(chain("-")).text == "1 RUNNING on 1 node"


def test_a_chain_without_equal_neighbours_is_short_all_the_same() -> None:
    found = runs(chain("fo" * 75), UUID(int=70))

    assert len(found) <= LONG
    assert [len(run.attempts) for run in found if run.folded] == [65, 59]


@given(st.text(alphabet="peffo-", min_size=1, max_size=160), st.data())
def test_no_attempt_is_lost_and_few_rows_are_left(letters: str, data: st.DataObject) -> None:
    attempts = chain(letters)
    shown = UUID(int=data.draw(st.integers(0, len(attempts) - 1)))

    found = runs(attempts, shown)

    assert [each for run in found for each in run.attempts] == attempts
    assert len(found) <= LONG
    assert [shown] in [[each["id"] for each in run.attempts] for run in found]
