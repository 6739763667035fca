import json
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from retry.engine.decide import Decision, Mode, Rulebook, Settings, decide
from retry.engine.decision import Payment
from retry.evidence.causes import CANCELLED_CAUSES, NEVER_CAUSES, RetryCause
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.merge import Bound, Layer, MergedBounds
from tests.unit.retry.build import (
    NOW,
    PREEMPTED,
    ROOT_CREATED_AT,
    a_chain,
    a_container,
    a_policy,
    decided,
    exited,
)
from tests.unit.retry.named import named

OFF = Settings(mode=Mode.OFF)
PAUSED = Settings(mode=Mode.PAUSED)


def outcome_of(decision: Decision) -> tuple[str, str, str, str]:
    return decision.action, decision.reason, decision.state, decision.retry_state


def steps(decision: Decision) -> list[str]:
    return [step["step"] for step in decision.trace]


def test_a_success_needs_no_decision() -> None:
    success = Termination(status="terminated", exit_code=0)
    policy = a_policy(max_retries=3)
    assert decide(Ended(success), a_chain(), Rulebook(policy), NOW, 0.5) is None


def test_a_retry_is_granted_and_paid() -> None:
    decision = decided(exited(3, node="n1"), max_retries=3, jitter="none")
    assert outcome_of(decision) == ("retry", "inline_retry", "scheduled", "scheduled")
    assert decision.cause is RetryCause.KERNEL_NONZERO_EXIT
    assert (decision.paid_by, decision.used, decision.limit) == ("inline/failure", 0, 3)
    assert (decision.delay, decision.due_at) == (60, NOW + timedelta(seconds=60))
    assert (decision.rule, decision.avoid_node) == (None, "")


# One case that makes each reason true, in the order of the steps.
REASONS: list[tuple[str, str, dict[str, Any]]] = [
    ("not_batch", "not_retried", {"chain": {"session_type": "interactive"}}),
    ("never_retried", "not_retried", {"termination": {"reason": "QuotaExceeded"}}),
    ("retries_disabled", "not_retried", {"settings": {"mode": Mode.OFF}}),
    (
        "repeating_failure",
        "exhausted",
        {"chain": {"signature": "a", "failures": ["a"]}, "policy": {"stop_after_same": 2}},
    ),
    (
        "global_limit",
        "exhausted",
        {
            "chain": {"retry_count": 2, "counters": {"manual": 2}},
            "settings": {"global_max_retries": 2},
        },
    ),
    ("cause_not_eligible", "not_retried", {"policy": {"eligible_causes": ["preempted"]}}),
    ("exit_code_excluded", "not_retried", {"policy": {"no_retry_on_exit_codes": [1]}}),
    ("max_retries", "exhausted", {"chain": {"counters": {"inline/failure": 3}, "retry_count": 3}}),
    ("chain_deadline", "exhausted", {"policy": {"max_chain_duration": 1}}),
]

PAIRS = list(combinations(REASONS, 2))


def decide_case(*cases: dict[str, Any]) -> Decision:
    """Decide with all the cases' facts at once; of equal ones the earlier case's."""
    facts: dict[str, dict[str, Any]] = {
        "termination": {"exit_code": 1},
        "chain": {},
        "policy": {"max_retries": 3},
        "settings": {},
    }
    for case in reversed(cases):
        for name, fields in case.items():
            facts[name] = {**facts[name], **fields}
    return decided(
        Termination(**facts["termination"]),
        chain=a_chain(**facts["chain"]),
        settings=Settings(**facts["settings"]),
        **facts["policy"],
    )


@pytest.mark.parametrize(("reason", "retry_state", "case"), REASONS, ids=[r[0] for r in REASONS])
def test_each_refusal(reason: str, retry_state: str, case: dict[str, Any]) -> None:
    decision = decide_case(case)
    assert outcome_of(decision) == ("fail", reason, "final", retry_state)
    assert (decision.paid_by, decision.delay, decision.due_at) == (None, None, None)


@pytest.mark.parametrize(
    ("earlier", "later"), PAIRS, ids=[f"{one[0]} before {other[0]}" for one, other in PAIRS]
)
def test_of_two_refusals_the_earlier_step_decides(
    earlier: tuple[str, str, dict[str, Any]], later: tuple[str, str, dict[str, Any]]
) -> None:
    assert decide_case(earlier[2], later[2]).reason == earlier[0]


