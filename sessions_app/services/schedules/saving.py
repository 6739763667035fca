"""Creates, changes, pauses and deletes schedules."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from sessions_app import wakeups
from sessions_app.core.cadence import FAR, cron_written, delay_of, time_zone_written
from sessions_app.core.errors import Conflict, InvalidInput, NotFound, NotPermitted
from sessions_app.core.priorities import DEFAULT_CLASS
from sessions_app.locks import database_now
from sessions_app.locks.priority_classes import Named, ranks_allowed
from sessions_app.locks.resources import lock_schedule
from sessions_app.models import Queue, Schedule
from sessions_app.services.write.records import record_delete, record_save

TASK = "sessions_app.tasks.fire_schedules"
TIMING = frozenset({"cron", "time_zone", "every", "starts_at", "until"})
"""The fields that decide about the times."""
NAMES = {"starts_at": "from"}
"""What people call a field, if it is not its name."""
NEXT_SHOWN = 5
_STATE = ("next_at", "due_at", "last_problem", "judged_from")
_PAUSE = ("paused_at", "paused_reason")


def schedule_create(schedule: Schedule, *, by: User, paused: bool = False) -> None:
    """Store a new schedule, which is its maker's. Its first time is the next one from now on.

    Raises `InvalidInput`, and `Conflict` if the project has a schedule of this name.
    """
    now = database_now()
    schedule.owner = by
    schedule.created_at = schedule.judged_from = now
    timing_check(schedule, now)
    _queue_check(schedule)
    schedule.paused_at = now if paused else None
    _aim(schedule, now)
    try:
        with transaction.atomic():
            record_save(schedule, by=by.username)
            _hint(schedule, now)
    except IntegrityError as error:
        if "schedule_name_unique" not in str(error):
            raise
        why = f"project {schedule.project.address} has a schedule {schedule.name!r} already"
        raise Conflict(why, errors={"name": ["is taken"]}) from None


def schedule_change(
    schedule: Schedule, *, by: User, fields: Collection[str], paused: bool | None = None
) -> None:
    """Save changed fields. Whoever changes a schedule owns it: its chains are theirs from now on.

    If the times change, the next one is counted from now on: those missed before are not made up.
    Raises `InvalidInput` and `NotFound`.
    """
    now = database_now()
    with transaction.atomic():
        stored = lock_schedule(schedule.pk)
        if stored is None:
            raise NotFound(f"no schedule {schedule.pk}")
        for name in fields:
            setattr(stored, name, getattr(schedule, name))
        stored.owner = by
        if "queue" in fields:
            _queue_check(stored)
        if TIMING & {*fields}:
            timing_check(stored, now)
        turned = paused is not None and paused is not stored.paused
        if turned:
            stored.paused_at, stored.paused_reason = (now if paused else None), ""
        if turned or {*TIMING, "jitter"} & {*fields}:
            _aim(stored, now)
            stored.judged_from = now
        record_save(stored, by=by.username, fields={*fields, "owner", *_PAUSE, *_STATE})
        _hint(stored, now)
    _copy(stored, schedule)


def schedule_delete(schedule: Schedule, *, by: str) -> None:
    """Delete a schedule. Its chains stay."""
    with transaction.atomic():
        if lock_schedule(schedule.pk) is not None:
            record_delete(schedule, by=by)


def schedule_pause(schedule: Schedule, *, reason: str, by: str) -> None:
    """Make no more chains; one that is paused stays as it is."""
    with transaction.atomic():
        _again(schedule)
        if schedule.paused:
            return
        schedule.paused_at, schedule.paused_reason = database_now(), reason
        record_save(schedule, by=by, fields=_PAUSE, verb="pause")


def schedule_resume(schedule: Schedule, *, by: User) -> None:
    """Go on with the next time from now on; times of the pause are not made up.

    Raises `NotPermitted` if it has a priority class that `by` may not name.
    """
    with transaction.atomic():
        _again(schedule)
        if not schedule.paused:
            return
        class_check(schedule, by)
        now = database_now()
        schedule.paused_at, schedule.paused_reason, schedule.judged_from = None, "", now
        _aim(schedule, now)
        record_save(schedule, by=by.username, fields=(*_PAUSE, *_STATE), verb="resume")
        _hint(schedule, now)


def class_check(schedule: Schedule, by: User) -> None:
    """Raise `NotPermitted` if a schedule has a priority class that `by` may not name.

    Its sessions are the owner's, so whoever makes them would borrow the owner's right.
    """
    name = schedule.template.get("priority_class") or DEFAULT_CLASS
    if name == DEFAULT_CLASS or schedule.owner_id == by.pk:
        return
    named = Named(schedule.project_id, by.pk, name)
    if named not in ranks_allowed([named]):
        raise NotPermitted(
            f"the schedule has the priority class {name}, which {by.username} may not name here"
        )


def timing_check(schedule: Schedule, now: datetime) -> None:
    """Write the times in their stored form. Raises `InvalidInput` if none is left from now on."""
    errors: dict[str, list[str]] = {}
    if bool(schedule.cron) is (schedule.every is not None):
        errors["cron"] = ["give either this or every"]
    try:
        schedule.cron = cron_written(schedule.cron) if schedule.cron else ""
    except ValueError as error:
        errors["cron"] = [str(error)]
    try:
        schedule.time_zone = time_zone_written(schedule.time_zone)
    except ValueError as error:
        errors["time_zone"] = [str(error)]
    for name in ("starts_at", "until"):
        if time := getattr(schedule, name):
            setattr(schedule, name, time.astimezone(UTC))
            if time >= FAR:
                errors[NAMES.get(name, name)] = [f"must be before the year {FAR.year}"]
    if not errors and schedule.cadence.next(now) is None:
        field = "until" if schedule.until else "cron"
        errors[field] = ["no time is left: it would never fire"]
    if errors:
        raise InvalidInput(errors)


def next_times(schedule: Schedule, now: datetime) -> list[datetime]:
    """Return the next times of a schedule, at most `NEXT_SHOWN`, without the jitter."""
    begin = max(now, schedule.next_at - timedelta(microseconds=1)) if schedule.next_at else now
    return schedule.cadence.times(begin, FAR, NEXT_SHOWN)


def due_of(schedule: Schedule, time: datetime) -> datetime:
    """Return when the chain of a time is made: with its jitter, but no later than its next time.

    So a time never waits for the delay of the one before it.
    """
    jitter = schedule.jitter
    if jitter and (after := schedule.cadence.next(time)):
        jitter = min(jitter, int((after - time).total_seconds()))
    return time + delay_of(schedule.pk, time, jitter)


def _aim(schedule: Schedule, now: datetime) -> None:
    schedule.next_at = schedule.cadence.next(now)
    schedule.due_at = due_of(schedule, schedule.next_at) if schedule.next_at else None
    schedule.last_problem = ""


def _queue_check(schedule: Schedule) -> None:
    if not schedule.queue:
        return
    if not Queue.objects.filter(project=schedule.project_id, name=schedule.queue).exists():
        why = f"no queue {schedule.queue} in project {schedule.project.address}"
        raise InvalidInput({"queue": [why]})


def _hint(schedule: Schedule, now: datetime) -> None:
    if schedule.due_at is not None and not schedule.paused:
        wakeups.due_after_commit(TASK, [schedule.due_at], now=now)


def _again(schedule: Schedule) -> None:
    """Lock the schedule and reload its columns. Raises `NotFound`."""
    stored = lock_schedule(schedule.pk)
    if stored is None:
        raise NotFound(f"no schedule {schedule.pk}")
    _copy(stored, schedule)


def _copy(stored: Schedule, schedule: Schedule) -> None:
    for field in Schedule._meta.concrete_fields:
        setattr(schedule, field.attname, getattr(stored, field.attname))
