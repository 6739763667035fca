"""Schedules of the whole cluster: those that were paused last, and those whose times come next."""

from typing import Any

from django.urls import reverse

from reprise.operations.problems import SHOWN
from sessions_app.authorization import Actor
from sessions_app.models import Schedule
from sessions_app.selectors.schedules import schedules_visible
from sessions_app.web.parts import Column, Empty, Listing

_COLUMNS = [
    Column("Schedule", "name"),
    *(Column(label, "more") for label in ("When", "Next time", "Owner", "State")),
]
_NONE = Empty("No schedule has a time to come.")
_GOING = Empty("No schedule is paused.")


def timetable(actor: Actor) -> dict[str, Any]:
    """Return both lists, each of at most `SHOWN` rows, in two statements."""
    known = schedules_visible(actor)
    paused = known.filter(paused_at__isnull=False).order_by("-paused_at", "pk")
    coming = known.filter(paused_at=None, due_at__isnull=False).order_by("due_at", "pk")
    return {
        "paused": _listing("Paused schedules", paused[:SHOWN], _GOING),
        "coming": _listing("The next times of schedules", coming[:SHOWN], _NONE),
    }


def _listing(title: str, rows: Any, empty: Empty) -> Listing:
    shown = [_row(each) for each in rows]
    return Listing(title, _COLUMNS, "projects/schedule_row.html", shown, empty)


def _row(schedule: Schedule) -> dict[str, Any]:
    project = schedule.project
    place = [project.domain.name, project.name, schedule.pk]
    address = reverse("project-schedule", args=place)
    return {"id": schedule.pk, "name": str(schedule), "schedule": schedule, "address": address}
