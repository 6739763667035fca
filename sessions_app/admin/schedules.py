"""The pages of all projects' schedules."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from sessions_app.admin.base import ReadOnlyAdmin, column, operator
from sessions_app.admin.cells import coming, past
from sessions_app.api.http.templates import read_template
from sessions_app.api.requests.schedules import Backfill
from sessions_app.core.errors import DomainError
from sessions_app.forms.schedules import BackfillForm
from sessions_app.models import Schedule
from sessions_app.services.schedules.by_hand import (
    MOST_TIMES,
    Made,
    schedule_backfill,
    schedule_trigger,
)
from sessions_app.services.schedules.saving import (
    schedule_delete,
    schedule_pause,
    schedule_resume,
)

_STATES = {"active": "success", "over": "default", "paused": "danger"}


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    """The schedules. Tenants create and change them, since sessions are submitted as their owner.

    Operators pause, resume, trigger, backfill and delete them.
    """

    list_display = ("name", "project", "when", "state", "paused_reason", "owner", "next", "last")
    joined = ("project__domain", "owner")
    list_filter = (("project", AutocompleteSelectFilter), "overlap")
    search_fields = ("name__startswith", "project__name__startswith")
    fields = (
        *("id", "project", "name", "owner", "queue", "cron", "time_zone", "every", "template"),
        *("overlap", "catch_up", "jitter", "starts_at", "until", "pause_after", "state"),
        *("paused_at", "paused_reason", "next_at", "due_at", "last_at", "last_problem"),
        "created_at",
    )
    readonly_fields = ("state",)
    actions = ("pause", "resume", "trigger", "backfill", "remove")

    @column("when")
    def when(self, schedule: Schedule) -> str:
        every = f"every {schedule.every} s"
        return every if schedule.every else f"{schedule.cron} {schedule.time_zone}"

    @column("state", label=_STATES)
    def state(self, schedule: Schedule) -> str:
        if schedule.paused:
            return "paused"
        return "active" if schedule.next_at else "over"

    @column("next time", ordering="next_at")
    def next(self, schedule: Schedule) -> str:
        return coming(None if schedule.paused else schedule.next_at)

    @column("latest time", ordering="last_at")
    def last(self, schedule: Schedule) -> str:
        return past(schedule.last_at)

    @admin.action(description="Pause")
    def pause(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Pause the chosen schedules until somebody resumes them."""
        for schedule in chosen:
            schedule_pause(schedule, reason="paused by an operator", by=operator(request))
        messages.success(request, "Paused. Sessions that run go on.")

    @admin.action(description="Resume")
    def resume(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Resume the chosen schedules that are paused."""
        for schedule in chosen:
            schedule_resume(schedule, by=operator(request))
        messages.success(request, "Resumed. They go on with their next times.")

    @admin.action(description="Submit one session now")
    def trigger(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Make one session of each of the chosen schedules, as their owners."""
        for schedule in chosen:
            try:
                made = schedule_trigger(schedule, read_template, by=operator(request))
            except DomainError as error:
                messages.error(request, f"{schedule}: {error.detail}.")
            else:
                messages.success(request, f"{schedule}: {made.session_id} is submitted.")

    @admin.action(description="Submit those of past times")
    def backfill(self, request: HttpRequest, chosen: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a stretch of time and show what a dry run says; once confirmed, do it."""
        form = BackfillForm(request.POST if "from" in request.POST else None)
        asked = form.read(Backfill) if form.is_bound else None
        runs = _runs(chosen, asked, dry_run=True, by=operator(request)) if asked else []
        total = sum(len(run.made) for run in runs)
        # A confirmation is valid only for the stretch whose dry run was shown.
        stretch = f"{asked.from_.isoformat()} {asked.to.isoformat()}" if asked else ""
        possible = 0 < total <= MOST_TIMES
        if asked and possible and request.POST.get("confirmed") == stretch:
            for run in _runs(chosen, asked, dry_run=False, by=operator(request)):
                _tell(request, run)
            return None
        context = {"chosen": chosen, "form": form, "runs": runs, "total": total, "most": MOST_TIMES}
        context |= {"stretch": stretch, "possible": possible}
        return self.render(request, "backfill_confirm", "Backfill schedules", **context)

    @admin.action(description="Delete; their sessions stay")
    def remove(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Delete the chosen schedules."""
        for schedule in chosen:
            schedule_delete(schedule, by=operator(request))
        messages.success(request, "Deleted. Their sessions stay.")


class _Run(NamedTuple):
    """The backfill of one schedule: its times, or why it was refused."""

    schedule: Schedule
    made: list[Made]
    refused: str = ""


def _runs(chosen: Iterable[Schedule], asked: Backfill, *, dry_run: bool, by: str) -> list[_Run]:
    """Backfill each schedule in a transaction of its own; a `dry_run` makes no session."""
    found = []
    for schedule in chosen:
        try:
            made = schedule_backfill(
                schedule, read_template, begin=asked.from_, end=asked.to, dry_run=dry_run, by=by
            )
        except DomainError as error:
            found.append(_Run(schedule, [], error.detail))
        else:
            found.append(_Run(schedule, made))
    return found


def _tell(request: HttpRequest, run: _Run) -> None:
    """Say how many sessions of a backfill were submitted, and why others were not."""
    submitted = sum(each.session_id is not None for each in run.made)
    if run.made:
        text = f"{run.schedule}: {submitted} of {len(run.made)} sessions are submitted."
        messages.success(request, text)
    refused = run.refused or next((each.error.detail for each in run.made if each.error), "")
    if refused:
        messages.error(request, f"{run.schedule}: {refused}.")
