"""Retention, run by a periodic task: slice after slice while there is time."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import F

from reprise.models import EventCount, EventCursor
from scheduler.services.executors import leases_sweep_orphans
from sessions_app.locks import database_now
from sessions_app.services.access.logins import logins_forget
from sessions_app.services.failures.count import failures_forget, reports_forget
from sessions_app.services.failures.days import days_forget
from sessions_app.services.failures.totals import hour_total, totals_forget
from sessions_app.services.sessions import retention
from sessions_app.services.sessions.prepared_actions import actions_forget
from sessions_app.services.write.audit import dispatches_forget
from sessions_app.webhooks.endpoints import deliveries_forget

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


class Pruned(NamedTuple):
    """The numbers of sessions archived and events deleted by one run."""

    sessions: int
    events: int


def prune(*, seconds: float = TASK_SECONDS) -> Pruned:
    """Archive chains, and delete events, deliveries, automatic dispatches, figures of failures and
    reports, prepared actions and logins of browsers that are old. Write the totals of failures.

    Stops after `seconds`.
    """
    until = time.monotonic() + seconds
    now = database_now()
    # First, since lists read each hour that is not summed yet.
    _repeat(lambda: hour_total(now), until)
    sessions = events = 0
    archive_before = _before(now, "session_retention")
    if archive_before is not None:
        sessions = _archive(archive_before, until)
    forget_before = _before(now, "event_retention")
    if forget_before is not None:
        events = _forget(forget_before, until)
    deliveries_before = _before(now, "webhook_delivery_retention")
    if deliveries_before is not None:
        _repeat(lambda: deliveries_forget(deliveries_before, DELIVERIES), until)
    dispatches_before = _before(now, "automatic_audit_retention")
    if dispatches_before is not None:
        _repeat(lambda: dispatches_forget(dispatches_before, DISPATCHES), until)
    # Titles may quote logs, and go when these do.
    hours_before = now - timedelta(days=HOURS_DAYS)
    _repeat(lambda: failures_forget(hours_before, archive_before, HOURS), until)
    _repeat(lambda: totals_forget(hours_before, HOURS), until)
    _repeat(lambda: days_forget(hours_before.date(), HOURS), until)
    days_before = (now - timedelta(days=REPORT_DAYS)).date()
    _repeat(lambda: reports_forget(days_before, HOURS), until)
    actions_forget(now, ACTIONS)
    _repeat(lambda: logins_forget(now, LOGINS), until)
    return Pruned(sessions, events)


def complete_from(now: datetime) -> datetime | None:
    """Return the time from which on the log has every chain that ended; None: it has them all."""
    kept = settings.REPRISE["session_retention"], settings.REPRISE["event_retention"]
    return now - timedelta(seconds=sum(kept)) if all(kept) else None


def _before(now: datetime, setting: str) -> datetime | None:
    seconds = settings.REPRISE[setting]
    return now - timedelta(seconds=seconds) if seconds > 0 else None


def _archive(before: datetime, until: float) -> int:
    archived = 0
    while roots := retention.chains_ended(before):
        if not archived:
            leases_sweep_orphans()
        _repeat(lambda roots=roots: retention.logs_delete(roots), until)  # type: ignore[misc]
        if time.monotonic() >= until:
            break
        found = retention.chains_archive(roots, before)
        archived += found
        if not found:
            break  # other transactions hold their locks
    return archived


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
