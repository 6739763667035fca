"""Chains that somebody asks a schedule for: one now, or those of times that have passed."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User

from sessions_app.core.cadence import written
from sessions_app.core.errors import DomainError, InvalidInput, NotFound, TooLarge
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.locks import database_now
from sessions_app.locks.resources import lock_schedule
from sessions_app.models import Schedule
from sessions_app.selectors.schedules import actors_of, queues_named
from sessions_app.services.schedules.chains import Maker
from sessions_app.services.schedules.firing import remember
from sessions_app.services.schedules.saving import class_check
from sessions_app.services.sessions.submit import Submitted, sessions_submit
from sessions_app.services.write.audit import AuditRow, audit_append

MOST_TIMES = 1_000
"""Most chains of one backfill."""


class Made(NamedTuple):
    """A time, and the chain made for it or the reason against it."""

    time: datetime
    creation_id: str
    session_id: UUID | None = None
    error: DomainError | None = None


def schedule_trigger(schedule: Schedule, *, by: User) -> Submitted:
    """Make one chain now, as the schedule's owner, also if it is paused or another one runs.

    Its next time stays. Raises `DomainError` if there is no room, or if the owner or the template
    is no longer good, and `NotPermitted` if it has a priority class that `by` may not name.
    """
    with atomic_step("schedule") as writes:
        locked = _locked(schedule)
        class_check(locked, by)
        now = database_now()
        locked.by_hand += 1
        placed = _maker(locked).placed(now, more=f":trigger-{locked.by_hand}")
        (outcome,) = sessions_submit([placed])
        if isinstance(outcome, DomainError):
            raise outcome
        remember(locked, outcome.session_id)
        locked.save(update_fields=["by_hand", "recent"])
        _audit(writes, locked, "trigger", by.username, now, session=str(outcome.session_id))
    return outcome


def schedule_backfill(
    schedule: Schedule, *, begin: datetime, end: datetime, dry_run: bool, by: User
) -> list[Made]:
    """Make the chains of all times from `begin` to `end`, as the schedule's owner.

    Each backfill makes them anew. A `dry_run` returns the same and makes none. Raises
    `InvalidInput`, `TooLarge`, and `DomainError` as `schedule_trigger` does.
    """
    with atomic_step("schedule") as writes:
        locked = _locked(schedule)
        class_check(locked, by)
        now = database_now()
        times = _times(locked, begin, end, now)
        locked.by_hand += 1
        maker = _maker(locked)
        placed = [maker.placed(time, more=f":backfill-{locked.by_hand}") for time in times]
        ids = [str(each.submission.creation_id) for each in placed]
        if dry_run:
            return [Made(time, each) for time, each in zip(times, ids, strict=True)]
        outcomes = sessions_submit(placed) if placed else []
        locked.save(update_fields=["by_hand"])
        told = {"from": written(begin), "to": written(end), "chains": str(len(times))}
        _audit(writes, locked, "backfill", by.username, now, **told)
    return _made(times, ids, outcomes)


def _made(
    times: Sequence[datetime], ids: Sequence[str], outcomes: Sequence[Submitted | DomainError]
) -> list[Made]:
    return [
        Made(time, each, error=outcome)
        if isinstance(outcome, DomainError)
        else Made(time, each, outcome.session_id)
        for time, each, outcome in zip(times, ids, outcomes, strict=True)
    ]


def _times(schedule: Schedule, begin: datetime, end: datetime, now: datetime) -> list[datetime]:
    if begin > end:
        raise InvalidInput({"to": ["must not be before from"]})
    if end > now:
        raise InvalidInput({"to": ["must not be in the future: these times are still to come"]})
    times = schedule.cadence.times(begin, end, MOST_TIMES + 1)
    if len(times) > MOST_TIMES:
        raise TooLarge(
            f"there are more than {MOST_TIMES:,} times: give a later from or an earlier to, and "
            "backfill the rest in another call"
        )
    return times


def _locked(schedule: Schedule) -> Schedule:
    locked = lock_schedule(schedule.pk)
    if locked is None:
        raise NotFound(f"no schedule {schedule.pk}")
    return locked


def _maker(schedule: Schedule) -> Maker:
    return Maker(schedule, actors_of([schedule.owner_id]), queues_named([schedule]))


def _audit(
    writes: Writes, schedule: Schedule, verb: str, by: str, now: datetime, **data: str
) -> None:
    place = schedule.project_id
    row = AuditRow(by, f"schedule.{verb}", "schedule", str(schedule), dict(data), place)
    audit_append(writes, [row], now=now)
