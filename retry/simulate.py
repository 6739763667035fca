"""Simulation: the engine itself, run over the ends of chains one by one.

Nothing is decided here. Each end goes to `retry.engine.decide` with the result of the retries
before it: counters, resources, and the time at which the attempt was due.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from retry.breakers import CLUSTER, BreakerRule, scope_key
from retry.engine.budgets import counters_after, marks_after
from retry.engine.decide import decide
from retry.engine.decision import (
    BREAKER,
    PARKED,
    SHARED_BUDGET,
    Chain,
    Decision,
    Mode,
    Payment,
    Rulebook,
    Settings,
    SpentBudget,
)
from retry.evidence.causes import FAILURE_CAUSES, PLATFORM_CAUSES
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.backoff import jitter_fraction
from retry.policies.inline import InlinePolicy
from retry.policies.limits import Limit, most_of
from retry.policies.matching import CompiledCategory, NamedPolicy
from retry.policies.shared_budget import SharedBudget

HOLDS = frozenset({BREAKER, SHARED_BUDGET})
"""What other chains do, and holds a retry."""

ROOT_CREATED_AT = datetime(2000, 1, 1, tzinfo=UTC)
"""The start of every simulated chain, so that the same input always gives the same output."""

NAMESPACE = UUID("565844ca-7ace-57fb-a79a-95e5356b5f18")
"""uuid5 of the DNS name `simulate.reprise.invalid`: the namespace of made-up session ids."""

MAX_CHANGED = 1000
"""Maximum number of changed chains that a summary lists."""

ASSUMPTIONS = (
    "Suspect nodes are left out: each attempt ends as it did, since nothing shows where a retry"
    " would have run."
).splitlines()
"""What no history shows, and what is assumed instead."""


class Verdict(NamedTuple):
    """What other chains have brought about when an attempt ends.

    `breaker` is the key of the open breaker of its signature, "" for none. The budgets in `spent`
    end the chain; `postponing` is the one that is spent and holds its retry.
    """

    breaker: str = ""
    spent: tuple[SpentBudget, ...] = ()
    postponing: SpentBudget | None = None


NO_VERDICT = Verdict()


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one attempt.

    It came `at` seconds after the root was created or, if that is None, `lasted` seconds after the
    attempt was due. `preempted_for` is how many seconds before its end the preemption was first
    observed. `ran` is its running time in seconds, for the sums. `signature` is that of the
    failure, `title` the title of it; "" if it was not recorded. `advanced` says whether the attempt
    made progress, `gave_way` whether Reprise stopped it to make room.

    `verdict` is what other chains had brought about by then. `ended` is the recorded time of the
    end, in seconds since the epoch; `generic` says that the signature opens no breaker.
    """

    termination: Termination
    session_id: str
    at: float | None = None
    lasted: float = 0.0
    preempted_for: float | None = None
    ran: float = 0.0
    signature: str = ""
    advanced: bool = False
    gave_way: bool = False
    title: str = ""
    verdict: Verdict = NO_VERDICT
    ended: float = 0.0
    generic: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """The changes to try; a part that is None stays as it is.

    Only the fields of `policy` that were set count. `enabled` replaces the kill switch.
    `global_max_retries` "unlimited" removes the limit of all chains. `shared` are the project's
    `breaker` and `retry_budget`; a None takes it back.
    """

    named: tuple[NamedPolicy, ...] | None = None
    policy: InlinePolicy | None = None
    categories: tuple[CompiledCategory, ...] | None = None
    enabled: bool = True
    global_max_retries: Limit | None = None
    shared: Mapping[str, BreakerRule | SharedBudget | None] = field(default_factory=dict)

    def over(self, base: Rulebook) -> Rulebook:
        """Return `base` with the draft's changes."""
        limit = self.global_max_retries
        return Rulebook(
            policy=base.policy if self.policy is None else _merged(base.policy, self.policy),
            named=base.named if self.named is None else self.named,
            categories=base.categories if self.categories is None else self.categories,
            bounds=base.bounds,
            settings=Settings(
                Mode.ON if self.enabled else Mode.OFF,
                base.settings.global_max_retries if limit is None else most_of(limit),
            ),
        )


