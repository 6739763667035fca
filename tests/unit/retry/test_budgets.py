from typing import Any

import pytest

from retry.decide import Settings, budgets, counters_after, max_attempts
from tests.unit.retry.build import a_policy


def test_the_payer_counts_one_more_and_the_others_stay() -> None:
    counters = {"inline/failure": 2}
    assert counters_after(counters, "inline/failure") == {"inline/failure": 3}
    assert counters_after(counters, "manual") == {"inline/failure": 2, "manual": 1}
    assert counters == {"inline/failure": 2}


@pytest.mark.parametrize(
    ("retry_count", "counters", "policy", "global_max_retries", "attempts"),
    [
        (0, {}, {}, 150, 1),
        (0, {}, {"max_retries": 3}, 150, 4),
        (0, {}, {"max_retries": 3, "max_preemption_retries": 100}, 150, 4),
        (2, {"inline/failure": 1, "inline/preemption": 1}, {"max_retries": 3}, 150, 5),
        (9, {"inline/preemption": 9}, {"max_preemption_retries": 100}, 150, 10),
        (1, {"inline/preemption": 1}, {"max_retries": 3}, 2, 3),
        (0, {}, {"max_retries": 3, "max_preemption_retries": 0}, 150, 4),
        (0, {}, {"max_retries": 1000}, 150, 151),
        (2, {"manual": 2}, {"max_retries": 3}, 150, 6),
        (2, {"manual": 2}, {"max_retries": 3}, 1, 4),
        (7, {"inline/failure": 7}, {"max_retries": 3}, 150, 8),
    ],
)
def test_the_attempts_of_a_chain_that_goes_on_failing(
    retry_count: int,
    counters: dict[str, int],
    policy: dict[str, Any],
    global_max_retries: int,
    attempts: int,
) -> None:
    settings = Settings(global_max_retries=global_max_retries)
    assert max_attempts(retry_count, counters, a_policy(**policy), (), settings) == attempts


@pytest.mark.parametrize(
    ("counters", "policy", "rows"),
    [
        ({}, {}, []),
        ({}, {"max_retries": 3}, [("inline/failure", 0, 3)]),
        ({"inline/failure": 2}, {}, [("inline/failure", 2, 0)]),
        ({}, {"max_preemption_retries": 0}, [("inline/preemption", 0, 0)]),
        ({"inline/preemption": 1}, {}, [("inline/preemption", 1, None)]),
        (
            {"manual": 1, "inline/preemption": 2, "inline/failure": 3},
            {"max_retries": 5, "max_preemption_retries": 7},
            [("inline/failure", 3, 5), ("inline/preemption", 2, 7), ("manual", 1, None)],
        ),
    ],
)
def test_budgets_are_listed_that_are_open_or_used(
    counters: dict[str, int],
    policy: dict[str, Any],
    rows: list[tuple[str, int, int | None]],
) -> None:
    assert budgets(counters, a_policy(**policy), (), Settings()) == [
        {"name": name, "used": used, "limit": limit} for name, used, limit in rows
    ]
