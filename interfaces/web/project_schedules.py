"""The schedules of a project: made, changed, paused, triggered, and their next times."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.forms.schedules import ScheduleForm, TimesForm
from interfaces.web.form_fields import shown_field
from interfaces.web.parts import Column, Confirm, Empty, Field, Listing
from interfaces.web.project_frame import Place, of_project, page, part
from sessions_app.authorization import Action, permitted, require_user
from sessions_app.core.errors import DomainError
from sessions_app.locks import database_now
from sessions_app.models import Schedule
from sessions_app.models.schedules import MAX_REASON
from sessions_app.selectors.schedules import schedule_get, schedules_visible, tips_of
from sessions_app.services.schedules import saving
from sessions_app.services.schedules.by_hand import schedule_trigger

PAGE = 200
"""Most schedules that the page lists. Others have their address."""
RUNS = 10


@of_project(Action.SCHEDULE_READ, methods=("GET", "HEAD"))
def schedules(request: HttpRequest, place: Place) -> HttpResponse:
    """List the schedules with their next times."""
    rows = schedules_visible(place.actor).filter(project=place.project).order_by("name")
    listing = Listing(
        "Schedules",
        [
            Column("Schedule", "name"),
            *(Column(label, "more") for label in ("When", "Next time", "Owner", "State")),
        ],
        "projects/schedule_row.html",
        [_row(place, each) for each in rows[:PAGE]],
        Empty("There are no schedules.", "Make one to submit a session again and again."),
    )
    return page(request, place, "schedules", list=listing, makes=place.may(Action.SCHEDULE_CREATE))


def _row(place: Place, schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.pk,
        "name": schedule.name,
        "schedule": schedule,
        "address": place.address("project-schedule", schedule.pk),
    }


@of_project(Action.SCHEDULE_READ, methods=("POST",))
def times(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the next times that the form would give, before it is saved."""
    form = TimesForm(request.POST)
    found = form.times()
    refused = [f"{name}: {text}" for name, texts in form.errors.items() for text in texts]
    return part(
        request, place, "schedule_times", title="The next times", times=found, refused=refused
    )


@of_project(Action.SCHEDULE_CREATE)
def schedule_new(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the form of a new schedule, or create it."""
    form = ScheduleForm(None, request.POST if request.method == "POST" else None)
    made = form.is_bound and form.create(place.project, by=require_user(place.actor))
    if made:
        _saved(request, form, f"The schedule {made.name} is saved.")
        return redirect(place.address("project-schedule", made.pk))
    return _page(request, place, None, form)


@of_project(Action.SCHEDULE_READ)
def schedule(request: HttpRequest, place: Place, schedule_id: UUID) -> HttpResponse:
    """Show one schedule with its next times and latest chains; a POST changes it."""
    found = _found(place, schedule_id)
    form = ScheduleForm(found, request.POST if request.method == "POST" else None)
    if form.is_bound:
        schedule_get(place.actor, schedule_id, Action.SCHEDULE_WRITE)
        if form.change(found, by=require_user(place.actor)):
            _saved(request, form, "The schedule is saved. You are its owner.")
            return redirect(place.address("project-schedule", found.pk))
    return _page(request, place, _found(place, schedule_id), form)


def _saved(request: HttpRequest, form: ScheduleForm, text: str) -> None:
    messages.success(request, text)
    for warning in form.warnings:
        messages.warning(request, f"Its sessions: {warning}.")


def _found(place: Place, schedule_id: UUID) -> Schedule:
    """Return a schedule of the project. Raises `NotFound` and `Http404`."""
    return place.own(schedule_get(place.actor, schedule_id, Action.SCHEDULE_READ))


def _page(
    request: HttpRequest, place: Place, found: Schedule | None, form: ScheduleForm
) -> HttpResponse:
    context: dict[str, Any] = {"changes": True}
    if found is not None:
        roots = found.recent[:RUNS]
        tips = tips_of(roots)
        context = {
            "schedule": found,
            "times": saving.next_times(found, database_now()),
            "runs": [tips[root] for root in roots if root in tips],
            "changes": permitted(
                place.actor, Action.SCHEDULE_WRITE, project=place.project, owner_id=found.owner_id
            ),
            "reason": Field("reason", "Reason of the pause", max_length=MAX_REASON),
        }
    fields = [shown_field(each, rows=12) for each in form]
    refused = [str(each) for each in form.non_field_errors()]
    status = 400 if form.errors else 200
    return page(request, place, "schedule", status, fields=fields, refused=refused, **context)


@of_project(Action.SCHEDULE_READ, methods=("POST",))
def act(request: HttpRequest, place: Place, schedule_id: UUID) -> HttpResponse:
    """Pause or resume a schedule, or make one session of it now."""
    found = place.own(schedule_get(place.actor, schedule_id, Action.SCHEDULE_WRITE))
    try:
        messages.success(request, _done(request.POST, found, require_user(place.actor)))
    except DomainError as error:
        messages.error(request, f"Not done: {error.detail}.")
    return redirect(place.address("project-schedule", found.pk))


def _done(sent: Any, found: Schedule, by: User) -> str:
    """Do what is asked, and return what to say about it."""
    match sent.get("act", ""):
        case "pause":
            reason = sent.get("reason", "").replace("\0", "").strip()[:MAX_REASON]
            saving.schedule_pause(found, reason=reason, by=by.username)
            return "Paused. Sessions that run go on."
        case "resume":
            saving.schedule_resume(found, by=by)
            return "Resumed. It goes on with its next time."
        case "trigger":
            made = schedule_trigger(found, by=by)
            warned = "".join(f" Warning: {each}." for each in made.warnings)
            return f"The session {made.session_id} is submitted.{warned}"
    return "Nothing was done."


@of_project(Action.SCHEDULE_READ)
def delete(request: HttpRequest, place: Place, schedule_id: UUID) -> HttpResponse:
    """Ask before a schedule is deleted, or delete it."""
    found = place.own(schedule_get(place.actor, schedule_id, Action.SCHEDULE_WRITE))
    if request.method == "POST":
        saving.schedule_delete(found, by=place.actor.name)
        messages.success(request, f"The schedule {found.name} is deleted.")
        return redirect(place.address("project-schedules"))
    confirm = Confirm(
        f"Delete the schedule {found.name}",
        "It makes no more sessions. Those that it made stay, and go on.",
        "Yes, delete it",
        place.address("project-schedule-delete", found.pk),
        place.address("project-schedule", found.pk),
        tone="danger",
    )
    return page(request, place, "confirm", confirm=confirm, title=f"Delete {found.name}")
