from typing import Any

import pytest

from retry.engine.decide import Settings, open_budgets
from retry.explain.attempts import attempt_words, budget_words
from retry.policies.matching import NamedPolicy
from tests.unit.retry.build import PREEMPTED as A_PREEMPTION
from tests.unit.retry.build import a_chain, a_policy, decided, exited
from tests.unit.retry.named import named as a_named

GPU = a_named(
    {"name": "moved", "action": "Retry", "onConditions": ["Preempted"], "retryLimit": 6},
    name="gpu",
)
ANY = a_named({"name": "any", "action": "Retry", "onConditions": ["Preempted"]}, name="open")
DAILY = a_named(
    {
        "name": "daily",
        "action": "Retry",
        "onConditions": ["Preempted"],
        "retryLimit": 3,
        "retryWindow": "24h",
    },
    name="gpu",
)
HOURLY = {"max_retries": 2, "retry_window": 3600}


@pytest.mark.parametrize(
    ("retry_count", "counters", "policy", "named", "words"),
    [
        (0, {}, {}, (), "attempt 1"),
        (0, {}, {"max_retries": 2}, (), "attempt 1; 0 of 2 retries for failures used"),
        # Never the sum of both.
        (
            2,
            {"inline/failure": 2},
            {"max_retries": 2, "max_preemption_retries": 67},
            (),
            "attempt 3; 2 of 2 retries for failures used",
        ),
        (
            3,
            {"inline/preemption": 3},
            {"max_retries": 20, "max_preemption_retries": 4},
            (),
            "attempt 4; 3 of 4 retries for preemptions used",
        ),
        (1, {"gpu/moved": 1}, {}, (GPU,), "attempt 2; 1 of 6 retries of gpu/moved used"),
        (1, {"manual": 1}, {}, (), "attempt 2"),
        (
            5,
            {"open/any": 5},
            {},
            (ANY,),
            "attempt 6; 5 of 8 retries that any chain may have used",
        ),
        (
            6,
            {"inline/failure": 6},
            {"max_retries": 20},
            (),
            "attempt 7; 6 of 8 retries that any chain may have used",
        ),
        (6, {"inline/failure": 6}, {"max_retries": "unlimited"}, (), "attempt 7"),
        # Of the limits that it has, the one with the least left.
        (
            6,
            {"inline/failure": 4, "inline/preemption": 2},
            {"max_retries": "unlimited", "max_preemption_retries": 3},
            (),
            "attempt 7; 2 of 3 retries for preemptions used",
        ),
        # All that it ever paid may be more than it pays within its window.
        (
            4,
            {"inline/failure": 4},
            HOURLY,
            (),
            "attempt 5; 4 retries for failures used, at most 2 in 1 h",
        ),
        (
            3,
            {"inline/failure": 2, "inline/preemption": 1},
            {**HOURLY, "max_preemption_retries": 1},
            (),
            "attempt 4; 2 retries for failures used, at most 2 in 1 h",
        ),
        # So it is never the spent one, and before that it has what it never paid.
        (
            5,
            {"gpu/daily": 3, "inline/failure": 2},
            {"max_retries": 2},
            (DAILY,),
            "attempt 6; 2 of 2 retries for failures used",
        ),
        (
            1,
            {"inline/failure": 1},
            {"max_retries": 3},
            (DAILY,),
            "attempt 2; 1 of 3 retries for failures used",
        ),
    ],
)
def test_a_live_attempt_names_the_budget_with_the_least_left(
    retry_count: int,
    counters: dict[str, int],
    policy: dict[str, Any],
    named: tuple[NamedPolicy, ...],
    words: str,
) -> None:
    unspent = open_budgets("batch", counters, a_policy(**policy), named)
    settings = Settings(global_max_retries=8)
    assert attempt_words(retry_count, None, unspent, settings, ended=False) == words


