"""Reads of what the processes tell operators about themselves."""

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from reprise.models import Heartbeat, PeriodicRun


def with_last_runs(tasks: QuerySet[Any]) -> QuerySet[Any]:
    """Return periodic tasks with the columns of their last runs (`run_...`), in the same query."""
    run = PeriodicRun.objects.filter(name=OuterRef("name"))
    wanted = ("started_at", "duration", "result", "error", "runs", "failures")
    columns = {f"run_{name}": Subquery(run.values(name)[:1]) for name in wanted}
    found: QuerySet[Any] = tasks.annotate(**columns)
    return found


def busy_beats() -> QuerySet[Heartbeat]:
    """Return the beats that do something beside sending messages."""
    return Heartbeat.objects.filter(part="beat").exclude(doing="")
