"""Simulation: the engine itself, run over the ends of chains one by one.

Nothing is decided here. Each end goes to `retry.engine.decide` with the result of the retries
before it: counters, resources, and the time at which the attempt was due.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from retry.engine.budgets import counters_after, marks_after
from retry.engine.decide import decide
from retry.engine.decision import Chain, Decision, Mode, Payment, Rulebook, Settings
from retry.evidence.causes import FAILURE_CAUSES
from retry.evidence.termination import Termination
from retry.policies.backoff import jitter_fraction
from retry.policies.inline import InlinePolicy
from retry.policies.limits import Limit, most_of
from retry.policies.matching import CompiledCategory, NamedPolicy

ROOT_CREATED_AT = datetime(2000, 1, 1, tzinfo=UTC)
"""The start of every simulated chain, so that the same input always gives the same output."""

NAMESPACE = UUID("565844ca-7ace-57fb-a79a-95e5356b5f18")
"""uuid5 of the DNS name `simulate.reprise.invalid`: the namespace of made-up session ids."""

MAX_CHANGED = 1000
"""Maximum number of changed chains that a summary lists."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one attempt.

    It came `at` seconds after the root was created or, if that is None, `lasted` seconds after the
    attempt was due. `preempted_for` is how many seconds before its end the preemption was first
    observed. `ran` is its running time in seconds, for the sums. `signature` is that of the
    failure, `title` the title of it; "" if it was not recorded. `advanced` says whether the attempt
    made progress, `gave_way` whether Reprise stopped it to make room.
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


@dataclass(frozen=True, slots=True)
class Draft:
    """The changes to try; a part that is None stays as it is.

    Only the fields of `policy` that were set count. `enabled` replaces the kill switch.
    `global_max_retries` "unlimited" removes the limit of all chains.
    """

    named: tuple[NamedPolicy, ...] | None = None
    policy: InlinePolicy | None = None
    categories: tuple[CompiledCategory, ...] | None = None
    enabled: bool = True
    global_max_retries: Limit | None = None

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
    granted.
    """

    root: str
    outcome: str
    attempts: int
    cancelled_waiting: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """A chain: the ends of its attempts, the first one's first.

    The first attempt is number `first`, due `begun` seconds after the root was created; `counters`
    are what the retries before it had spent, `paid` are these retries, and `failures` are the
    signatures of the failures before it, newest first, without platform causes ("" for those that
    made progress). `marks` are the counters when an attempt last made progress.
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


class Attempt(NamedTuple):
    """One attempt and the decision about its end; None if it succeeded."""

    number: int
    session_id: str
    decision: Decision | None


class Outcome(NamedTuple):
    """The outcome of a chain.

    It is `succeeded`, `exhausted`, `parked`, `not_retried`, `cancelled`, or `retrying` if a retry
    was granted about which nothing more is known.
    """

    name: str


@dataclass(slots=True)
class Tally:
    """The sums of a simulation. Causes and rules count retries, reasons all decisions."""

    chains: int = 0
    retries: int = 0
    by_cause: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
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
            "changed": self.changed,
        }

    def history_summary(self) -> dict[str, Any]:
        """Return the sums, with those that compare with what really happened; times in seconds."""
        return {
            **self.summary(),
            "added_attempts": self.added_attempts,
            # Sums of many floats have meaningless digits.
            "added_run_seconds": round(self.added_run_seconds, 6),
        }

    def _decided(self, decision: Decision) -> None:
        self.by_reason[decision.reason] += 1
        if decision.action == "retry":
            self.retries += 1
            self.by_cause[decision.cause.value] += 1
            if decision.rule is not None:
                self.by_rule[decision.rule] += 1

    def _ended(self, past: Past, last: Attempt | None, outcome: str) -> None:
        self.chains += 1
        record = past.record
        if record is None:
            return
        if record.outcome != outcome and len(self.changed) < MAX_CHANGED:
            self.changed.append({"root": record.root, "was": record.outcome, "would_be": outcome})
        started = 0 if last is None else last.number + 1
        started += outcome == "retrying"
        self.added_attempts += started - record.attempts
        self.added_run_seconds += _added_seconds(past.endings, started, record.attempts)


def simulate(chains: Iterable[tuple[Past, Rulebook]], tally: Tally) -> Iterator[Attempt | Outcome]:
    """Decide about chains, one after another. Yield the attempts of each, then its outcome.

    Only the sums are kept; they are in `tally` when the last chain is done.
    """
    for past, rulebook in chains:
        last = None
        for attempt in replay(past, rulebook):
            if attempt.decision is not None:
                tally._decided(attempt.decision)  # noqa: SLF001  # the two are one
            yield attempt
            last = attempt
        outcome = outcome_after(last, past.record)
        tally._ended(past, last, outcome.name)  # noqa: SLF001
        yield outcome


def replay(past: Past, rulebook: Rulebook) -> Iterator[Attempt]:
    """Yield the attempts of one chain until one is not retried or nothing more is known."""
    counters, marks = dict(past.counters), dict(past.marks)
    paid, failures = list(past.paid), list(past.failures)
    resources = past.resources
    due = ROOT_CREATED_AT + timedelta(seconds=past.begun)
    for number, ending in enumerate(past.endings, past.first):
        now = _moment(ending, due)
        marks = marks_after(counters, marks, advanced=ending.advanced)
        chain = Chain(
            session_id=ending.session_id,
            session_type=past.session_type,
            retry_count=number,
            root_created_at=ROOT_CREATED_AT,
            counters=counters,
            resources=resources,
            preempted_at=_preempted_at(ending, now),
            signature=ending.signature,
            failures=failures,
            paid=paid,
            advanced=ending.advanced,
            marks=marks,
            gave_way=ending.gave_way,
            title=ending.title,
        )
        decision = _decision(ending, chain, rulebook, now)
        yield Attempt(number, ending.session_id, decision)
        if decision is None or decision.action != "retry" or decision.due_at is None:
            return
        counters = counters_after(counters, str(decision.paid_by))
        paid = [*paid, Payment(str(decision.paid_by), now)]
        if decision.cause in FAILURE_CAUSES:
            failures = ["" if ending.advanced else chain.signature, *failures]
        resources = decision.resources or {}
        due = decision.due_at


def _decision(ending: Ending, chain: Chain, rulebook: Rulebook, now: datetime) -> Decision | None:
    return decide(
        ending.termination,
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
    return Outcome(last.decision.retry_state)


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
