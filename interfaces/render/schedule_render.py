"""Renders schedules."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from interfaces.render.by_shape import rendered
from interfaces.shapes import schedule_shapes as shapes
from sessions_app.core.stored_numbers import in_short
from sessions_app.models import Schedule
from sessions_app.selectors.schedules import tips_of
from sessions_app.services.schedules.by_hand import Made
from sessions_app.services.schedules.saving import next_times


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule, for lists."""
    fields = rendered(
        shapes.Schedule,
        schedule,
        leave_out={"from"},
        project=schedule.project.address,
        owner=schedule.owner and schedule.owner.username,
        queue=schedule.queue or None,
        cron=schedule.cron or None,
        template=in_short(schedule.template),
    )
    return {**fields, "from": schedule.starts_at}


def schedule_detail_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule with its next times and its latest chains, in one more statement."""
    (recent,) = runs_json([schedule])
    return {**schedule_json(schedule), "next_times": next_times_of(schedule), "recent": recent}


def next_times_of(schedule: Schedule) -> list[datetime]:
    """Return the next times of a schedule."""
    return next_times(schedule, timezone.now())


def runs_json(schedules: Sequence[Schedule]) -> list[list[dict[str, Any]]]:
    """Return the latest chains of each schedule that are still recorded, in one statement."""
    tips = tips_of([root for each in schedules for root in each.recent])
    return [
        [
            rendered(shapes.ScheduleRun, tip, session_id=tip.root_id, submitted_at=tip.created_at)
            for root in each.recent
            if (tip := tips.get(root))
        ]
        for each in schedules
    ]


def backfill_json(made: Sequence[Made], *, dry_run: bool) -> dict[str, Any]:
    """Return the times of a backfill."""
    return {
        "dry_run": dry_run,
        "made": sum(each.session_id is not None for each in made),
        "results": [
            rendered(shapes.BackfilledTime, each, error=each.error and each.error.detail)
            for each in made
        ],
    }
