"""Retention, run by a periodic task: slice after slice while there is time."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from reprise.models import EventCount, EventCursor
from reprise.worker.parking import parked_forget
from scheduler.services.executors import leases_sweep_orphans
from sessions_app.locks import database_now
from sessions_app.services.access.logins import logins_forget
from sessions_app.services.breakers.sweep import breakers_forget
from sessions_app.services.failures.count import failures_forget, reports_forget
from sessions_app.services.failures.totals import hour_total, totals_forget
from sessions_app.services.resources.policies import revisions_forget
from sessions_app.services.sessions import retention
from sessions_app.services.sessions.prepared_actions import actions_forget
from sessions_app.services.write.audit import dispatches_forget
from sessions_app.webhooks.endpoints import deliveries_forget

logger = logging.getLogger(__name__)

TASK_SECONDS = 40.0
"""Maximum seconds of a task; the next one continues."""
HOURS_DAYS = 32
"""Days for which failures are known by hour: one more than a list of them may span."""
REPORT_DAYS = 367
"""Days for which reports are known: one more than a report may span."""
HOURS = 2_000
"""Maximum number of rows of hours, days or totals that one transaction deletes."""
FORGOTTEN = "events_deleted"
DELIVERIES = 2_000
"""Maximum number of webhook deliveries that one transaction deletes."""
DISPATCHES = 2_000
"""Maximum number of automatic dispatches that one transaction deletes from the audit log."""
ACTIONS = 100
"""Maximum number of prepared actions that one run deletes."""
LOGINS = 2_000
"""Maximum number of logins that one transaction deletes."""
RECORDS = 1_000
"""Maximum number of records of one kind that one transaction deletes."""
MOST_LEFT_OUT = 100
"""After so many chains that cannot be archived, a run archives no more."""
NAMED = 5
"""Maximum number of troubles that the error of a run names."""


class Pruned(NamedTuple):
    """The numbers of sessions archived and events deleted by one run."""

    sessions: int
    events: int


class NotPrunedError(Exception):
    """Some of what is old could not be archived or deleted; all the rest was."""


def prune(*, seconds: float = TASK_SECONDS) -> Pruned:
    """Archive chains, and delete events and other records that are old (docs/operations.md lists
    them). Write the totals of failures.

    Stops after `seconds`. A chain or a kind of record that cannot be archived or deleted is left
    out. Raises `NotPrunedError` at the end, which names those.
    """
    until = time.monotonic() + seconds
    now = database_now()
    troubles: list[str] = []
    # First, since lists read each hour that is not summed yet.
    _tried("totals of failures", lambda: _repeat(lambda: hour_total(now), until), troubles)
    sessions = events = 0
    archive_before = _before(now, "session_retention")
    if archive_before is not None:
        sessions = _archive(archive_before, until, troubles)
    forget_before = _before(now, "event_retention")
    if forget_before is not None:
        events = _tried("events", lambda: _forget(forget_before, until), troubles)
    for what, step in _deletions(now):
        _tried(what, lambda step=step: _repeat(step, until), troubles)  # type: ignore[misc]
    _tried("prepared actions", lambda: actions_forget(now, ACTIONS), troubles)
    if troubles:
        more = len(troubles) - NAMED
        raise NotPrunedError("; ".join(troubles[:NAMED]) + (f"; {more} more" if more > 0 else ""))
    return Pruned(sessions, events)


def _deletions(now: datetime) -> Iterator[tuple[str, Callable[[], int]]]:
    """Return what is deleted by its age, with the function that deletes some of it."""
    if before := _before(now, "webhook_delivery_retention"):
        yield "webhook deliveries", partial(deliveries_forget, before, DELIVERIES)
    if before := _before(now, "automatic_audit_retention"):
        yield "automatic dispatches", partial(dispatches_forget, before, DISPATCHES)
    if before := _before(now, "record_retention"):
        yield "closed breakers", partial(breakers_forget, before, RECORDS)
        yield "revisions of policies", partial(revisions_forget, before, RECORDS)
        yield "parked tasks", partial(parked_forget, before, RECORDS)
        yield "log of the admin", partial(_admin_log_forget, before)
    # Titles may quote logs, and go when these do.
    hours = now - timedelta(days=HOURS_DAYS)
    archived = _before(now, "session_retention")
    yield "failures", lambda: failures_forget(hours, archived, HOURS)
    yield "totals of failures", lambda: totals_forget(hours, HOURS)
    days = (now - timedelta(days=REPORT_DAYS)).date()
    yield "reports", lambda: reports_forget(days, HOURS)
    yield "logins of browsers", partial(logins_forget, now, LOGINS)


def _admin_log_forget(before: datetime) -> int:
    old = LogEntry.objects.filter(action_time__lt=before).order_by("action_time")
    ids = list(old.values_list("pk", flat=True)[:RECORDS])
    deleted, _ = LogEntry.objects.filter(pk__in=ids).delete()
    return deleted


def _tried(what: str, step: Callable[[], int], troubles: list[str]) -> int:
    """Return what a step did; add its error to `troubles`. Without the database, raise it."""
    try:
        return step()
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        logger.exception("retention: %s failed", what)
        troubles.append(f"{what}: {type(error).__name__}: {error}".splitlines()[0])
        return 0


def complete_from(now: datetime) -> datetime | None:
    """Return the time from which on the log has every chain that ended; None: it has them all."""
    kept = settings.REPRISE["session_retention"], settings.REPRISE["event_retention"]
    return now - timedelta(seconds=sum(kept)) if all(kept) else None


def _before(now: datetime, setting: str) -> datetime | None:
    seconds = settings.REPRISE[setting]
    return now - timedelta(seconds=seconds) if seconds > 0 else None


def _archive(before: datetime, until: float, troubles: list[str]) -> int:
    archived = 0
    left_out: list[UUID] = []
    while roots := retention.chains_ended(before, left_out):
        if not archived:
            leases_sweep_orphans()
        _repeat(lambda roots=roots: retention.logs_delete(roots), until)  # type: ignore[misc]
        if time.monotonic() >= until or len(left_out) >= MOST_LEFT_OUT:
            break
        known = len(left_out)
        found = _archived(roots, before, left_out, troubles)
        archived += found
        if not found and len(left_out) == known:
            break  # other transactions hold their locks
    return archived


def _archived(
    roots: Sequence[UUID], before: datetime, left_out: list[UUID], troubles: list[str]
) -> int:
    """Archive chains; halve them until those that cannot be archived are found."""
    if len(roots) == 1:
        known = len(troubles)
        found = _tried(
            f"chain {roots[0]}", lambda: retention.chains_archive(roots, before), troubles
        )
        left_out.extend(roots[: len(troubles) - known])
        return found
    try:
        return retention.chains_archive(roots, before)
    except (OperationalError, InterfaceError):
        raise
    except Exception:  # noqa: BLE001  # that of one of them, which is logged when it is found
        middle = len(roots) // 2
        halves = roots[:middle], roots[middle:]
        return sum(_archived(half, before, left_out, troubles) for half in halves)


def _forget(before: datetime, until: float) -> int:
    counted = EventCursor.objects.values_list("counted_id", flat=True).first() or 0

    def forget() -> int:
        # Counted in the transaction that deletes, so that metrics stay correct.
        with transaction.atomic():
            found = retention.chains_forget(before, counted)
            if found:
                EventCount.objects.get_or_create(metric=FORGOTTEN, labels={}, defaults={"value": 0})
                EventCount.objects.filter(metric=FORGOTTEN).update(value=F("value") + found)
        return found

    return _repeat(forget, until)


def _repeat(step: Callable[[], int], until: float) -> int:
    """Repeat a step until it does nothing or the time is over. Return the sum of its results."""
    done = 0
    while time.monotonic() < until and (found := step()):
        done += found
    return done
