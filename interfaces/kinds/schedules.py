"""Schedules."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User

from interfaces.kinds.resource import Call, Listing, Resource, each, showing
from interfaces.render.schedule_render import (
    backfill_json,
    schedule_detail_json,
    schedule_json,
)
from interfaces.requests.filters import ScheduleFilter
from interfaces.requests.schedules import (
    Backfill,
    ScheduleChanges,
    ScheduleCreate,
    SchedulePause,
    SchedulePut,
    Timing,
)
from interfaces.shapes import schedule_shapes as shapes
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.core.errors import InvalidInput
from sessions_app.locks import database_now
from sessions_app.models import Schedule
from sessions_app.selectors.schedules import schedule_get, schedules_visible
from sessions_app.selectors.sessions import project_resolve
from sessions_app.services.schedules import by_hand, saving
from sessions_app.services.schedules.checking import schedule_check
from sessions_app.services.sessions.submit import Submitted


def _found(actor: Actor, schedule_id: UUID) -> Schedule:
    return schedule_get(actor, schedule_id, Action.SCHEDULE_WRITE)


class Saved(NamedTuple):
    """A schedule as it is saved, and warnings about the sessions that it will make."""

    schedule: Schedule
    warnings: tuple[str, ...]


def saved_json(saved: Saved) -> dict[str, Any]:
    """Return a schedule with the warnings about its sessions, if there are any."""
    body = schedule_detail_json(saved.schedule)
    return {**body, "warnings": saved.warnings} if saved.warnings else body


def create(actor: Actor, body: Mapping[str, Any]) -> Saved:
    """Create a schedule, which is the caller's."""
    asked = ScheduleCreate.model_validate(body)
    project = project_resolve(actor, asked.project, Action.SCHEDULE_CREATE)
    made = Schedule(
        project=project,
        name=asked.name,
        template=asked.stored(),
    )
    asked.give(made)
    by = require_user(actor)
    warnings = schedule_check(made, by=by)
    saving.schedule_create(made, by=by, paused=asked.paused)
    return Saved(made, warnings)


def put(actor: Actor, schedule_id: UUID, body: Mapping[str, Any]) -> Saved:
    """Replace all fields that can change."""
    found = _found(actor, schedule_id)
    asked = SchedulePut.model_validate(body)
    for field, given, meant in (
        ("project", asked.project, found.project.address),
        ("name", asked.name, found.name),
    ):
        if given not in {None, meant}:
            raise InvalidInput({field: [f"must be {meant!r}, as it has been"]})
    fields = asked.give(found) | {"template"}
    found.template = asked.stored()
    return _changed(found, require_user(actor), fields, asked.turned)


def change(actor: Actor, schedule_id: UUID, body: Mapping[str, Any]) -> Saved:
    """Change the given fields."""
    found = _found(actor, schedule_id)
    asked = ScheduleChanges.model_validate(body)
    fields = asked.give(found, only=True)
    if (template := asked.stored()) is not None:
        found.template = template
        fields |= {"template"}
    return _changed(found, require_user(actor), fields, asked.turned)


def _changed(found: Schedule, by: User, fields: set[str], paused: bool | None) -> Saved:
    warnings = schedule_check(found, by=by, fields=fields, paused=paused)
    saving.schedule_change(found, by=by, fields=fields, paused=paused)
    return Saved(found, warnings)


def delete(actor: Actor, schedule_id: UUID) -> None:
    """Delete a schedule. Its sessions stay."""
    saving.schedule_delete(_found(actor, schedule_id), by=actor.name)


def pause(actor: Actor, schedule_id: UUID, body: Mapping[str, Any]) -> Schedule:
    """Make no more sessions."""
    found = _found(actor, schedule_id)
    reason = SchedulePause.model_validate(body).reason
    saving.schedule_pause(found, reason=reason, by=actor.name)
    return found