@pytest.mark.parametrize(
    ("failures", "ends"),
    [
        ([], False),
        (["a"], False),
        (["a", "a"], True),
        (["a", "a", "b"], True),
        (["a", "b", "a"], False),
        (["b", "a", "a"], False),
    ],
)
def test_equal_failures_end_a_chain_only_in_a_row(failures: list[str], ends: bool) -> None:
    chain = a_chain(retry_count=len(failures), signature="a", failures=failures)
    decision = decided(chain=chain, max_retries=10, stop_after_same=3)
    assert (decision.reason == "repeating_failure") is ends
    preempted = decided(PREEMPTED, chain=chain, max_retries=10, stop_after_same=3)
    assert preempted.reason == "inline_retry"
    unknown = chain._replace(signature="", failures=[""] * len(failures))
    assert decided(chain=unknown, max_retries=10, stop_after_same=3).reason == "inline_retry"


def test_an_attempt_that_made_progress_interrupts_equal_failures() -> None:
    chain = a_chain(retry_count=2, signature="a", failures=["a", "a"])
    for each, ends in (
        (chain, True),
        (chain._replace(advanced=True), False),
        (chain._replace(failures=["", "a"]), False),
        (chain._replace(failures=["a", ""]), False),
    ):
        decision = decided(chain=each, max_retries=10, stop_after_same=3)
        assert (decision.reason == "repeating_failure") is ends


@pytest.mark.parametrize(
    ("marks", "used"), [({}, 3), ({"inline/failure": 1}, 2), ({"inline/failure": 3}, 0)]
)
@pytest.mark.parametrize("window", [None, 3600])
def test_progress_resets_the_budget_and_the_delay(
    marks: dict[str, int], used: int, window: float | None
) -> None:
    paid = [Payment("inline/failure", NOW) for _ in range(3)]
    chain = a_chain(retry_count=3, marks=marks, paid=paid)
    policy: dict[str, Any] = {
        "max_retries": 3,
        "retry_window": window,
        "backoff": "exponential",
        "jitter": "none",
    }
    decision = decided(chain=chain, reset_on_progress=True, **policy)
    assert (decision.used, decision.limit) == (used, 3)
    assert decision.reason == ("max_retries" if used == 3 else "inline_retry")
    assert decision.delay == (None if used == 3 else 60 * 2**used)
    assert decided(chain=chain, **policy).used == 3


@pytest.mark.parametrize(("ages", "used"), [((), 0), ((59,), 1), ((1, 59, 60, 61), 2), ((1, 2), 2)])
def test_a_window_counts_the_newest_retries_only(ages: tuple[int, ...], used: int) -> None:
    paid = [Payment("inline/failure", NOW - timedelta(seconds=age)) for age in ages]
    others = [Payment("manual", NOW), Payment("inline/preemption", NOW)]
    chain = a_chain(retry_count=len(ages), paid=[*paid, *others])
    decision = decided(
        chain=chain, max_retries=2, retry_window=60, backoff="exponential", jitter="none"
    )
    assert (decision.used, decision.limit) == (used, 2)
    assert decision.reason == ("max_retries" if used == 2 else "inline_retry")
    assert decision.delay == (None if used == 2 else 60 * 2**used)


@pytest.mark.parametrize(
    ("policy", "spec", "seconds"),
    [
        ({}, {}, None),
        ({"on_exhausted": "park"}, {}, 86_400),
        ({"on_exhausted": "park", "park_for": 60}, {}, 60),
        ({"on_exhausted": "park", "park_for": 365 * 86_400}, {}, 365 * 86_400),
        ({}, {"onExhausted": "Park", "parkFor": "1h"}, 3600),
        ({"park_for": 60}, {"onExhausted": "Park"}, 60),
        ({"on_exhausted": "park"}, {"onExhausted": "End"}, 86_400),
    ],
)
def test_an_exhausted_chain_ends_or_is_parked(
    policy: dict[str, Any], spec: dict[str, Any], seconds: int | None
) -> None:
    chain = a_chain(retry_count=1)
    decision = decided(chain=chain, max_retries=1, named=[named(**spec)], **policy)
    assert (decision.action, decision.reason, decision.paid_by) == ("fail", "max_retries", None)
    if seconds is None:
        assert (decision.state, decision.retry_state, decision.due_at) == (
            *("final", "exhausted"),
            None,
        )
    else:
        assert (decision.state, decision.held_for) == ("held", "parked")
        assert decision.retry_state == "parked"
        assert decision.due_at == NOW + timedelta(seconds=seconds)


