import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from retry.engine.decide import (
    Chain,
    Decision,
    Mode,
    Rulebook,
    Settings,
    budgets,
    counters_after,
    decide,
    max_attempts,
    open_budgets,
)
from retry.engine.decision import Payment
from retry.evidence.causes import RetryCause, cause_class, classify
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.explain.sentences import explain
from retry.policies.inline import InlinePolicy
from retry.policies.limits import UNLIMITED
from retry.policies.merge import NO_BOUNDS, MergedBounds, bounded
from tests.unit.retry import strategies
from tests.unit.retry.build import NOW, ROOT_CREATED_AT, SESSION_ID, a_chain, exited

counts = st.integers(0, 8) | st.integers(min_value=0, max_value=2**63)


@st.composite
def _chains(draw: st.DrawFn) -> Chain:
    return Chain(
        session_id=draw(st.uuids().map(str)),
        session_type=draw(st.sampled_from(("batch", "batch", "batch", "interactive"))),
        retry_count=draw(counts),
        root_created_at=draw(strategies.moments),
        counters=draw(
            st.dictionaries(
                st.sampled_from(("inline/failure", "inline/preemption", "manual")), counts
            )
        ),
    )


chains = _chains()


@given(
    termination=strategies.terminations,
    chain=chains,
    policy=strategies.policies(),
    bounds=strategies.bounds,
    settings=strategies.settings,
    now=strategies.moments,
    random=strategies.fractions,
    cause=st.none() | st.sampled_from(RetryCause),
)
def test_every_failure_gets_a_whole_decision(
    termination: Termination,
    chain: Chain,
    policy: InlinePolicy,
    bounds: MergedBounds,
    settings: Settings,
    now: datetime,
    random: float,
    cause: RetryCause | None,
) -> None:
    rulebook = Rulebook(policy, bounds=bounds, settings=settings)
    decision = decide(Ended(termination, cause), chain, rulebook, now, random)
    assert decision is not None
    assert decision == decide(Ended(termination, cause), chain, rulebook, now, random)
    assert json.loads(json.dumps(decision.trace, allow_nan=False)) == decision.trace
    assert decision.trace[-1]["result"] == decision.action
    assert all(explain({"action": decision.action}, decision.trace))
    if decision.action == "fail":
        parked = decision.retry_state == "parked"
        assert decision.state == ("held" if parked else "final")
        assert parked or decision.retry_state in {"exhausted", "not_retried", "cancelled"}
        assert (decision.paid_by, decision.delay) == (None, None)
        assert (decision.due_at is not None) is parked
    else:
        assert_within_limits(decision, chain, policy, bounds, settings, now)


def assert_within_limits(
    decision: Decision,
    chain: Chain,
    policy: InlinePolicy,
    bounds: MergedBounds,
    settings: Settings,
    now: datetime,
) -> None:
    effective, _ = bounded(policy, bounds)
    assert decision.paid_by is not None
    if effective.retry_window is None:
        assert decision.used == chain.counters.get(decision.paid_by, 0)
    assert decision.used is not None
    most = settings.global_max_retries
    assert decision.limit is None or decision.used < decision.limit
    assert decision.limit is not None or UNLIMITED in {
        effective.max_retries,
        effective.max_preemption_retries,
    }
    assert most is None or chain.retry_count < most
    assert settings.mode is not Mode.OFF
    assert decision.state == decision.retry_state
    assert decision.cause in effective.eligible_causes
    assert decision.delay is not None
    assert 0 <= decision.delay <= 86_400
    assert decision.due_at == now + timedelta(seconds=decision.delay)
    if effective.max_chain_duration is not None:
        age = decision.due_at - chain.root_created_at
        assert age.total_seconds() <= effective.max_chain_duration