def resume(actor: Actor, schedule_id: UUID) -> Schedule:
    """Go on with the next time."""
    found = _found(actor, schedule_id)
    saving.schedule_resume(found, by=require_user(actor))
    return found


def trigger(actor: Actor, schedule_id: UUID) -> Submitted:
    """Make one session now, as the schedule's owner."""
    found = _found(actor, schedule_id)
    return by_hand.schedule_trigger(found, by=require_user(actor))


def backfill(actor: Actor, schedule_id: UUID, body: Mapping[str, Any]) -> dict[str, Any]:
    """Make the sessions of times that have passed, or only say which. Return what was made."""
    found = _found(actor, schedule_id)
    asked = Backfill.model_validate(body)
    by, dry_run = require_user(actor), asked.dry_run
    made = by_hand.schedule_backfill(found, begin=asked.from_, end=asked.to, dry_run=dry_run, by=by)
    return backfill_json(made, dry_run=dry_run)


def preview(asked: Timing) -> list[datetime]:
    """Return the next times that a schedule would have."""
    made = Schedule(created_at=database_now(), template={})
    asked.time(made)
    saving.timing_check(made, made.created_at)
    return saving.next_times(made, made.created_at)


def _triggered(made: Submitted) -> dict[str, Any]:
    warnings = {"warnings": made.warnings} if made.warnings else {}
    return {"id": made.session_id, **warnings}


SCHEDULE = Resource(
    name="schedule",
    many="schedules",
    address="schedules",
    place="<uuid:schedule_id>",
    shape=shapes.ScheduleDetail,
    page=shapes.SchedulePage,
    render=each(schedule_json),
    listing=Listing(
        Action.SCHEDULE_LIST,
        "List the schedules of the projects of which you are a member, oldest first.",
        schedules_visible,
        ["id"],
        ScheduleFilter,
    ),
    read=Call(
        Action.SCHEDULE_READ,
        "One schedule, with its next times and its latest chains.",
        schedule_get,
        show=showing(schedule_detail_json),
    ),
    create=Call(
        Action.SCHEDULE_CREATE,
        "Create a schedule. Its sessions are submitted as you.",
        create,
        ScheduleCreate,
        shape=shapes.SavedSchedule,
        show=showing(saved_json),
        row=attrgetter("schedule"),
    ),
    put=Call(
        Action.SCHEDULE_WRITE,
        "Replace all fields that can change. You become its owner.",
        put,
        SchedulePut,
        shape=shapes.SavedSchedule,
        show=showing(saved_json),
        row=attrgetter("schedule"),
        named="schedule_put",
    ),
    patch=Call(
        Action.SCHEDULE_WRITE,
        "Change the given fields. You become its owner.",
        change,
        ScheduleChanges,
        shape=shapes.SavedSchedule,
        show=showing(saved_json),
        row=attrgetter("schedule"),
    ),
    delete=Call(Action.SCHEDULE_WRITE, "Delete a schedule. Its sessions stay.", delete),
    acts={
        "pause": Call(
            Action.SCHEDULE_WRITE,
            "Pause the schedule. Its running sessions go on.",
            pause,
            SchedulePause,
            show=showing(schedule_detail_json),
        ),
        "resume": Call(
            Action.SCHEDULE_WRITE,
            "Resume a paused schedule with its next time. Times of the pause are not made up.",
            resume,
            show=showing(schedule_detail_json),
        ),
        "trigger": Call(
            Action.SCHEDULE_WRITE,
            "Make one session now, as the schedule's owner, also while it is paused.",
            trigger,
            shape=shapes.ScheduledSession,
            show=showing(_triggered),
            status=201,
            location=lambda made: f"/api/v2/sessions/{made.session_id}/",
            once=True,
        ),
        "backfill": Call(
            Action.SCHEDULE_WRITE,
            "Make the sessions of past times, at most 1,000, or with `dry_run` only show "
            "the times.",
            backfill,
            Backfill,
            shape=shapes.Backfilled,
            show=showing(dict),
        ),
    },
)