def test_a_rule_that_is_spent_asks_its_own_policy_whether_to_park() -> None:
    rule = {"action": "Retry", "onCauses": ["kernel_nonzero_exit"], "retryLimit": 0}
    parks, ends = (named(rule, name=each, onExhausted=each.title()) for each in ("park", "end"))
    assert decided(named=[parks, ends]).retry_state == "parked"
    assert decided(named=[ends, parks], on_exhausted="park").retry_state == "exhausted"
    assert decided(on_exhausted="park").retry_state == "not_retried"


def test_nobody_decides_without_a_budget() -> None:
    decision = decided(eligible_causes=[], no_retry_on_exit_codes=[1], max_chain_duration=1)
    assert outcome_of(decision) == ("fail", "no_policy", "final", "not_retried")
    assert steps(decision)[-3:] == ["inline_budget", "no_policy", "decision"]


@pytest.mark.parametrize("cause", sorted(NEVER_CAUSES))
def test_never_causes_are_never_retried(cause: RetryCause) -> None:
    decision = decided(cause=cause, max_retries=3)
    state = "cancelled" if cause in CANCELLED_CAUSES else "not_retried"
    assert outcome_of(decision) == ("fail", "never_retried", "final", state)


def test_a_cancelled_session_shows_that_it_was_cancelled() -> None:
    cancelled = Termination(status="cancelled", exit_code=143)
    assert outcome_of(decided(cancelled)) == ("fail", "never_retried", "final", "cancelled")
    interactive = decided(cancelled, chain=a_chain(session_type="interactive"))
    assert outcome_of(interactive) == ("fail", "not_batch", "final", "cancelled")


def test_a_known_cause_is_not_classified_again() -> None:
    decision = decided(exited(1), cause=RetryCause.AGENT_TRANSIENT, max_retries=1)
    assert decision.cause is RetryCause.AGENT_TRANSIENT
    assert decision.trace[0]["given"] is True
    assert decided(exited(1), max_retries=1).trace[0]["given"] is False


def test_a_paused_switch_holds_the_retry_that_it_would_schedule() -> None:
    scheduled, held = decided(max_retries=1), decided(max_retries=1, settings=PAUSED)
    assert outcome_of(held) == ("retry", "inline_retry", "held", "held")
    assert (held.delay, held.due_at, held.paid_by) == (
        scheduled.delay,
        scheduled.due_at,
        scheduled.paid_by,
    )
    assert outcome_of(decided(settings=PAUSED)) == ("fail", "no_policy", "final", "not_retried")
    assert decided(max_retries=1, settings=OFF).reason == "retries_disabled"


def test_without_a_limit_of_its_own_only_that_of_all_chains_ends_a_chain() -> None:
    policy: dict[str, Any] = {"max_retries": "unlimited", "max_preemption_retries": 2}
    spent = a_chain(retry_count=149)
    granted = decided(chain=spent, **policy)
    assert outcome_of(granted) == ("retry", "inline_retry", "scheduled", "scheduled")
    assert (granted.paid_by, granted.used, granted.limit) == ("inline/failure", 149, None)
    assert decided(chain=a_chain(retry_count=150), **policy).reason == "global_limit"
    nobody = Settings(global_max_retries=None)
    far = a_chain(retry_count=10**6)
    assert decided(chain=far, settings=nobody, **policy).reason == "inline_retry"
    preempted = a_chain(retry_count=9, counters={"inline/preemption": 2, "inline/failure": 7})
    assert decided(PREEMPTED, chain=preempted, **policy).reason == "preemption_budget"


def test_unlimited_preemptions_leave_failures_their_limit() -> None:
    policy: dict[str, Any] = {"max_retries": 1, "max_preemption_retries": "unlimited"}
    chain = a_chain(retry_count=100, counters={"inline/preemption": 99, "inline/failure": 1})
    assert decided(PREEMPTED, chain=chain, **policy).paid_by == "inline/preemption"
    assert decided(chain=chain, **policy).reason == "max_retries"


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ({"max_retries": 1}, "exhausted"),
        ({"max_retries": "unlimited"}, "exhausted"),
        ({"max_preemption_retries": 1}, "exhausted"),
        ({"max_preemption_retries": 0}, "not_retried"),
        ({}, "not_retried"),
    ],
)
def test_only_what_somebody_enabled_is_exhausted(policy: dict[str, Any], state: str) -> None:
    chain = a_chain(retry_count=5, counters={"manual": 5})
    decision = decided(chain=chain, settings=Settings(global_max_retries=5), **policy)
    assert outcome_of(decision) == ("fail", "global_limit", "final", state)
    assert (decision.used, decision.limit) == (5, 5)