def _most(counters: dict[str, int], policy: InlinePolicy, settings: Settings) -> float:
    unspent = open_budgets("batch", counters, policy, ())
    found = max_attempts(sum(counters.values()), unspent, settings)
    if found is None:
        limits = {policy.max_retries, policy.max_preemption_retries}
        assert policy.retry_window is not None or policy.reset_on_progress or UNLIMITED in limits
        most = settings.global_max_retries
        return math.inf if most is None else most + 1
    return found


def _most_at_once(row: Mapping[str, Any], paid: Sequence[Payment]) -> int:
    """Return the most retries that a budget paid within its window, or all if it has none."""
    window = row.get("window")
    if window is None:
        return int(row["used"])
    times = [each.at for each in paid if each.budget == row["name"]]
    within = (sum(0 <= (last - at).total_seconds() < window for at in times) for last in times)
    return max(within, default=0)


@given(
    ends=st.lists(strategies.terminations, min_size=1, max_size=25),
    policy=strategies.policies(retry_delay=0.001, max_retry_delay=1, max_chain_duration=None),
    bounds=strategies.bounds,
    global_max_retries=st.integers(0, 8) | st.just(150) | st.none(),
)
@example(
    ends=[exited(1)] * 3,
    policy=InlinePolicy(max_retries=1, retry_delay=0.001, retry_window=1),
    bounds=NO_BOUNDS,
    global_max_retries=None,
)
def test_no_chain_goes_past_a_budget(
    ends: list[Termination],
    policy: InlinePolicy,
    bounds: MergedBounds,
    global_max_retries: int | None,
) -> None:
    settings = Settings(global_max_retries=global_max_retries)
    rulebook = Rulebook(policy, bounds=bounds, settings=settings)
    effective, _ = bounded(policy, bounds)
    counters: dict[str, int] = {}
    paid: list[Payment] = []
    retry_count, now = 0, ROOT_CREATED_AT
    for termination in ends:
        chain = a_chain(retry_count=retry_count, counters=counters, paid=paid)
        decision = decide(Ended(termination), chain, rulebook, now, 0.5)
        assert decision is not None
        if decision.paid_by is None or decision.due_at is None:
            break
        counters = counters_after(counters, decision.paid_by)
        paid.append(Payment(decision.paid_by, now))
        retry_count, now = retry_count + 1, decision.due_at
        assert sum(counters.values()) == retry_count
        assert retry_count + 1 <= _most(counters, effective, settings)
    assert global_max_retries is None or retry_count <= global_max_retries
    # A chain never has more attempts than its first one was told.
    assert retry_count + 1 <= _most({}, effective, settings)
    rows = budgets(counters, effective, (), settings)
    # A budget with a window tells all that it ever paid; the limit is for what is within it.
    assert all(row["limit"] is None or _most_at_once(row, paid) <= row["limit"] for row in rows)
    assert set(counters) <= {row["name"] for row in rows}


@given(
    termination=strategies.terminations,
    max_retries=st.integers(0, 5),
    retry_count=st.integers(0, 6),
)
def test_without_a_preemption_budget_one_count_decides(
    termination: Termination, max_retries: int, retry_count: int
) -> None:
    chain = a_chain(retry_count=retry_count)
    policy = InlinePolicy(max_retries=max_retries)
    decision = decide(Ended(termination), chain, Rulebook(policy), NOW, 0.5)
    assert decision is not None
    never = cause_class(classify(termination)) == "never"
    refused = never or retry_count >= max_retries
    assert (decision.action == "fail") == refused
    assert (decision.retry_state == "exhausted") == (not never and 0 < max_retries <= retry_count)


@given(strategies.terminations, strategies.policies(max_retries=3, jitter="deterministic"))
def test_deterministic_jitter_takes_nothing_from_chance(
    termination: Termination, policy: InlinePolicy
) -> None:
    chain = a_chain(session_id=SESSION_ID)
    outcomes = [
        decide(Ended(termination), chain, Rulebook(policy), NOW, random) for random in (0.0, 0.999)
    ]
    assert outcomes[0] == outcomes[1]
