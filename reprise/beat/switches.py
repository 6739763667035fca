"""Enabling and disabling periodic tasks."""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from reprise.locks import lock_tasks_to_switch
from sessions_app.audit.context import audited


def tasks_switch(ids: Collection[Any], *, enabled: bool, by: str) -> list[str]:
    """Enable or disable periodic tasks; return the names of those that were not so before."""
    with audited(by=by), transaction.atomic():
        names = lock_tasks_to_switch(ids, enabled=enabled)
        PeriodicTask.objects.filter(name__in=names).update(enabled=enabled)
        # Beat does not see an update by itself.
        PeriodicTasks.update_changed()
    return names
