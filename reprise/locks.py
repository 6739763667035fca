"""Row locks on what the processes keep for themselves.

No other lock is taken under one of these.
"""

from collections.abc import Iterable
from typing import Any

from django_celery_beat.models import PeriodicTask

from reprise.models import EventCursor


def claim_cursor() -> EventCursor | None:
    """Lock the mark up to which events are counted; None while another process counts."""
    return EventCursor.objects.select_for_update(skip_locked=True).first()


def lock_tasks_to_switch(ids: Iterable[Any], *, enabled: bool) -> list[str]:
    """Lock, by key, the periodic tasks among these that are not switched so yet; their names."""
    others = PeriodicTask.objects.filter(pk__in=ids).exclude(enabled=enabled)
    return [task.name for task in others.select_for_update().order_by("pk")]