@pytest.mark.parametrize(
    ("termination", "policy", "counters", "reason", "paid_by"),
    [
        (PREEMPTED, {"max_retries": 1}, {}, "inline_retry", "inline/failure"),
        (PREEMPTED, {"max_retries": 1}, {"inline/failure": 1}, "max_retries", None),
        (PREEMPTED, {"max_preemption_retries": 0, "max_retries": 5}, {}, "no_policy", None),
        (PREEMPTED, {"max_preemption_retries": 2}, {}, "inline_retry", "inline/preemption"),
        (
            PREEMPTED,
            {"max_preemption_retries": 2},
            {"inline/preemption": 2},
            "preemption_budget",
            None,
        ),
        (
            PREEMPTED,
            {"max_preemption_retries": 2, "max_retries": 1},
            {"inline/failure": 1, "inline/preemption": 1},
            "inline_retry",
            "inline/preemption",
        ),
        (
            exited(1),
            {"max_preemption_retries": 2, "max_retries": 1},
            {"inline/preemption": 2},
            "inline_retry",
            "inline/failure",
        ),
        (exited(1), {"max_preemption_retries": 2}, {}, "no_policy", None),
        (exited(1), {"max_retries": 1}, {"manual": 7}, "inline_retry", "inline/failure"),
    ],
)
def test_each_class_of_causes_spends_its_own_budget(
    termination: Termination,
    policy: dict[str, Any],
    counters: dict[str, int],
    reason: str,
    paid_by: str | None,
) -> None:
    chain = a_chain(retry_count=sum(counters.values()), counters=counters)
    decision = decided(termination, chain=chain, **policy)
    assert (decision.reason, decision.paid_by) == (reason, paid_by)
    if paid_by:
        assert decision.used == counters.get(paid_by, 0)


@pytest.mark.parametrize(
    ("termination", "allowed", "denied", "retried"),
    [
        (exited(3), [], [], True),
        (exited(3), [3], [], True),
        (exited(3), [4], [], False),
        (exited(3), [], [3], False),
        (exited(3), [3], [3], False),
        (exited(300), [3], [], False),
        (exited(300), [], [3], True),
        (Termination(), [3], [3], True),
        (Termination(exit_code=0), [3], [], True),
        (Termination(exit_code=3, conditions=("Preempted",)), [4], [3], True),
        (Termination(exit_code=3, conditions=("OOMKilled",)), [4], [], False),
        (Termination(exit_code=3, containers=(a_container("a", 4),)), [4], [3], True),
        (Termination(exit_code=4, containers=(a_container("a", 3, init=True),)), [4], [], False),
    ],
)
def test_exit_codes_filter_failures_only(
    termination: Termination, allowed: list[int], denied: list[int], retried: bool
) -> None:
    decision = decided(
        termination,
        max_retries=1,
        retry_on_exit_codes=allowed,
        no_retry_on_exit_codes=denied,
    )
    assert decision.reason == ("inline_retry" if retried else "exit_code_excluded")


def test_the_wait_grows_with_the_budget_that_pays_not_with_the_chain() -> None:
    chain = a_chain(retry_count=5, counters={"inline/failure": 1, "inline/preemption": 4})
    policy: dict[str, Any] = {
        "max_retries": 9,
        "max_preemption_retries": 9,
        "backoff": "exponential",
        "jitter": "none",
        "max_retry_delay": None,
    }
    assert decided(exited(1), chain=chain, **policy).delay == 120
    assert decided(PREEMPTED, chain=chain, **policy).delay == 960


