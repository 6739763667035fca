"""Past chains side by side: what breakers and shared budgets would have done."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.breakers import BreakerRule
from retry.engine.decide import Rulebook
from retry.evidence.termination import Termination
from retry.explain.sentences import explain
from retry.policies.shared_budget import SharedBudget
from retry.simulate import (
    Attempt,
    Ending,
    Outcome,
    Past,
    Place,
    Record,
    Tally,
    made_up_id,
    simulate,
)
from retry.together.chains import Rules, TogetherTally, simulate_together
from tests.unit.retry.build import PREEMPTED, a_policy, exited

BAD = "bad000000000"
SUCCESS = Termination(status="terminated")
HERE = Place(queue_id=3, project_id=7, domain_id=5)
CLUSTER, DOMAIN, PROJECT, QUEUE = HERE.scopes


def chain(
    number: int,
    created: float,
    *ends: str | Termination,
    gap: float = 60.0,
    place: Place = HERE,
) -> Past:
    """Return a chain whose attempts ran for 10 s each, with `gap` between them; a text is the
    signature of a failure."""
    endings = [
        Ending(
            exited(1) if isinstance(each, str) else each,
            made_up_id(number, at),
            lasted=10.0,
            ran=10.0,
            signature=each if isinstance(each, str) else "",
            ended=created + 10 + at * (gap + 10),
        )
        for at, each in enumerate(ends)
    ]
    last = ends[-1]
    outcome = "succeeded" if last is SUCCESS else "exhausted"
    record = Record(f"root{number}", outcome, len(ends))
    return Past("batch", {}, endings, record, created=created, place=place)


def book(delay: float = 60.0, **fields: Any) -> Rulebook:
    return Rulebook(
        a_policy(**{"max_retries": 2, "retry_delay": delay, "jitter": "none", **fields})
    )


class Found:
    """What a simulation says."""

    def __init__(self, pasts: list[Past], rules: Rules, rulebook: Rulebook):
        self.tally = TogetherTally()
        self.chains: dict[str, tuple[list[Attempt], str]] = {}
        attempts: list[Attempt] = []
        for each in simulate_together(((past, rulebook) for past in pasts), rules, self.tally):
            if isinstance(each, Outcome):
                self.chains[attempts[0].session_id] = attempts, each.name
                attempts = []
            else:
                attempts.append(each)
        self.summary = self.tally.together_summary()

    def holds(self, number: int) -> list[tuple[str, float | None]]:
        """Return what held the retries of a chain, and for how long."""
        attempts, _ = self.chains[made_up_id(number, 0)]
        return [
            (each.decision.held_for, each.held_seconds)
            for each in attempts
            if each.decision is not None and each.decision.held_for
        ]

    def outcomes(self) -> list[str]:
        return [outcome for _, outcome in self.chains.values()]


def breaker(**fields: Any) -> Rules:
    rule = BreakerRule(**{"chains": 3, "window": 600, "probe_after": 60, **fields})
    return Rules(7, breakers={PROJECT: rule})


def budget(**fields: Any) -> Rules:
    rule = SharedBudget(**{"ratio": 0, "burst": 1, "window": 60, **fields})
    return Rules(7, budgets={PROJECT: rule})


def outage(*, ends: tuple[str | Termination, ...] = (BAD, BAD, SUCCESS)) -> list[Past]:
    """Return three chains that fail at 10, 20 and 30 s, and whose retries are due 60 s later."""
    return [chain(number, number * 10.0, *ends) for number in range(3)]


def test_a_breaker_holds_retries_until_its_probe_succeeds() -> None:
    found = Found(outage(), breaker(), book())
    # It opens at 30 s. At 90 s the first chain probes, as its third attempt, which ends at 100 s.
    assert [found.holds(number) for number in range(3)] == [
        [("breaker", 20.0)],
        [("breaker", 20.0)],
        [("breaker", 10.0)],
    ]
    assert found.outcomes() == ["succeeded"] * 3
    summary = found.summary
    assert (summary["held"], summary["held_seconds"]) == ({"breaker": 3}, {"breaker": 50.0})
    assert (summary["breakers_opened"], summary["spared_retries"]) == (1, 3)
    assert (summary["added_attempts"], summary["added_run_seconds"]) == (-3, -30)
    assert summary["changed"] == []
    assert any("probe" in each for each in summary["assumptions"])


def test_the_trace_says_what_held_a_retry() -> None:
    found = Found(outage(), breaker(), book())
    attempts, _ = found.chains[made_up_id(0, 0)]
    decision = attempts[0].decision
    assert decision is not None
    *_, held, last = decision.trace
    assert (held["step"], held["result"], held["signature"]) == ("breaker", "held", BAD)
    assert (last["step"], last["state"], last["retry_state"]) == ("decision", "held", "held")
    assert (decision.state, decision.held_key) == ("held", f"project:7/{BAD}")
    said = explain(decision._asdict(), decision.trace)
    assert said[-1] == "The retry is held until the breaker of its signature closes."


def test_the_trace_says_that_a_budget_held_a_retry() -> None:
    pasts = [chain(number, number * 10.0, BAD, SUCCESS, gap=1.0) for number in range(2)]
    attempts, _ = Found(pasts, budget(), book(delay=1.0)).chains[made_up_id(1, 0)]
    decision = attempts[0].decision
    assert decision is not None
    assert explain(decision._asdict(), decision.trace)[-2:] == [
        "The retry budget that all chains of its project share is spent.",
        "The retry is held until the shared retry budget of its project has room.",
    ]


@pytest.mark.parametrize(
    "rules",
    [
        breaker(chains=4),
        Rules(7, breakers={"queue:4": BreakerRule(chains=3)}),
        Rules(7, breakers={CLUSTER: BreakerRule(chains=3)}),
        Rules(7, breakers={PROJECT: BreakerRule(chains=3)}, muted=frozenset({(7, BAD)})),
        breaker(chains=3, window=60, probe_after=1),
    ],
)
def test_a_breaker_that_does_not_open(rules: Rules) -> None:
    pasts = [chain(number, number * 40.0, BAD, SUCCESS, gap=1.0) for number in range(3)]
    found = Found(pasts, rules, book(delay=1.0))
    assert (found.summary["held"], found.summary["breakers_opened"]) == ({}, 0)
    assert found.summary["added_attempts"] == 0


def test_the_breaker_of_a_queue_holds_its_retries() -> None:
    rules = Rules(7, breakers={QUEUE: BreakerRule(chains=3, probe_after=60)})
    assert Found(outage(), rules, book()).summary["held"] == {"breaker": 3}


def test_a_probe_passes_all_breakers_of_its_signature() -> None:
    rules = Rules(
        7,
        breakers={
            QUEUE: BreakerRule(chains=3, probe_after=60),
            PROJECT: BreakerRule(chains=3, probe_after=600),
        },
    )
    found = Found(outage(), rules, book())
    # The queue's probe goes at 90 s and succeeds; the project's begins at 630 s.
    assert found.holds(0) == [("breaker", 20.0)]
    assert found.holds(1) == [("breaker", 630.0 - 80)]


def test_platform_causes_open_none_and_are_not_held() -> None:
    found = Found(outage(ends=(PREEMPTED, SUCCESS)), breaker(chains=2), book())
    assert (found.summary["held"], found.outcomes()) == ({}, ["succeeded"] * 3)


def test_a_probe_that_fails_doubles_the_delay() -> None:
    """Their second attempts ran for long, and fail when they probe."""
    pasts = [chain(number, number * 10.0, BAD, BAD, SUCCESS, gap=5_000.0) for number in range(3)]
    found = Found(pasts, breaker(window=86_400), book())
    # Probes begin at 90 s, and 120 s and then 240 s after the last one's end.
    assert found.holds(0)[0] == ("breaker", 20.0)
    assert found.holds(1)[0] == ("breaker", 90 + 10 + 120 - 80)
    assert found.holds(2)[0] == ("breaker", 220 + 10 + 240 - 90)
    assert found.summary["held"] == {"breaker": 6}


def test_a_probe_that_nobody_made_closes_when_no_chain_fails_so_any_more() -> None:
    found = Found(outage(ends=(BAD, BAD)), breaker(window=60), book(max_retries=1))
    # At 90 s the last failure is 60 s ago, so it still counts; the next probe is 120 s later.
    assert [found.holds(number) for number in range(3)] == [
        [("breaker", 20.0)],
        [("breaker", 130.0)],
        [("breaker", 120.0)],
    ]
    assert found.outcomes() == ["retrying"] * 3
    assert found.summary["spared_retries"] == 3
    assert found.summary["added_attempts"] == 0


def test_a_budget_postpones_retries() -> None:
    pasts = [chain(0, 0.0, BAD, SUCCESS, gap=1.0), chain(1, 10.0, BAD, SUCCESS, gap=1.0)]
    found = Found(pasts, budget(), book(delay=1.0))
    # The retry at 11 s counts until the window no more touches its minute, at 120 s.
    assert (found.holds(0), found.holds(1)) == ([], [("shared_budget", 99.0)])
    assert found.summary["held_seconds"] == {"shared_budget": 99.0}
    assert found.outcomes() == ["succeeded"] * 2
    assert found.summary["added_attempts"] == 0


def test_first_attempts_give_a_budget_room() -> None:
    pasts = [chain(0, 0.0, BAD, SUCCESS, gap=121.0), chain(1, 60.0, BAD, SUCCESS, gap=121.0)]
    found = Found(pasts, budget(burst=0, ratio=1, window=120), book(delay=121.0))
    assert found.summary["held"] == {"shared_budget": 1}


def test_a_budget_ends_chains() -> None:
    pasts = [chain(number, number * 10.0, BAD, BAD, SUCCESS, gap=1.0) for number in range(2)]
    found = Found(pasts, budget(over="fail"), book(delay=1.0))
    # The retry at 11 s is the only one: both failures after it are the ends of their chains.
    assert found.outcomes() == ["exhausted"] * 2
    assert found.summary["by_reason"] == {"inline_retry": 1, "shared_budget_spent": 2}
    assert (found.summary["spared_retries"], found.summary["added_attempts"]) == (3, -3)
    assert found.summary["added_run_seconds"] == -30
    assert [each["root"] for each in found.summary["changed"]] == ["root1", "root0"]


def neighbours(*projects: int, begin: float = 0.0) -> list[Past]:
    """Return chains of other projects of the domain that fail one second after the other, once."""
    return [
        chain(100 + at, begin + at, BAD, SUCCESS, place=Place(100 + project, project, 5))
        for at, project in enumerate(projects)
    ]


def test_the_breaker_of_the_cluster_counts_chains_of_all_projects() -> None:
    rules = Rules(7, breakers={CLUSTER: BreakerRule(chains=3, window=600, probe_after=60)})
    own = chain(0, 5.0, BAD, BAD, SUCCESS)
    found = Found([*neighbours(1, 2), own], rules, book())
    # It opens at 15 s, when the third of three projects fails. The first neighbour's retry is due
    # first, at 70 s, probes at 75 s and succeeds 10 s later.
    assert found.holds(0) == [("breaker", 10.0)]
    assert len(found.chains) == found.summary["chains"] == 1
    assert (found.summary["held"], found.summary["held_seconds"]) == (
        {"breaker": 1},
        {"breaker": 10.0},
    )
    assert found.summary["breakers_opened"] == 1
    (attempts, _) = found.chains[made_up_id(0, 0)]
    decision = attempts[0].decision
    assert decision is not None
    assert decision.held_key == f"cluster/{BAD}"


@pytest.mark.parametrize("projects", [(1,), (1, 1), (1, 1, 1), (1, 2, 2, 2, 2)])
def test_the_breaker_of_the_cluster_needs_three_projects_and_no_majority(
    projects: tuple[int, ...],
) -> None:
    rules = Rules(7, breakers={CLUSTER: BreakerRule(chains=2)})
    found = Found([*neighbours(*projects), chain(0, 9.0, BAD, SUCCESS)], rules, book())
    assert (found.summary["held"], found.summary["breakers_opened"]) == ({}, 0)


def test_a_breaker_of_the_cluster_counts_as_opened_if_it_concerns_the_project() -> None:
    rules = Rules(7, breakers={CLUSTER: BreakerRule(chains=3, window=600, probe_after=600)})
    others = neighbours(1, 2, 3)
    assert (
        Found([*others, chain(0, 20.0, "x", SUCCESS)], rules, book()).summary["breakers_opened"]
        == 0
    )
    # It is open already when the project's chain fails so.
    found = Found([*others, chain(0, 20.0, BAD, SUCCESS)], rules, book())
    assert (found.summary["held"], found.summary["breakers_opened"]) == ({"breaker": 1}, 1)


def test_what_a_project_muted_neither_counts_there_nor_is_held() -> None:
    rule = {CLUSTER: BreakerRule(chains=3, window=600, probe_after=60)}
    own = chain(0, 5.0, BAD, BAD, SUCCESS)
    muted = frozenset({(7, BAD)})
    found = Found([*neighbours(1, 2), own], Rules(7, breakers=rule, muted=muted), book())
    assert (found.summary["held"], found.summary["breakers_opened"]) == ({}, 0)
    found = Found([*neighbours(1, 2, 3), own], Rules(7, breakers=rule, muted=muted), book())
    assert (found.summary["held"], found.summary["breakers_opened"]) == ({}, 0)
    elsewhere = frozenset({(1, BAD)})
    found = Found([*neighbours(1, 2, 3), own], Rules(7, breakers=rule, muted=elsewhere), book())
    assert found.summary["held"] == {"breaker": 1}


@pytest.mark.parametrize(
    ("scope", "elsewhere", "held"),
    [
        (DOMAIN, 5, {"shared_budget": 1}),
        (DOMAIN, 6, {}),
        (CLUSTER, 6, {"shared_budget": 1}),
        (PROJECT, 5, {}),
    ],
)
def test_a_wide_budget_is_spent_by_all_its_projects(
    scope: str, elsewhere: int, held: dict[str, int]
) -> None:
    rules = Rules(7, budgets={scope: SharedBudget(ratio=0, burst=1, window=60)})
    other = chain(1, 0.0, BAD, SUCCESS, gap=1.0, place=Place(4, 8, elsewhere))
    own = chain(0, 10.0, BAD, SUCCESS, gap=1.0)
    found = Found([other, own], rules, book(delay=1.0))
    assert found.summary["held"] == held
    assert found.holds(0) == [(name, 99.0) for name in held]


def test_the_line_of_a_wide_budget_is_of_all_projects() -> None:
    """The oldest chain goes first, whose ever it is."""
    rules = Rules(7, budgets={DOMAIN: SharedBudget(ratio=0, burst=1, window=60)})
    others = [chain(at, at * 1.0, BAD, SUCCESS, gap=1.0, place=Place(4, 8, 5)) for at in (1, 2, 3)]
    found = Found([*others, chain(9, 4.0, BAD, SUCCESS, gap=1.0)], rules, book(delay=1.0))
    # One goes at 12 s, and then one every two minutes: three are before it.
    assert found.holds(9) == [("shared_budget", 3 * 120.0 - 15.0)]


def test_rules_of_other_projects_hold_their_own_chains() -> None:
    """What they hold makes no attempt, so it spends nothing of what all share."""
    wide = {CLUSTER: SharedBudget(ratio=0, burst=1, window=60)}
    other = chain(1, 0.0, BAD, SUCCESS, gap=1.0, place=Place(4, 8, 5))
    own = chain(0, 10.0, BAD, SUCCESS, gap=1.0)
    closed = {**wide, "project:8": SharedBudget(ratio=0, burst=0)}
    assert Found([other, own], Rules(7, budgets=closed), book(delay=1.0)).holds(0) == []
    found = Found([other, own], Rules(7, budgets=wide), book(delay=1.0))
    assert [what for what, _ in found.holds(0)] == ["shared_budget"]


def test_a_budget_of_nothing_holds_for_ever_and_comes_to_an_end() -> None:
    found = Found([chain(0, 0.0, BAD, SUCCESS)], budget(burst=0), book())
    assert found.outcomes() == ["retrying"]
    assert found.summary["held"] == {"shared_budget": 1}
    assert found.summary["held_seconds"]["shared_budget"] > 60


def test_proposed_rules_take_the_place_of_the_projects() -> None:
    budgets = {PROJECT: SharedBudget(), DOMAIN: SharedBudget()}
    rules = Rules(7, {PROJECT: BreakerRule(), QUEUE: BreakerRule(chains=5)}, budgets)
    changed = rules.proposed({"breaker": BreakerRule(chains=2), "retry_budget": None})
    assert (changed.breakers[PROJECT].chains, changed.breakers[QUEUE].chains) == (2, 5)
    assert changed.budgets.keys() == {DOMAIN}
    assert rules.proposed({}) == rules
    assert not Rules(7)


NEIGHBOURS = [HERE._replace(project_id=8, queue_id=4), Place(6, 9, 6)]


@st.composite
def pasts(draw: st.DrawFn, others: Sequence[Place] = ()) -> list[Past]:
    known: list[str | Termination] = [BAD, "other0000000", PREEMPTED]
    last: list[str | Termination] = [SUCCESS, BAD]
    ends = st.lists(st.sampled_from(known), max_size=4)
    created = sorted(draw(st.lists(st.integers(0, 2_000), min_size=1, max_size=8)))
    return [
        chain(
            number,
            float(at),
            *draw(ends),
            draw(st.sampled_from(last)),
            place=draw(st.sampled_from([HERE, *others])),
        )
        for number, at in enumerate(created)
    ]


def together(chains: list[Past], rules: Rules) -> Found:
    return Found(chains, rules, book(max_retries=3))


@given(chains=pasts())
def test_without_rules_it_decides_as_for_one_chain(chains: list[Past]) -> None:
    tally = Tally()
    alone = list(simulate(((past, book(max_retries=3)) for past in chains), tally))
    found = together(chains, Rules(7))
    attempts = {each.session_id: each for each in alone if isinstance(each, Attempt)}
    assert {each.session_id: each for them, _ in found.chains.values() for each in them} == attempts
    sums = found.summary
    expected: Mapping[str, Any] = tally.history_summary()
    assert {**sums, "changed": []} == {
        **expected,
        "changed": [],
        "held": {},
        "held_seconds": {},
        "spared_retries": 0,
        "breakers_opened": 0,
        "assumptions": sums["assumptions"],
    }


RULES = st.builds(
    Rules,
    project_id=st.just(7),
    breakers=st.dictionaries(
        st.sampled_from([CLUSTER, PROJECT, QUEUE]),
        st.builds(BreakerRule, chains=st.integers(2, 4), window=st.sampled_from([60, 600])),
    ),
    budgets=st.dictionaries(
        st.sampled_from(HERE.scopes),
        st.builds(
            SharedBudget,
            ratio=st.sampled_from([0, 0.5]),
            burst=st.integers(0, 3),
            window=st.sampled_from([60, 600]),
            over=st.sampled_from(["postpone", "fail"]),
            platform=st.booleans(),
        ),
    ),
)


@given(chains=pasts(NEIGHBOURS), rules=RULES)
def test_every_chain_comes_to_an_end_and_the_same_input_gives_the_same(
    chains: list[Past], rules: Rules
) -> None:
    found = together(chains, rules)
    own = [past for past in chains if past.place == HERE]
    assert found.chains.keys() == {past.endings[0].session_id for past in own}
    assert found.summary["chains"] == len(own)
    assert found.summary == together(chains, rules).summary
    for attempts, _ in found.chains.values():
        assert [each.number for each in attempts] == list(range(len(attempts)))
        assert all((each.held_seconds or 0.0) >= 0 for each in attempts)
    assert sum(found.summary["held_seconds"].values()) == pytest.approx(
        sum(each.held_seconds or 0.0 for them, _ in found.chains.values() for each in them)
    )