def _words(counters: dict[str, int], termination: Any = None, **policy: Any) -> str:
    named = policy.pop("named", ())
    count = sum(counters.values())
    found = decided(
        termination or exited(1),
        chain=a_chain(retry_count=count, counters=counters),
        named=named,
        settings=Settings(global_max_retries=50),
        **policy,
    )
    fields = {name: getattr(found, name) for name in ("reason", "rule", "paid_by", "used", "limit")}
    unspent = open_budgets("batch", counters, a_policy(**policy), named)
    return attempt_words(count, fields, unspent, Settings(), ended=True)


def test_an_ended_attempt_names_the_budget_that_paid_or_was_empty() -> None:
    both = {"max_retries": 2, "max_preemption_retries": 67}
    failed = {"inline/failure": 2}
    assert _words(failed, **both) == "attempt 3; 2 of 2 retries for failures used"
    waits = "attempt 3; 0 of 67 retries for preemptions used"
    assert _words(failed, A_PREEMPTION, **both) == waits
    assert _words({"inline/failure": 1}, **both) == "attempt 2; 1 of 2 retries for failures used"
    spent = {"inline/preemption": 1}
    only = {"max_retries": 9, "max_preemption_retries": 1}
    text = "attempt 2; 1 of 1 retries for preemptions used"
    assert _words(spent, A_PREEMPTION, **only) == text
    text = "attempt 7; 6 of 6 retries of gpu/moved used"
    assert _words({"gpu/moved": 6}, A_PREEMPTION, named=(GPU,)) == text
    default = a_named(name="all", defaultAction="Retry", retryLimit=1)
    text = "attempt 2; 1 of 1 default retries of policy all used"
    assert _words({"all/default": 1}, named=(default,)) == text
    text = "attempt 51; 50 of 50 retries that any chain may have used"
    assert _words({"manual": 50}, max_retries=60) == text


def test_a_budget_with_a_window_tells_all_that_it_paid_whoever_decided() -> None:
    words = "attempt 5; 4 retries for failures used, at most 2 in 1 h"
    paid = {"inline/failure": 4}
    assert _words(paid, **HOURLY) == words
    unspent = open_budgets("batch", paid, a_policy(**HOURLY), ())
    for more in ({"used": 2, "limit": 2}, {"paid_by": "manual", "used": 0, "limit": None}):
        fields = {"reason": "max_retries", **more}
        assert attempt_words(4, fields, unspent, Settings(), ended=True) == words
    text = "attempt 4; 3 retries of gpu/daily used, at most 3 in 1 d"
    assert _words({"gpu/daily": 3}, A_PREEMPTION, named=(DAILY,)) == text


def test_an_attempt_without_any_limit_is_not_one_of_many() -> None:
    nobody = Settings(global_max_retries=None)
    unspent = open_budgets("batch", {"inline/failure": 6}, a_policy(max_retries="unlimited"), ())
    assert attempt_words(6, None, unspent, nobody, ended=False) == "attempt 7"
    ended = _words({"inline/failure": 6}, max_retries="unlimited")
    assert ended == "attempt 7; 6 retries for failures used"
    by_rule = open_budgets("batch", {"open/any": 6}, a_policy(), (ANY,))
    assert attempt_words(6, None, by_rule, nobody, ended=False) == "attempt 7"


def test_where_no_budget_binds_none_is_named() -> None:
    assert _words({}) == "attempt 1"
    assert _words({}, max_retries=3, no_retry_on_exit_codes=[1]) == "attempt 1"
    unspent = open_budgets("batch", {}, a_policy(max_retries=3), ())
    assert attempt_words(0, None, unspent, Settings(), ended=True) == "attempt 1"


def test_decisions_of_another_version_are_told_as_far_as_they_go() -> None:
    for fields in ({}, {"paid_by": "x/y"}, {"reason": "max_retries", "used": None}):
        assert attempt_words(4, fields, [], Settings(), ended=True) == "attempt 5"
    by_hand = {"paid_by": "manual", "used": 3, "limit": None}
    assert attempt_words(4, by_hand, [], Settings(), ended=True) == "attempt 5"
    gone = {"paid_by": "ml/gone", "used": 3, "limit": None}
    words = attempt_words(4, gone, [], Settings(), ended=True)
    assert words == "attempt 5; 3 retries of ml/gone used"
    assert budget_words("ml/default") == "default retries of policy ml"
