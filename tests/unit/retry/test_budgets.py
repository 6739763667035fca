from typing import Any

import pytest

from retry.engine.budgets import endless, marks_after
from retry.engine.decide import Settings, budgets, counters_after, max_attempts, open_budgets
from retry.policies.matching import NamedPolicy
from tests.unit.retry.build import a_policy
from tests.unit.retry.named import named as a_named


def test_the_payer_counts_one_more_and_the_others_stay() -> None:
    counters = {"inline/failure": 2}
    assert counters_after(counters, "inline/failure") == {"inline/failure": 3}
    assert counters_after(counters, "manual") == {"inline/failure": 2, "manual": 1}
    assert counters == {"inline/failure": 2}


@pytest.mark.parametrize("marks", [{}, {"inline/failure": 1, "ml/moved": 1}])
def test_progress_marks_every_budget_but_that_of_retries_by_hand(marks: dict[str, int]) -> None:
    counters = {"inline/failure": 3, "inline/preemption": 1, "ml/moved": 2, "manual": 4}
    expected = {"inline/failure": 3, "inline/preemption": 1, "ml/moved": 2}
    assert marks_after(counters, marks, advanced=True) == expected
    assert marks_after(counters, marks, advanced=False) == marks


RULES: list[dict[str, Any]] = [
    {"name": "moved", "action": "Retry", "onConditions": ["Preempted"], "retryLimit": 10},
    {"name": "fatal", "action": "Fail", "onExitCodes": {"operator": "In", "values": [2]}},
]
LIMITED = a_named(*RULES, name="ml")
OPEN = a_named({"action": "Retry", "onConditions": ["Evicted"]}, name="open")
RETRIES = a_named(name="all", defaultAction="Retry", retryLimit=4)
FAILS = a_named(name="none", defaultAction="Fail")


@pytest.mark.parametrize(
    ("counters", "policy", "named", "global_max_retries", "attempts"),
    [
        ({}, {}, (), 150, 1),
        ({}, {"max_retries": 3}, (), 150, 4),
        # What preemptions may add is a part of the bound, and never more than its budget.
        ({}, {"max_retries": 3, "max_preemption_retries": 100}, (), 150, 104),
        ({"inline/preemption": 9}, {"max_preemption_retries": 100}, (), 150, 101),
        (
            {"inline/failure": 1, "inline/preemption": 1},
            {"max_retries": 3, "max_preemption_retries": 0},
            (),
            150,
            5,
        ),
        ({"inline/preemption": 1}, {"max_retries": 3}, (), 2, 3),
        ({}, {"max_retries": 1000}, (), 150, 151),
        ({"manual": 2}, {"max_retries": 3}, (), 150, 6),
        ({"manual": 2}, {"max_retries": 3}, (), 1, 3),
        ({"inline/failure": 7}, {"max_retries": 3}, (), 150, 8),
        ({"ml/moved": 4}, {"max_retries": 1}, (LIMITED,), 150, 12),
        # Nothing bounds a rule without a limit but what bounds all chains.
        ({}, {"max_retries": 3}, (LIMITED, OPEN), 150, None),
        ({"manual": 150}, {}, (OPEN,), 150, 151),
        ({}, {"max_retries": "unlimited"}, (), 150, None),
        ({"inline/failure": 2}, {"max_retries": "unlimited"}, (), 2, 3),
        ({}, {"max_retries": "unlimited", "max_preemption_retries": 3}, (), None, None),
        ({}, {"max_retries": 2, "max_preemption_retries": "unlimited"}, (), 150, None),
        # No cause may spend it.
        ({}, {"max_retries": "unlimited", "eligible_causes": []}, (), None, 1),
        # Without a limit of all chains, their own budgets bound them.
        ({}, {"max_retries": 1000}, (), None, 1001),
        ({"manual": 400}, {"max_retries": 3}, (), None, 404),
        ({}, {}, (OPEN,), None, None),
        # A default action is asked where no inline budget is, and only the first policy's.
        ({}, {}, (RETRIES,), 150, 5),
        ({}, {"max_retries": 3}, (RETRIES,), 150, 4),
        ({}, {"max_retries": 3, "max_preemption_retries": 0}, (RETRIES,), 150, 8),
        ({}, {}, (FAILS, RETRIES), 150, 1),
        # Nothing is eligible that could spend the budget.
        ({}, {"max_retries": 3, "eligible_causes": []}, (), 150, 1),
        ({}, {"max_retries": 3, "eligible_causes": ["preempted"]}, (), 150, 4),
        (
            {},
            {"max_retries": 3, "max_preemption_retries": 5, "eligible_causes": ["preempted"]},
            (),
            150,
            6,
        ),
    ],
)
def test_the_most_attempts_of_a_chain(
    counters: dict[str, int],
    policy: dict[str, Any],
    named: tuple[NamedPolicy, ...],
    global_max_retries: int | None,
    attempts: int | None,
) -> None:
    settings = Settings(global_max_retries=global_max_retries)
    unspent = open_budgets("batch", counters, a_policy(**policy), named)
    assert max_attempts(sum(counters.values()), unspent, settings) == attempts


def test_chains_without_retries_have_one_attempt() -> None:
    policy = a_policy(max_retries=5, max_preemption_retries=60)
    assert open_budgets("interactive", {}, policy, (LIMITED, OPEN)) == []
    assert max_attempts(0, [], Settings()) == 1


def test_the_bound_is_never_below_an_attempt_that_waits() -> None:
    """Its budget may be gone: a bound was lowered, a policy edited."""
    assert max_attempts(1, [], Settings(), followed=True) == 3
    spent = open_budgets("batch", {"inline/failure": 1}, a_policy(max_retries=1), ())
    assert max_attempts(1, spent, Settings(), followed=True) == 3


@pytest.mark.parametrize(
    ("counters", "policy", "rows"),
    [
        ({}, {}, []),
        ({}, {"max_retries": 3}, [("inline/failure", 0, 3)]),
        ({"inline/failure": 2}, {}, [("inline/failure", 2, 0)]),
        ({}, {"max_preemption_retries": 0}, [("inline/preemption", 0, 0)]),
        ({"inline/preemption": 1}, {}, [("inline/preemption", 1, None)]),
        ({}, {"max_retries": "unlimited"}, [("inline/failure", 0, None)]),
        ({}, {"max_preemption_retries": "unlimited"}, [("inline/preemption", 0, None)]),
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


@pytest.mark.parametrize(
    ("policy", "global_max_retries", "expected"),
    [
        ({"max_retries": "unlimited"}, None, True),
        ({"max_retries": "unlimited", "max_preemption_retries": "unlimited"}, None, True),
        ({"max_retries": "unlimited", "max_preemption_retries": 9}, None, False),
        ({"max_retries": 9, "max_preemption_retries": "unlimited"}, None, False),
        ({"max_retries": "unlimited", "max_chain_duration": 60}, None, False),
        ({"max_retries": "unlimited"}, 150, False),
        ({}, None, False),
    ],
)
def test_only_a_chain_without_any_limit_is_endless(
    policy: dict[str, Any], global_max_retries: int | None, expected: bool
) -> None:
    settings = Settings(global_max_retries=global_max_retries)
    assert endless(a_policy(**policy), settings) is expected