def _merged(base: InlinePolicy, changes: InlinePolicy) -> InlinePolicy:
    changed = {name: getattr(changes, name) for name in changes.model_fields_set}
    return base.model_copy(update=changed) if changed else base


SHIPPED = Rulebook(InlinePolicy())
"""The shipped defaults: the rulebook of given chains, where a draft changes nothing."""


@dataclass(frozen=True, slots=True)
class Record:
    """The real outcome of a past chain.

    `attempts` are those that the engine started, including one that still waits. If a chain was
    cancelled while a retry waited, its simulation also ends as cancelled when that retry is
    granted. `goes_on` says that its newest attempt has not ended. If it was parked and is no more,
    `parked` is the attempt at which it was; a simulation that parks there ends as it really did.
    """

    root: str
    outcome: str
    attempts: int
    cancelled_waiting: bool = False
    goes_on: bool = False
    parked: str = ""


class Place(NamedTuple):
    """The queue of a chain, its project and its domain, by their ids."""

    queue_id: int = 0
    project_id: int = 0
    domain_id: int = 0

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the keys of the scopes that it belongs to, the cluster's first."""
        project, queue = scope_key(self.project_id, None), scope_key(self.project_id, self.queue_id)
        return CLUSTER, f"domain:{self.domain_id}", project, queue


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Past:
    """A chain: the ends of its attempts, the first one's first.

    The first attempt is number `first`, due `begun` seconds after the root was created; `counters`
    are what the retries before it had spent, `paid` are these retries, and `failures` are the
    signatures of the failures before it, newest first, without platform causes ("" for those that
    made progress). `marks` are the counters when an attempt last made progress. `created` is when
    the root was created, in seconds since the epoch.
    """

    session_type: str
    resources: Mapping[str, Any]
    endings: Sequence[Ending]
    record: Record | None = None
    first: int = 0
    begun: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)
    paid: tuple[Payment, ...] = ()
    failures: tuple[str, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    created: float = 0.0
    place: Place = NOWHERE


class Attempt(NamedTuple):
    """One attempt and the decision about its end; None if it succeeded.

    `held_seconds` is how long its retry is held after it is due; None if that is not known.
    `signature` and `title` are those of the failure, "" if there are none.
    """

    number: int
    session_id: str
    decision: Decision | None
    held_seconds: float | None = None
    signature: str = ""
    title: str = ""

    @property
    def retries(self) -> bool:
        """Return whether another attempt follows."""
        return self.decision is not None and self.decision.action == "retry"


class Outcome(NamedTuple):
    """The outcome of a chain.

    It is `succeeded`, `exhausted`, `parked`, `not_retried`, `cancelled`, or `retrying` if a retry
    was granted about which nothing more is known.
    """

    name: str


@dataclass(slots=True)
class Tally:
    """The sums of a simulation. Causes and rules count retries, reasons all decisions.

    `held` counts how often a retry was held, by what held it.
    """

    chains: int = 0
    retries: int = 0
    by_cause: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    changed: list[dict[str, str]] = field(default_factory=list)
    added_attempts: int = 0
    added_run_seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Return the sums for given chains, as JSON values."""
        return {
            "chains": self.chains,
            "retries": self.retries,
            "by_cause": dict(self.by_cause),
            "by_rule": dict(self.by_rule),
            "by_reason": dict(self.by_reason),
            **({"held": dict(self.held)} if self.held else {}),
            "changed": self.changed,
        }

    def history_summary(self) -> dict[str, Any]:
        """Return the sums, with those that compare with what really happened; times in seconds."""
        return {
            **self.summary(),
            "added_attempts": self.added_attempts,
            # Sums of many floats have meaningless digits.
            "added_run_seconds": round(self.added_run_seconds, 6),
            "assumptions": ASSUMPTIONS,
        }

    def decided(self, decision: Decision | None) -> None:
        """Count a decision."""
        if decision is None:
            return
        self.by_reason[decision.reason] += 1
        if decision.action == "retry":
            self.retries += 1
            self.by_cause[decision.cause.value] += 1
            if decision.rule is not None:
                self.by_rule[decision.rule] += 1

    def ended(
        self, past: Past, last: Attempt | None, outcome: str, spared: Sequence[Ending] = ()
    ) -> None:
        """Count a chain; `spared` are the recorded attempts that were passed over."""
        self.chains += 1
        record = past.record
        if record is None:
            return
        if record.outcome != outcome and len(self.changed) < MAX_CHANGED:
            self.changed.append({"root": record.root, "was": record.outcome, "would_be": outcome})
        started = 0 if last is None else last.number + 1
        started += outcome == "retrying"
        self.added_attempts += started - record.attempts
        made = [each for each in past.endings if each not in spared] if spared else past.endings
        self.added_run_seconds += _added_seconds(made, started, record.attempts - len(spared))
        self.added_run_seconds -= sum(each.ran for each in spared)


def simulate(chains: Iterable[tuple[Past, Rulebook]], tally: Tally) -> Iterator[Attempt | Outcome]:
    """Decide about chains, one after another. Yield the attempts of each, then its outcome.

    Only the sums are kept; they are in `tally` when the last chain is done.
    """
    for past, rulebook in chains:
        last = None
        for attempt in replay(past, rulebook):
            tally.decided(attempt.decision)
            if attempt.decision is not None and attempt.decision.held_for in HOLDS:
                tally.held[attempt.decision.held_for] += 1
            yield attempt
            last = attempt
        outcome = outcome_after(last, past.record)
        tally.ended(past, last, outcome.name)
        yield outcome


def replay(past: Past, rulebook: Rulebook) -> Iterator[Attempt]:
    """Yield the attempts of one chain until one is not retried or nothing more is known."""
    chain = ChainReplay(past, rulebook)
    while chain.knows_more:
        verdict = chain.ending.verdict
        attempt = _postponed(chain.decide(verdict), verdict)
        yield attempt
        if attempt.decision is None or attempt.decision.due_at is None or not attempt.retries:
            return
        chain.proceed(attempt.decision, attempt.decision.due_at)


def _postponed(attempt: Attempt, verdict: Verdict) -> Attempt:
    """Return the attempt with its retry held by a spent budget, unless something else holds it."""
    decision, budget = attempt.decision, verdict.postponing
    if decision is None or budget is None or not attempt.retries or decision.held_for:
        return attempt
    counts = budget.platform or decision.cause not in PLATFORM_CAUSES
    return held(attempt, SHARED_BUDGET, budget.level) if counts else attempt


class ChainReplay:
    """A chain that is decided anew, one recorded end after another."""

    def __init__(self, past: Past, rulebook: Rulebook):
        self.past, self.rulebook = past, rulebook
        self._number, self._at = past.first, 0
        self._counters, self._marks = dict(past.counters), dict(past.marks)
        self._paid, self._failures = list(past.paid), list(past.failures)
        self._resources = past.resources
        self._due = ROOT_CREATED_AT + timedelta(seconds=past.begun)

    @property
    def left(self) -> Sequence[Ending]:
        """Return the recorded ends from the next one on."""
        return self.past.endings[self._at :]

    @property
    def knows_more(self) -> bool:
        """Return whether the end of the next attempt is known."""
        return self._at < len(self.past.endings)

    @property
    def ending(self) -> Ending:
        """Return the end of the next attempt, which is known."""
        return self.past.endings[self._at]

    @property
    def ends_at(self) -> datetime:
        """Return when the next attempt ends, which is known."""
        return _moment(self.ending, self._due)

    def decide(self, verdict: Verdict) -> Attempt:
        """Decide about the next end, which is known."""
        ending, now = self.ending, self.ends_at
        self._marks = marks_after(self._counters, self._marks, advanced=ending.advanced)
        chain = Chain(
            session_id=ending.session_id,
            session_type=self.past.session_type,
            retry_count=self._number,
            root_created_at=ROOT_CREATED_AT,
            counters=self._counters,
            resources=self._resources,
            preempted_at=_preempted_at(ending, now),
            signature=ending.signature,
            failures=self._failures,
            paid=self._paid,
            advanced=ending.advanced,
            marks=self._marks,
            gave_way=ending.gave_way,
            title=ending.title,
            breaker=verdict.breaker,
        )
        decision = _decision(ending, chain, _judged(self.rulebook, verdict), now)
        return Attempt(
            self._number,
            ending.session_id,
            decision,
            signature=ending.signature,
            title=ending.title,
        )

    def proceed(self, decision: Decision, starts: datetime) -> None:
        """Start the retry that was granted after the next end."""
        ending, paid_by = self.ending, str(decision.paid_by)
        self._counters = counters_after(self._counters, paid_by)
        self._paid = [*self._paid, Payment(paid_by, self.ends_at)]
        if decision.cause in FAILURE_CAUSES:
            self._failures = ["" if ending.advanced else ending.signature, *self._failures]
        self._resources = decision.resources or {}
        self._due = starts
        self._number += 1
        self._at += 1

    def pass_over(self) -> None:
        """Leave out the next recorded attempt: it was not made."""
        self._at += 1


def held(attempt: Attempt, held_for: str, key: str, **facts: Any) -> Attempt:
    """Return an attempt whose retry is held when it comes due: its trace says so, too."""
    decision = attempt.decision
    if decision is None or decision.held_for == held_for:
        return attempt
    *steps, last = decision.trace
    step = {"step": held_for, "result": "held", "scope": key.partition(":")[0], **facts}
    trace = [*steps, step, {**last, "state": "held", "retry_state": "held"}]
    waits = decision._replace(
        state="held", retry_state="held", trace=trace, held_for=held_for, held_key=key
    )
    return attempt._replace(decision=waits)


def _judged(rulebook: Rulebook, verdict: Verdict) -> Rulebook:
    if not verdict.spent:
        return rulebook
    return replace(rulebook, settings=replace(rulebook.settings, spent=verdict.spent))


def _decision(ending: Ending, chain: Chain, rulebook: Rulebook, now: datetime) -> Decision | None:
    return decide(
        Ended(ending.termination),
        chain,
        rulebook,
        now,
        # Random jitter is also the same for the same input.
        jitter_fraction(f"random:{ending.session_id}", chain.retry_count),
    )


def _moment(ending: Ending, due: datetime) -> datetime:
    if ending.at is None:
        return due + timedelta(seconds=ending.lasted)
    return ROOT_CREATED_AT + timedelta(seconds=ending.at)


def _preempted_at(ending: Ending, now: datetime) -> datetime | None:
    if ending.preempted_for is None:
        return None
    return now - timedelta(seconds=ending.preempted_for)


def outcome_after(last: Attempt | None, record: Record | None = None) -> Outcome:
    """Return the outcome of a chain whose last attempt this is; None: none has ended."""
    if last is not None and last.decision is None:
        return Outcome("succeeded")
    if last is None or last.decision is None or last.decision.action == "retry":
        cancelled = record is not None and record.cancelled_waiting
        return Outcome("cancelled" if cancelled else "retrying")
    name = last.decision.retry_state
    if name == PARKED and record is not None and record.parked == last.session_id:
        name = record.outcome
    return Outcome(name)


def made_up_id(chain: int, attempt: int) -> str:
    """Return a made-up session id: uuid5 of `<chain>:<attempt>`, both counted from 0."""
    return str(uuid5(NAMESPACE, f"{chain}:{attempt}"))


def _added_seconds(endings: Sequence[Ending], started: int, recorded: int) -> float:
    """Return the running time of the additional attempts, or minus that of the dropped ones.

    An additional attempt is assumed to run as long as the one before it.
    """
    if started < recorded:
        return -sum(ending.ran for ending in endings[started:recorded])
    return (started - recorded) * endings[-1].ran if endings else 0.0
