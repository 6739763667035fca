"""The times of schedules that have come: each becomes one chain, whoever looks at it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from sessions_app import wakeups
from sessions_app.audit.context import ENGINE, audited
from sessions_app.core.errors import Conflict, DomainError, QuotaExceeded
from sessions_app.core.states import Phase, RetryState
from sessions_app.db.bulk import SentRows, array
from sessions_app.db.steps import atomic_step
from sessions_app.instruments import SCHEDULE_TIMES
from sessions_app.locks import database_now
from sessions_app.locks.resources import claim_schedules
from sessions_app.models import Schedule
from sessions_app.models.schedules import KEPT, Overlap
from sessions_app.selectors.schedules import (
    Tip,
    actors_of,
    queues_named,
    replacing_due,
    tips_of,
)
from sessions_app.services.schedules.chains import Maker, says
from sessions_app.services.schedules.saving import TASK, due_of
from sessions_app.services.sessions.cancel import chains_cancel
from sessions_app.services.sessions.submit import Submitted, sessions_submit

BATCH = 100
MOST_TIMES = 10
"""Most times of one schedule that one step deals with."""
ON_TIME = 60
"""Seconds by which a time may always be late: workers look at it as soon as they can."""
AGAIN = timedelta(seconds=15)
"""After this a time is tried again for which there was no room."""
OVERLAPPING = frozenset({RetryState.SCHEDULED.value, RetryState.HELD.value})
"""The states of retries that wait, and so go on by themselves."""
FAILED = frozenset({RetryState.EXHAUSTED.value, RetryState.NOT_RETRIED.value})


@dataclass(frozen=True, slots=True)
class Fired:
    """The counts of one step: schedules that were due, and what became of their times."""

    claimed: int
    outcomes: Mapping[str, int] = field(default_factory=dict)

    @property
    def fired(self) -> int:
        """Return the number of chains made."""
        return self.outcomes.get("fired", 0)


@dataclass(slots=True)
class _Round:
    """A schedule that is due, and what is to be done about it."""

    schedule: Schedule
    maker: Maker | None = None
    times: list[datetime] = field(default_factory=list)
    """Those that become chains."""
    stopping: list[UUID] = field(default_factory=list)
    """Its earlier chains that are cancelled and have not stopped: the next one waits for them."""
    waits: bool = False
    """Whether there was no room for one of them."""


def schedules_fire(limit: int = BATCH) -> Fired:
    """Make the chains of at most `limit` schedules that are due. Their `next_at` moves with them.

    A schedule whose owner or template is no longer good is paused with the reason.
    """
    _cancel_earlier(limit)
    outcomes: Counter[str] = Counter()
    with atomic_step("schedule"):
        now = database_now()
        claimed = claim_schedules(now, limit)
        if claimed:
            _fire(claimed, now, outcomes)
    for outcome, number in outcomes.items():
        SCHEDULE_TIMES.labels(outcome).inc(number)
    return Fired(len(claimed), outcomes)


def _cancel_earlier(limit: int) -> None:
    """Cancel the unfinished chains of schedules that want it and have a time that comes now.

    In a transaction of its own, before the one that makes the next chains: both change the counters
    of quotas, which must be locked last. A process that dies in between leaves times that are still
    due.
    """
    now = database_now()
    due = [each for each in replacing_due(now, limit) if _come(each, now, Counter())[0]]
    roots = [root for each in due for root in each.recent]
    unfinished = [root for root, tip in tips_of(roots).items() if overlaps(tip)]
    if unfinished:
        chains_cancel(unfinished, by=ENGINE)


def overlaps(tip: Tip) -> bool:
    """Return whether a chain goes on by itself; one that waits for a person does not."""
    return tip.phase != Phase.FINAL or tip.retry_state in OVERLAPPING


def _fire(claimed: Sequence[Schedule], now: datetime, outcomes: Counter[str]) -> None:
    tips = tips_of([root for each in claimed for root in each.recent if _looks_back(each)])
    owners = actors_of({each.owner_id for each in claimed})
    queues = queues_named(claimed)
    rounds = [_Round(each) for each in claimed]
    for each in rounds:
        try:
            _require_success(each.schedule, tips)
            each.maker = Maker(each.schedule, owners, queues)
            _choose(each, tips, now, outcomes)
        except DomainError as error:
            _pause(each, error, now, outcomes)
    wanted = [
        (each, time, each.maker.placed(time, after=each.stopping))
        for each in rounds
        if each.maker
        for time in each.times
    ]
    made = sessions_submit([placed for _, _, placed in wanted]) if wanted else []
    for (each, time, _), outcome in zip(wanted, made, strict=True):
        _take(each, time, outcome, now, outcomes)
    _store(claimed)
    due = [each.due_at for each in claimed if each.due_at and not each.paused]
    wakeups.due_after_commit(TASK, due, now=now)


def _looks_back(schedule: Schedule) -> bool:
    return schedule.overlap != Overlap.ALLOW or schedule.pause_after is not None


def _require_success(schedule: Schedule, tips: Mapping[UUID, Tip]) -> None:
    """Raise `Conflict` if its latest chains have all failed; cancelled ones do not count."""
    most = schedule.pause_after
    if most is None:
        return
    ended = [
        tip.retry_state in FAILED
        for root in schedule.recent
        if (tip := tips.get(root))
        and tip.created_at > schedule.judged_from
        and not overlaps(tip)
        and tip.retry_state != RetryState.CANCELLED
    ]
    if len(ended) >= most and all(ended[:most]):
        chains = "chain" if most == 1 else f"{most} chains"
        raise Conflict(f"its last {chains} failed")


def _choose(each: _Round, tips: Mapping[UUID, Tip], now: datetime, outcomes: Counter[str]) -> None:
    """Find its times that have come, and leave out those that overlap."""
    schedule = each.schedule
    times, later = _come(schedule, now, outcomes)
    each.times = times
    if schedule.overlap != Overlap.ALLOW:
        busy = [root for root in schedule.recent if root in tips and overlaps(tips[root])]
        if schedule.overlap == Overlap.CANCEL_RUNNING:
            each.times, each.stopping = times[-1:], busy
        else:
            each.times = [] if busy else times[:1]
    if len(each.times) < len(times):
        outcomes["overlapped"] += len(times) - len(each.times)
        schedule.last_problem = "an earlier chain had not ended"
    schedule.next_at = later
    schedule.due_at = due_of(schedule, later) if later else None


def _come(
    schedule: Schedule, now: datetime, outcomes: Counter[str]
) -> tuple[list[datetime], datetime | None]:
    """Return its first times that are due and not too late, and the one after them."""
    in_time = now - timedelta(seconds=max(schedule.catch_up, ON_TIME))
    begin = schedule.next_at or now
    due = due_of(schedule, begin)
    if due < in_time:
        outcomes["missed"] += 1
        # If it is looked at again after a refusal, the problem is the one of then.
        if schedule.due_at is None or schedule.due_at <= due:
            schedule.last_problem = "nobody looked at it in time"
        begin = max(begin, in_time - timedelta(seconds=schedule.jitter))
    found: list[datetime] = []
    for time in schedule.cadence.after(begin - timedelta(microseconds=1)):
        due = due_of(schedule, time)
        if due > now or len(found) == MOST_TIMES:
            return found, time
        if due >= in_time:
            found.append(time)
    return found, None


def _take(
    each: _Round,
    time: datetime,
    outcome: Submitted | DomainError,
    now: datetime,
    outcomes: Counter[str],
) -> None:
    """Remember the chain of a time, or why it has none."""
    schedule = each.schedule
    root = chain_of(outcome)
    if root is not None:
        outcomes["fired"] += 1
        schedule.last_at = max(time, schedule.last_at or time)
        remember(schedule, root, each.stopping)
        if not each.waits:
            schedule.last_problem = ""
    elif isinstance(outcome, QuotaExceeded | Conflict):
        outcomes["refused"] += 1
        if not each.waits:
            each.waits = True
            schedule.next_at, schedule.due_at = time, now + AGAIN
            schedule.last_problem = says(outcome)
    elif isinstance(outcome, DomainError):
        _pause(each, outcome, now, outcomes)


def chain_of(outcome: Submitted | DomainError) -> UUID | None:
    """Return the root of the chain of a time, also if it was made of another template before."""
    if isinstance(outcome, Submitted):
        return outcome.session_id
    known = outcome.extra.get("session_id") if isinstance(outcome, Conflict) else None
    return UUID(str(known)) if known else None


def remember(schedule: Schedule, root: UUID, stopping: Collection[UUID] = ()) -> None:
    """Put a chain before the others that the schedule remembers. Those that stop stay longer."""
    earlier = [each for each in schedule.recent if each != root]
    late = [each for each in earlier[KEPT - 1 :] if each in stopping]
    schedule.recent = [root, *earlier[: KEPT - 1], *late]


def _pause(each: _Round, error: DomainError, now: datetime, outcomes: Counter[str]) -> None:
    outcomes["paused"] += 1
    each.schedule.paused_at, each.schedule.paused_reason = now, says(error)


_FIRED = SentRows[[Schedule]](
    ("id", "uuid", lambda schedule: schedule.id),
    ("next_at", "timestamptz", lambda schedule: schedule.next_at),
    ("due_at", "timestamptz", lambda schedule: schedule.due_at),
    ("last_at", "timestamptz", lambda schedule: schedule.last_at),
    ("last_problem", "text", lambda schedule: schedule.last_problem),
    ("paused_at", "timestamptz", lambda schedule: schedule.paused_at),
    ("paused_reason", "text", lambda schedule: schedule.paused_reason),
    ("recent", "text", lambda schedule: array(schedule.recent)),
)
_STORE = f"""
    UPDATE sessions_app_schedule AS s SET next_at = v.next_at, due_at = v.due_at,
        last_at = v.last_at, last_problem = v.last_problem, paused_at = v.paused_at,
        paused_reason = v.paused_reason, recent = v.recent::uuid[]
    FROM {_FIRED} WHERE s.id = v.id
"""


def _store(schedules: Sequence[Schedule]) -> None:
    with audited(by=ENGINE), connection.cursor() as cursor:
        cursor.execute(_STORE, _FIRED.arrays(schedules))


def next_due() -> float | None:
    """Return the seconds until the next schedule is due (negative: overdue); None without one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM due_at - clock_timestamp())::float8 "
            "FROM sessions_app_schedule WHERE paused_at IS NULL AND due_at IS NOT NULL "
            "ORDER BY due_at LIMIT 1"
        )
        row: tuple[float] | None = cursor.fetchone()
    return None if row is None else row[0]
