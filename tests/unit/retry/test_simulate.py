"""Chains of ends, decided one after another by the engine itself."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.quantity import parse
from retry.engine.decide import Chain, Rulebook, Settings, counters_after, decide
from retry.engine.decision import Payment
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.documents import PolicyDocument
from retry.policies.inline import InlinePolicy
from retry.policies.matching import NamedPolicy, compile_policy
from retry.policies.merge import NO_BOUNDS
from retry.simulate import (
    MAX_CHANGED,
    ROOT_CREATED_AT,
    SHIPPED,
    Attempt,
    Draft,
    Ending,
    Outcome,
    Past,
    Record,
    Tally,
    made_up_id,
    outcome_after,
    replay,
    simulate,
)
from tests.unit.retry import strategies
from tests.unit.retry.build import PREEMPTED, a_policy, exited

OOM = Termination(conditions=("OOMKilled",), exit_code=137, node="n1")
SUCCESS = Termination(status="terminated")


def named(name: str, *rules: dict[str, Any], **spec: Any) -> NamedPolicy:
    document = {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": name},
        "spec": {**spec, "rules": list(rules)},
    }
    return compile_policy(PolicyDocument.model_validate(document), revision=None)


def rule(name: str, *conditions: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "action": "Retry", "onConditions": list(conditions), **fields}


def ends(*terminations: Termination, **fields: Any) -> list[Ending]:
    return [Ending(each, made_up_id(0, at), **fields) for at, each in enumerate(terminations)]


def past(*terminations: Termination, record: Record | None = None, **fields: Any) -> Past:
    resources = fields.pop("resources", {})
    return Past("batch", resources, ends(*terminations, **fields), record)


def rulebook(*policies: NamedPolicy, **fields: Any) -> Rulebook:
    return Rulebook(a_policy(**fields), named=policies)


def run(chain: Past, book: Rulebook) -> tuple[list[Attempt], str]:
    """The attempts of a chain and its outcome."""
    attempts = list(replay(chain, book))
    return attempts, outcome_after(attempts[-1] if attempts else None, chain.record).name


def test_a_chain_goes_on_until_its_budget_is_spent() -> None:
    attempts, outcome = run(past(*[exited(1)] * 5), rulebook(max_retries=2))
    decisions = [each.decision for each in attempts]
    assert [d and (d.action, d.reason, d.paid_by, d.used, d.limit) for d in decisions] == [
        ("retry", "inline_retry", "inline/failure", 0, 2),
        ("retry", "inline_retry", "inline/failure", 1, 2),
        ("fail", "max_retries", None, 2, 2),
    ]
    assert outcome == "exhausted"


@pytest.mark.parametrize(
    ("terminations", "outcome", "attempts"),
    [
        ([], "retrying", 0),
        ([exited(1)], "retrying", 1),
        ([exited(1), SUCCESS], "succeeded", 2),
        ([SUCCESS, exited(1)], "succeeded", 1),
        ([exited(1), Termination(status="cancelled"), exited(1)], "cancelled", 2),
        ([Termination(reason="InvalidImageName")], "not_retried", 1),
        ([exited(1), exited(1), exited(1), SUCCESS], "exhausted", 3),
    ],
)
def test_the_end_of_a_chain(terminations: list[Termination], outcome: str, attempts: int) -> None:
    found = run(past(*terminations), rulebook(max_retries=2))
    assert (len(found[0]), found[1]) == (attempts, outcome)


def test_a_chain_that_nobody_enabled_is_not_exhausted() -> None:
    assert run(past(exited(1)), SHIPPED)[1] == "not_retried"


def test_memory_grows_from_what_the_last_attempt_had() -> None:
    policy = named(
        "ml", rule("oom", "OOMKilled", resources={"memory": {"factor": 1.5, "max": "8Gi"}})
    )
    chain = past(OOM, OOM, OOM, OOM, resources={"cpu": "2", "memory": "4Gi"})
    attempts, _ = run(chain, rulebook(policy))
    granted = [each.decision.resources for each in attempts if each.decision]
    assert granted == [{"cpu": "2", "memory": m} for m in ("6Gi", "8Gi", "8Gi", "8Gi")]


def test_the_moments_of_the_ends() -> None:
    """Given, when the retry came due, or some time after that."""
    policy = a_policy(max_retries=9, retry_delay=60, jitter="none", max_chain_duration=400)
    endings = [
        Ending(exited(1), "a"),
        Ending(exited(1), "b"),
        Ending(exited(1), "c", at=200.0),
        Ending(exited(1), "d", lasted=70.0),
    ]
    attempts = list(replay(Past("batch", {}, endings), Rulebook(policy)))
    due = [
        (each.decision.due_at - ROOT_CREATED_AT).total_seconds()
        for each in attempts
        if each.decision and each.decision.due_at
    ]
    assert due == [60, 120, 260, 390]


def test_a_preemption_counts_from_when_it_was_first_seen() -> None:
    policy = a_policy(max_retries=9, retry_delay=60, jitter="none")
    endings = [Ending(PREEMPTED, "a", at=100.0, preempted_for=50.0)]
    (attempt,) = replay(Past("batch", {}, endings), Rulebook(policy))
    assert attempt.decision is not None
    assert attempt.decision.due_at == ROOT_CREATED_AT + timedelta(seconds=110)
    assert attempt.decision.delay == 60


def test_random_jitter_is_the_same_for_the_same_input() -> None:
    book = rulebook(max_retries=99, retry_delay=100, jitter="random", jitter_ratio=1)
    chain = past(*[exited(1)] * 50)
    delays = [[each.decision and each.decision.delay for each in replay(chain, book)] for _ in "ab"]
    assert delays[0] == delays[1]
    assert len(set(delays[0])) == 50
    deterministic = rulebook(max_retries=99, retry_delay=100, jitter_ratio=1)
    others = [each.decision and each.decision.delay for each in replay(chain, deterministic)]
    assert not set(others) & set(delays[0])


def test_armadas_example() -> None:
    """Ten preemptions and three kills for want of memory, apart from each other."""
    infra = named("infra", rule("gone", "Preempted", "Evicted"), retryLimit=10)
    ml = named("ml-training", rule("oom", "OOMKilled", retryLimit=3), retryLimit=5)
    chain = past(*[PREEMPTED, OOM] * 3, *[PREEMPTED] * 7, OOM)
    attempts, outcome = run(chain, rulebook(infra, ml))
    assert [each.decision.rule for each in attempts if each.decision] == (
        ["infra/gone", "ml-training/oom"] * 3 + ["infra/gone"] * 7 + ["ml-training/oom"]
    )
    last = attempts[-1].decision
    assert last is not None
    assert (outcome, last.reason, last.used, last.limit) == ("exhausted", "rule_limit", 3, 3)
    eleventh = run(past(*[PREEMPTED] * 11), rulebook(infra, ml))[0][-1].decision
    assert eleventh is not None
    assert (eleventh.reason, eleventh.used, eleventh.limit) == ("rule_limit", 10, 10)


def test_flusters_budgets() -> None:
    """Three failures and a hundred preemptions."""
    book = rulebook(max_retries=3, max_preemption_retries=100)
    mixed = [PREEMPTED] * 60 + [exited(1)] * 3 + [PREEMPTED] * 40
    attempts, outcome = run(past(*mixed), book)
    assert (len(attempts), outcome) == (103, "retrying")
    assert run(past(*mixed, exited(1)), book)[1] == "exhausted"
    last = run(past(*mixed, PREEMPTED), book)[0][-1].decision
    assert last is not None
    assert last.reason == "preemption_budget"


ends_of_backend_ai = st.lists(st.sampled_from([exited(1), PREEMPTED, OOM, Termination()]))


@given(terminations=ends_of_backend_ai, max_retries=st.integers(0, 8))
def test_backend_ais_rule(terminations: list[Termination], max_retries: int) -> None:
    """Without named policies and a preemption budget: `retry_count >= max_retries` ends it."""
    attempts, outcome = run(past(*terminations), rulebook(max_retries=max_retries))
    assert len(attempts) == min(len(terminations), max_retries + 1)
    if len(terminations) <= max_retries:
        assert outcome == "retrying"
    else:
        assert outcome == ("exhausted" if max_retries else "not_retried")


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    found = draw(st.lists(strategies.terminations | st.just(SUCCESS), max_size=8))
    at = draw(st.none() | st.floats(0, 1e6))
    return past(*found, at=at, resources={"memory": "1Gi"})


GROWING = named("g", rule("oom", "OOMKilled", resources={"memory": {"factor": 2, "max": "6Gi"}}))
books = st.builds(
    Rulebook,
    policy=strategies.policies(),
    named=st.sampled_from([(), (GROWING,), (named("d", defaultAction="Retry", retryLimit=2),)]),
    bounds=strategies.bounds,
    settings=strategies.settings,
)


@given(chain=pasts(), book=books)
def test_each_decision_is_the_engines(chain: Past, book: Rulebook) -> None:
    counters: dict[str, int] = {}
    paid: list[Payment] = []
    resources = chain.resources
    due = ROOT_CREATED_AT
    attempts = list(replay(chain, book))
    for number, (attempt, ending) in enumerate(zip(attempts, chain.endings, strict=False)):
        at = ending.at
        now = due if at is None else ROOT_CREATED_AT + timedelta(seconds=at)
        context = Chain(
            ending.session_id, "batch", number, ROOT_CREATED_AT, counters, resources, paid=paid
        )
        expected = decide(Ended(ending.termination), context, book, now, 0.0)
        if attempt.decision is None or expected is None:
            assert attempt.decision is expected
            break
        # Random jitter apart, which is the simulation's own.
        if book.policy.jitter != "random":
            assert attempt.decision == expected
        assert attempt.number == number
        if attempt.decision.due_at is None:
            break
        counters = counters_after(counters, str(attempt.decision.paid_by))
        paid = [*paid, Payment(str(attempt.decision.paid_by), now)]
        resources = attempt.decision.resources or {}
        due = attempt.decision.due_at
    stopped = [each for each in attempts if not each.decision or each.decision.action == "fail"]
    assert stopped in ([], attempts[-1:])
    assert len(attempts) == len(chain.endings) or stopped


@given(chain=pasts(), book=books)
def test_the_same_input_gives_the_same_output(chain: Past, book: Rulebook) -> None:
    assert list(replay(chain, book)) == list(replay(chain, book))


@given(chain=pasts())
def test_memory_never_shrinks_along_a_chain(chain: Past) -> None:
    attempts = replay(chain, rulebook(GROWING, max_retries=99))
    granted = [parse(d.resources["memory"]) for a in attempts if (d := a.decision) and d.resources]
    assert all(before <= after for before, after in pairwise([Decimal(2**30), *granted]))


class TestTally:
    def tallied(self, *chains: tuple[Past, Rulebook]) -> Tally:
        tally = Tally()
        for _ in simulate(chains, tally):
            pass
        return tally

    def test_attempts_come_before_the_outcome_of_their_chain(self) -> None:
        book = rulebook(max_retries=1)
        events = list(
            simulate([(past(exited(1), exited(1)), book), (past(SUCCESS), book)], Tally())
        )
        assert [type(each) for each in events] == [Attempt, Attempt, Outcome, Attempt, Outcome]
        assert [each for each in events if isinstance(each, Outcome)] == [
            Outcome("exhausted"), Outcome("succeeded"),
        ]  # fmt: skip

    def test_the_sums(self) -> None:
        book = rulebook(named("i", rule("gone", "Preempted"), retryLimit=2), max_retries=1)
        tally = self.tallied(
            (past(PREEMPTED, PREEMPTED, PREEMPTED), book), (past(exited(1), SUCCESS), book)
        )
        assert tally.summary() == {
            "chains": 2,
            "retries": 3,
            "by_cause": {"preempted": 2, "kernel_nonzero_exit": 1},
            "by_rule": {"i/gone": 2},
            "by_reason": {"rule_retry": 2, "rule_limit": 1, "inline_retry": 1},
            "changed": [],
        }

    def recorded(self, outcome: str, attempts: int, *ran: float, **fields: Any) -> Past:
        endings = [
            replace(each, ran=ran[at]) for at, each in enumerate(ends(*[exited(1)] * len(ran)))
        ]
        record = Record("root", outcome, attempts, **fields)
        return Past("batch", {}, endings, record)

    @pytest.mark.parametrize(
        ("outcome", "attempts", "ran", "max_retries", "would_be", "added", "seconds"),
        [
            # As it was.
            ("exhausted", 3, (5, 6, 7), 2, "exhausted", 0, 0),
            # One attempt less, and it ran for 7 s.
            ("exhausted", 3, (5, 6, 7), 1, "exhausted", -1, -7),
            ("exhausted", 3, (5, 6, 7), 0, "not_retried", -2, -13),
            # One more, which is taken to run as long as the last.
            ("exhausted", 3, (5, 6, 7), 3, "retrying", 1, 7),
            # The third waits, or runs still.
            ("retrying", 3, (5, 6), 2, "retrying", 0, 0),
            ("retrying", 3, (5, 6), 1, "exhausted", -1, 0),
        ],
    )
    def test_attempts_and_time_added_by_a_change(
        self,
        outcome: str,
        attempts: int,
        ran: Sequence[float],
        max_retries: int,
        would_be: str,
        added: int,
        seconds: float,
    ) -> None:
        chain = self.recorded(outcome, attempts, *ran)
        tally = self.tallied((chain, rulebook(max_retries=max_retries)))
        summary = tally.history_summary()
        assert (summary["added_attempts"], summary["added_run_seconds"]) == (added, seconds)
        differs = [{"root": "root", "was": outcome, "would_be": would_be}]
        assert summary["changed"] == (differs if would_be != outcome else [])

    def test_a_chain_that_was_cancelled_while_it_waited_still_is(self) -> None:
        chain = self.recorded("cancelled", 1, 5, cancelled_waiting=True)
        assert self.tallied((chain, rulebook(max_retries=1))).changed == []
        tally = self.tallied((chain, SHIPPED))
        assert tally.changed == [{"root": "root", "was": "cancelled", "would_be": "not_retried"}]
        assert tally.added_attempts == 0

    def test_only_so_many_changed_chains_are_listed(self) -> None:
        chain = self.recorded("exhausted", 1, 5)
        tally = self.tallied(*[(chain, SHIPPED)] * (MAX_CHANGED + 5))
        assert len(tally.changed) == MAX_CHANGED
        assert tally.chains == MAX_CHANGED + 5

    def test_nothing_is_kept_of_a_chain_that_is_done(self) -> None:
        asked = 0

        def chains() -> Iterator[tuple[Past, Rulebook]]:
            nonlocal asked
            while True:
                asked += 1
                yield past(exited(1)), SHIPPED

        events = simulate(chains(), Tally())
        for _ in range(10):
            next(events)
        assert asked == 5


class TestDraft:
    BASE = Rulebook(
        a_policy(max_retries=5, retry_delay=7),
        named=(GROWING,),
        settings=Settings(global_max_retries=9),
    )

    def test_an_empty_one_changes_nothing(self) -> None:
        assert Draft().over(self.BASE) == self.BASE

    def test_it_replaces_named_policies_even_by_none(self) -> None:
        assert Draft(named=()).over(self.BASE).named == ()

    def test_of_the_inline_policy_the_fields_that_are_set(self) -> None:
        changed = Draft(policy=InlinePolicy(max_retries=0)).over(self.BASE).policy
        assert (changed.max_retries, changed.retry_delay) == (0, 7)

    def test_the_switch_and_the_limit(self) -> None:
        settings = Draft(enabled=False, global_max_retries=1).over(self.BASE).settings
        assert (settings.mode.value, settings.global_max_retries) == ("off", 1)

    def test_the_limit_of_all_chains_may_go(self) -> None:
        assert (
            Draft(global_max_retries="unlimited").over(self.BASE).settings.global_max_retries
            is None
        )

    def test_the_shipped_defaults(self) -> None:
        book = Draft().over(SHIPPED)
        assert book.policy == InlinePolicy()
        assert (book.named, book.bounds, book.settings) == ((), NO_BOUNDS, Settings())
        assert book.settings.global_max_retries == 150
