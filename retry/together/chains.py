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

from retry.breakers import PROBE_SECONDS, BreakerRule, ProbeEnd, probe_end, scope_key
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
from retry.together.assumptions import BESIDE_OTHERS
from retry.together.breakers import Breakers
from retry.together.budgets import Budgets

SPENT = "shared_budget_spent"


@dataclass(frozen=True, slots=True)
class Rules:
    """The breakers and shared budgets that count in a simulation, by the keys of their scopes.

    `project_id` is the project whose chains it shows. `muted` are the signatures of projects that
    open no breaker there.
    """

    project_id: int
    breakers: Mapping[str, BreakerRule] = field(default_factory=dict)
    budgets: Mapping[str, SharedBudget] = field(default_factory=dict)
    muted: frozenset[tuple[int, str]] = frozenset()

    def proposed(self, changes: Mapping[str, BreakerRule | SharedBudget | None]) -> "Rules":
        """Return these rules with another `breaker` or `retry_budget` of the project; a None takes
        it back."""
        found: dict[str, Any] = {"breaker": dict(self.breakers), "retry_budget": dict(self.budgets)}
        key = scope_key(self.project_id, None)
        for name, rule in changes.items():
            found[name].pop(key, None)
            if rule is not None:
                found[name][key] = rule
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
    tally: TogetherTally
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
    """Decide about chains side by side. Yield the attempts of each chain of the project, then its
    outcome, in the order of their ends. The chains of other projects only count in the rules.

    The chains come in the order in which they were created. The sums are in `tally` at the end.
    """
    return _Together(rules, tally).decided(iter(chains))


class _Together:
    """The chains that are on their way, and what is to happen next."""

    def __init__(self, rules: Rules, tally: TogetherTally):
        self._project_id = rules.project_id
        self._tally, self._of_others = tally, TogetherTally()
        self._breakers: Breakers[_Run] = Breakers(rules.breakers, rules.muted)
        self._met: set[str] = set()
        """The keys of the open breakers that chains of the project opened, or that held one."""
        self._budgets: Budgets[_Run] = Budgets(rules.budgets)
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
            if not self._is_own(run):
                continue
            yield from run.attempts
            last = run.attempts[-1] if run.attempts else None
            outcome = outcome_after(last, run.past.record)
            self._tally.ended(run.past, last, outcome.name, run.spared)
            self._tally.spared += len(run.spared)
            yield outcome
        self._done.clear()

    def _is_own(self, run: _Run) -> bool:
        return run.tally is self._tally

    def _at(self, when: float, happen: Callable[[Any], None], what: Any) -> None:
        heappush(self._events, (when, next(self._numbers), happen, what))

    def _begin(self, past: Past, rulebook: Rulebook) -> None:
        own = past.place.project_id == self._project_id
        tally = self._tally if own else self._of_others
        run = _Run(ChainReplay(past, rulebook), next(self._numbers), tally)
        self._budgets.submitted(past.place, past.created)
        self._goes_on(run)

    def _goes_on(self, run: _Run) -> None:
        """Wait for the end of the next attempt, if it is known."""
        if run.replay.knows_more:
            self._at(_seconds(run, run.replay.ends_at), self._end, run)
        else:
            self._done.append(run)

    def _end(self, run: _Run) -> None:
        """Decide about the end of an attempt."""
        ending, place = run.replay.ending, run.past.place
        breaker = self._breakers.holder(place, ending.signature, self._now)
        spent = self._budgets.spent(place, self._now)
        attempt = run.replay.decide(Verdict(breaker.key if breaker else "", spent))
        run.tally.decided(attempt.decision)
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
        place = run.past.place
        for opened in self._breakers.failed(run.order, place, ending.signature, self._now):
            self._met.discard(opened.key)
            if self._project_id in opened.projects:
                self._meet(opened.key)
            self._at(opened.probe_at, self._probe, opened.key)

    def _meet(self, key: str) -> None:
        """Count an open breaker, unless it is counted already: it concerns the project."""
        if key not in self._met:
            self._met.add(key)
            self._tally.opened += 1

    def _due(self, run: _Run) -> None:
        """Start a retry that is due, unless a breaker or a budget holds it."""
        place, session_id = run.past.place, run.attempts[-1].session_id
        signature = "" if run.platform else run.replay.ending.signature
        breaker = self._breakers.holder(place, signature, self._now, session_id)
        if breaker is not None:
            if self._is_own(run):
                self._meet(breaker.key)
            self._hold(run, BREAKER, breaker.key, signature=signature)
            run.broken = True
            self._breakers.wait(breaker.key, (run.due, run.order), run)
            self._probe(breaker.key)
            return
        platform, created = run.platform, run.past.created
        if run.decision.paid_by != SCHEDULER_BUDGET:
            scope = self._budgets.full(place, created, self._now, platform=platform)
            if scope:
                self._hold(run, SHARED_BUDGET, scope)
                self._budgets.wait(scope, (created, run.order), run)
                self._watch()
                return
            self._budgets.charge(place, self._now, platform=platform)
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
        run.tally.held[held_for] += 1
        run.attempts[-1] = held(run.attempts[-1], held_for, key, **facts)

    def _let_go(self, run: _Run) -> None:
        if run.held_for:
            seconds = self._now - run.held_since
            run.tally.held_seconds[run.held_for] += seconds
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
