"""The lists of schedules on the page of operators: those that are paused, and those that come
next."""

from collections.abc import Sequence
from typing import Any

from django.urls import reverse

from interfaces.web.parts import Column, Empty, Listing
from reprise.operations.overview import timetable
from sessions_app.authorization import Actor
from sessions_app.models import Schedule

_COLUMNS = [
    Column("Schedule", "name"),
    *(Column(label, "more") for label in ("When", "Next time", "Owner", "State")),
]
_NONE = Empty("No schedule has a time to come.")
_GOING = Empty("No schedule is paused.")


def timetable_lists(actor: Actor) -> dict[str, Any]:
    """Return both lists."""
    known = timetable(actor)
    return {
        "paused": _listing("Paused schedules", known.paused, _GOING),
        "coming": _listing("The next times of schedules", known.coming, _NONE),
    }


def _listing(title: str, rows: Sequence[Schedule], empty: Empty) -> Listing:
    shown = [_row(each) for each in rows]
    return Listing(title, _COLUMNS, "projects/schedule_row.html", shown, empty)


def _row(schedule: Schedule) -> dict[str, Any]:
    project = schedule.project
    place = [project.domain.name, project.name, schedule.pk]
    address = reverse("project-schedule", args=place)
    return {"id": schedule.pk, "name": str(schedule), "schedule": schedule, "address": address}