def test_jitter_follows_the_failed_session() -> None:
    decision = decided(chain=a_chain(retry_count=1), max_retries=3)
    assert decision.delay == 74.33077958844314
    assert decided(max_retries=3, jitter="random", random=0.5).delay == 67.5


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (660, "inline_retry"),
        (659.999, "chain_deadline"),
        (5e-324, "chain_deadline"),
        (1e308, "inline_retry"),
    ],
)
def test_no_retry_comes_due_after_the_chains_time(limit: float, reason: str) -> None:
    assert timedelta(seconds=600) == NOW - ROOT_CREATED_AT
    decision = decided(max_retries=1, jitter="none", max_chain_duration=limit)
    assert decision.reason == reason


def test_bounds_lowered_later_hold_and_are_traced() -> None:
    bounds = MergedBounds(max_retries=Bound(2, Layer.DOMAIN))
    chain = a_chain(retry_count=2)
    decision = decided(chain=chain, bounds=bounds, max_retries=9)
    assert outcome_of(decision) == ("fail", "max_retries", "final", "exhausted")
    assert (decision.used, decision.limit) == (2, 2)
    assert decision.trace[steps(decision).index("bound")] == {
        "step": "bound",
        "field": "max_retries",
        "was": 9,
        "now": 2,
        "layer": "domain",
    }


def test_a_bound_of_zero_takes_the_budget_away() -> None:
    bounds = MergedBounds(max_retries=Bound(0, Layer.CLUSTER))
    assert decided(bounds=bounds, max_retries=9).reason == "no_policy"
    assert decided(bounds=bounds, max_retries=9, max_preemption_retries=1).reason == "no_policy"
    paid = decided(PREEMPTED, bounds=bounds, max_retries=9, max_preemption_retries=1)
    assert paid.paid_by == "inline/preemption"


@pytest.mark.parametrize(
    ("floor", "policy", "delay"),
    [
        (300, {"retry_delay": 60}, 300),
        (30, {"retry_delay": 60}, 60),
        (300, {"retry_delay": 60, "max_retry_delay": 10}, 300),
        (300, {"retry_delay": 400, "backoff": "exponential", "backoff_multiplier": 0.1}, 300),
        (1e9, {"retry_delay": 60}, 86_400),
        (1e9, {"retry_delay": 60, "max_retry_delay": None}, 86_400),
    ],
)
def test_the_least_delay_holds_for_the_result_too(
    floor: float, policy: dict[str, Any], delay: float
) -> None:
    bounds = MergedBounds(min_retry_delay=Bound(floor, Layer.CLUSTER))
    chain = a_chain(retry_count=1)
    decision = decided(chain=chain, bounds=bounds, max_retries=3, jitter="none", **policy)
    assert decision.delay == delay
    assert decision.due_at == NOW + timedelta(seconds=delay)


def test_the_trace_lists_every_step_with_its_result() -> None:
    decision = decided(max_retries=3, max_chain_duration=86_400, chain=a_chain(retry_count=1))
    assert [(step["step"], step["result"]) for step in decision.trace] == [
        ("classify", "kernel_nonzero_exit"),
        ("session_type", "pass"),
        ("never_cause", "pass"),
        ("switch", "pass"),
        ("global_limit", "pass"),
        ("inline_budget", "pass"),
        ("eligible", "pass"),
        ("exit_code", "pass"),
        ("failure_budget", "pass"),
        ("delay", decision.delay),
        ("chain_deadline", "pass"),
        ("decision", "retry"),
    ]
    assert decision.trace[8] == {
        "step": "failure_budget",
        "budget": "inline/failure",
        "used": 1,
        "limit": 3,
        "result": "pass",
    }
    assert json.loads(json.dumps(decision.trace, allow_nan=False)) == decision.trace


def test_the_trace_ends_at_the_step_that_refused() -> None:
    for _, _, case in REASONS:
        decision = decide_case(case)
        refusals = [s["step"] for s in decision.trace if s.get("result") == decision.reason]
        assert refusals == [steps(decision)[-2]]


def test_free_text_in_the_trace_is_bounded() -> None:
    words = Termination(reason="r" * 10_000, conditions=("c" * 10_000,) * 100, node="n" * 10_000)
    assert len(json.dumps(decided(words).trace)) < 10_000


def test_the_given_values_are_left_as_they_were() -> None:
    chain = a_chain(retry_count=1)
    policy, before = a_policy(max_retries=3), chain._replace(counters=dict(chain.counters))
    decide(Ended(exited(1)), chain, Rulebook(policy), NOW, 0.5)
    assert chain == before
    assert policy == a_policy(max_retries=3)
