"""Past chains decided anew in the order of time, with their breakers and shared budgets.

The events are the ends of attempts, retries that come due, probes, and minutes in which budgets may
have room again. A chain is read when its time comes, and forgotten when it is done.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any, cast

from retry.breakers import PROBE_SECONDS, BreakerRule, ProbeEnd, probe_end
from retry.engine.budgets import SCHEDULER_BUDGET
from retry.engine.decision import BREAKER, SHARED_BUDGET, Decision, Rulebook
from retry.evidence.causes import FAILURE_CAUSES, PLATFORM_CAUSES
from retry.policies.shared_budget import SharedBudget
from retry.shared_budgets import MINUTE
from retry.simulate import (
    ASSUMPTIONS,
    HOLDS,
    ROOT_CREATED_AT,
    Attempt,
    ChainReplay,
    Ending,
    Outcome,
    Past,
    Tally,
    Verdict,
    held,
    outcome_after,
)
from retry.together.breakers import Breakers
from retry.together.budgets import Budgets

SPENT = "shared_budget_spent"
BESIDE_OTHERS = (
    "Nothing is counted before the window, and nothing of other projects: breakers and budgets of"
    " the cluster and of the domain are left out.\n"
    "A retry that a breaker held takes the place of the first attempt of its chain that had not"
    " failed with the same signature by then. Those that had are spared.\n"
    "A probe goes as that attempt went. If its chain made none, the probe fails while other chains"
    " fail so within the breaker's window, and else succeeds.\n"
    "Verdicts come without delay, and storm limits are left out."
).splitlines()
"""What history does not show of breakers and budgets, and what is assumed instead."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The breakers and shared budgets of a project (None) and of its queues, by their ids.

    `muted` are the signatures that open no breaker.
    """

    project_id: int
    breakers: Mapping[int | None, BreakerRule] = field(default_factory=dict)
    budgets: Mapping[int | None, SharedBudget] = field(default_factory=dict)
    muted: frozenset[str] = frozenset()

    def proposed(self, changes: Mapping[str, BreakerRule | SharedBudget | None]) -> "Rules":
        """Return these rules with another `breaker` or `retry_budget` of the project; a None takes
        it back."""
        found: dict[str, Any] = {"breaker": dict(self.breakers), "retry_budget": dict(self.budgets)}
        for name, rule in changes.items():
            found[name].pop(None, None)
            if rule is not None:
                found[name][None] = rule
        return replace(self, breakers=found["breaker"], budgets=found["retry_budget"])

    def __bool__(self) -> bool:
        return bool(self.breakers or self.budgets)


@dataclass(slots=True)
class TogetherTally(Tally):
    """The sums of a simulation with breakers and shared budgets; times are in seconds."""

    held_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    spared: int = 0
    opened: int = 0

    def together_summary(self) -> dict[str, Any]:
        """Return the sums, with what was held and spared, and the assumptions."""
        return {
            **self.history_summary(),
            "held": dict(self.held),
            "held_seconds": {name: round(value, 3) for name, value in self.held_seconds.items()},
            "spared_retries": self.spared,
            "breakers_opened": self.opened,
            "assumptions": [*ASSUMPTIONS, *BESIDE_OTHERS],
        }


@dataclass(slots=True, eq=False)
class _Run:
    """A chain on its way: its attempts so far, and how its retry waits."""

    replay: ChainReplay
    order: int
    attempts: list[Attempt] = field(default_factory=list)
    spared: list[Ending] = field(default_factory=list)
    due: float = 0.0
    due_at: datetime = ROOT_CREATED_AT
    held_for: str = ""
    held_since: float = 0.0
    held_seconds: float = 0.0
    broken: bool = False
    """Whether a breaker held the retry."""
    probing: str = ""
    """The key of the breaker whose probe it is."""

    @property
    def past(self) -> Past:
        return self.replay.past

    @property
    def decision(self) -> Decision:
        """Return the decision about its last attempt, which did not succeed."""
        return cast("Decision", self.attempts[-1].decision)

    @property
    def platform(self) -> bool:
        """Return whether its last attempt failed by a cause of the platform."""
        return self.decision.cause in PLATFORM_CAUSES


def simulate_together(
    chains: Iterable[tuple[Past, Rulebook]], rules: Rules, tally: TogetherTally
) -> Iterator[Attempt | Outcome]:
    """Decide about the chains of a project side by side. Yield the attempts of each, then its
    outcome, in the order of their ends.

    The chains come in the order in which they were created. The sums are in `tally` at the end.
    """
    return _Project(rules, tally).decided(iter(chains))


class _Project:
    """The chains that are on their way, and what is to happen next."""

    def __init__(self, rules: Rules, tally: TogetherTally):
        self._tally = tally
        self._breakers: Breakers[_Run] = Breakers(rules.project_id, rules.breakers, rules.muted)
        self._budgets: Budgets[_Run] = Budgets(rules.project_id, rules.budgets)
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._numbers = count()
        self._now = 0.0
        self._done: list[_Run] = []
        self._watched_until = 0.0
        """Until when lines of budgets are looked at; 0.0 while nothing waits in one."""

    def decided(self, chains: Iterator[tuple[Past, Rulebook]]) -> Iterator[Attempt | Outcome]:
        """Yield the attempts and the outcome of each chain."""
        upcoming = next(chains, None)
        while upcoming is not None or self._events:
            if upcoming is not None and (
                not self._events or upcoming[0].created <= self._events[0][0]
            ):
                self._begin(*upcoming)
                upcoming = next(chains, None)
            else:
                when, _, happen, what = heappop(self._events)
                self._now = max(self._now, when)
                happen(what)
            yield from self._told()
        for run in self._budgets.waiting():
            self._let_go(run)
            self._done.append(run)
        yield from self._told()

    def _told(self) -> Iterator[Attempt | Outcome]:
        for run in self._done:
            yield from run.attempts
            last = run.attempts[-1] if run.attempts else None
            outcome = outcome_after(last, run.past.record)
            self._tally.ended(run.past, last, outcome.name, run.spared)
            self._tally.spared += len(run.spared)
            yield outcome
        self._done.clear()

    def _at(self, when: float, happen: Callable[[Any], None], what: Any) -> None:
        heappush(self._events, (when, next(self._numbers), happen, what))

    def _begin(self, past: Past, rulebook: Rulebook) -> None:
        run = _Run(ChainReplay(past, rulebook), next(self._numbers))
        self._budgets.submitted(past.queue_id, past.created)
        self._goes_on(run)

    def _goes_on(self, run: _Run) -> None:
        """Wait for the end of the next attempt, if it is known."""
        if run.replay.knows_more:
            self._at(_seconds(run, run.replay.ends_at), self._end, run)
        else:
            self._done.append(run)

    def _end(self, run: _Run) -> None:
        """Decide about the end of an attempt."""
        ending, queue_id = run.replay.ending, run.past.queue_id
        breaker = self._breakers.holder(queue_id, ending.signature, self._now)
        spent = self._budgets.spent(queue_id, self._now)
        attempt = run.replay.decide(Verdict(breaker.key if breaker else "", spent))
        self._tally.decided(attempt.decision)
        run.attempts.append(attempt)
        if run.probing:
            self._judge(run, ending)
        if attempt.decision is not None and attempt.decision.cause in FAILURE_CAUSES:
            self._count(run, ending)
        self._follow(run, attempt)

    def _follow(self, run: _Run, attempt: Attempt) -> None:
        decision = attempt.decision
        if attempt.retries and decision is not None and decision.due_at is not None:
            run.due_at, run.due = decision.due_at, _seconds(run, decision.due_at)
            run.held_seconds, run.broken = 0.0, False
            self._at(run.due, self._due, run)
            return
        if decision is not None and decision.reason == SPENT:
            run.spared += run.replay.left[1:]
        self._done.append(run)

    def _count(self, run: _Run, ending: Ending) -> None:
        """Count a failure; breakers that it opens probe later."""
        if not ending.signature or ending.generic:
            return
        queue_id = run.past.queue_id
        opened = self._breakers.failed(run.order, queue_id, ending.signature, self._now)
        self._tally.opened += len(opened)
        for key, probe_at in opened.items():
            self._at(probe_at, self._probe, key)

    def _due(self, run: _Run) -> None:
        """Start a retry that is due, unless a breaker or a budget holds it."""
        queue_id, session_id = run.past.queue_id, run.attempts[-1].session_id
        signature = "" if run.platform else run.replay.ending.signature
        breaker = self._breakers.holder(queue_id, signature, self._now, session_id)
        if breaker is not None:
            self._hold(run, BREAKER, breaker.key, signature=signature)
            run.broken = True
            self._breakers.wait(breaker.key, (run.due, run.order), run)
            self._probe(breaker.key)
            return
        platform, created = run.platform, run.past.created
        if run.decision.paid_by != SCHEDULER_BUDGET:
            scope = self._budgets.full(queue_id, created, self._now, platform=platform)
            if scope:
                self._hold(run, SHARED_BUDGET, scope)
                self._budgets.wait(scope, (created, run.order), run)
                self._watch()
                return
            self._budgets.charge(queue_id, self._now, platform=platform)
        self._start(run)

    def _start(self, run: _Run) -> None:
        self._let_go(run)
        signature = run.replay.ending.signature
        run.replay.proceed(run.decision, run.due_at + timedelta(seconds=run.held_seconds))
        while run.broken and run.replay.knows_more:
            ending = run.replay.ending
            if ending.signature != signature or ending.ended > self._now:
                break
            run.spared.append(ending)
            run.replay.pass_over()
        if run.probing and not run.replay.knows_more:
            key, run.probing = run.probing, ""
            fails = self._breakers.fails_still(key, self._now)
            self._probed(key, ProbeEnd.FAILED if fails else ProbeEnd.CLOSES)
        self._goes_on(run)

    def _hold(self, run: _Run, held_for: str, key: str, **facts: Any) -> None:
        if run.held_for == held_for:
            return
        self._let_go(run)
        run.held_for, run.held_since = held_for, self._now
        self._tally.held[held_for] += 1
        run.attempts[-1] = held(run.attempts[-1], held_for, key, **facts)

    def _let_go(self, run: _Run) -> None:
        if run.held_for:
            seconds = self._now - run.held_since
            self._tally.held_seconds[run.held_for] += seconds
            run.held_seconds, run.held_for = run.held_seconds + seconds, ""
        if run.decision.held_for in HOLDS:
            run.attempts[-1] = run.attempts[-1]._replace(held_seconds=run.held_seconds)

    def _probe(self, key: str) -> None:
        """Let the oldest due retry through, if it is time for a probe."""
        run = self._breakers.next_probe(key, self._now)
        if run is None:
            return
        session_id = run.attempts[-1].session_id
        self._breakers.probe(key, session_id)
        run.probing = key
        self._at(self._now + PROBE_SECONDS, self._late, (key, run, session_id))
        self._due(run)

    def _late(self, probe: tuple[str, _Run, str]) -> None:
        """Hand the probe on if it has not ended."""
        key, run, session_id = probe
        if self._breakers.is_probe(key, session_id):
            run.probing = ""
            self._probed(key, ProbeEnd.HANDED_ON)

    def _judge(self, run: _Run, ending: Ending) -> None:
        """Apply the end of a probe to its breaker."""
        key, run.probing = run.probing, ""
        decision = run.attempts[-1].decision
        end = probe_end(
            key.rpartition("/")[2],
            status=ending.termination.status.upper(),
            signature=ending.signature,
            platform=decision is not None and decision.cause in PLATFORM_CAUSES,
        )
        self._probed(key, end)

    def _probed(self, key: str, end: ProbeEnd) -> None:
        released, probe_at = self._breakers.probed(key, end, self._now)
        for run in released:
            self._due(run)
        if probe_at is not None:
            self._at(probe_at, self._probe, key)

    def _watch(self) -> None:
        """Look at the lines of the budgets each minute, until nothing can change any more."""
        if not self._watched_until:
            self._next_minute()
        self._watched_until = self._now + self._budgets.longest + 2 * MINUTE

    def _next_minute(self) -> None:
        self._at((self._now // MINUTE + 1) * MINUTE, self._minute, None)

    def _minute(self, _: None) -> None:
        leaving = self._budgets.leave(self._now)
        if leaving:
            self._watched_until = self._now + self._budgets.longest + 2 * MINUTE
        for run in leaving:
            self._due(run)
        if self._budgets.any_waits and (self._events or self._now < self._watched_until):
            self._next_minute()
        else:
            self._watched_until = 0.0


def _seconds(run: _Run, moment: datetime) -> float:
    """Return a moment of a simulated chain in seconds since the epoch."""
    return run.past.created + (moment - ROOT_CREATED_AT).total_seconds()
