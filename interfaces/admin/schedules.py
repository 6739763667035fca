"""The pages of all projects' schedules."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import (
    CappedPaginator,
    KnownOnly,
    OperatorAdmin,
    OwnPage,
    actor_of,
    column,
    operator,
)
from interfaces.admin.cells import change_url, coming, past
from interfaces.admin.theme import themed
from interfaces.forms.schedules import BackfillForm, ScheduleForm
from interfaces.requests.schedules import Backfill
from sessions_app.authorization import require_user
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.locks import database_now
from sessions_app.models import Schedule
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.schedules.by_hand import (
    MOST_TIMES,
    Made,
    schedule_backfill,
    schedule_trigger,
)
from sessions_app.services.schedules.saving import (
    next_times,
    schedule_delete,
    schedule_pause,
    schedule_resume,
)

_STATES = {"active": "success", "over": "default", "paused": "danger"}


class _OperatorsForm(ScheduleForm):
    """The form of a schedule; that of a new one asks for its project, too."""

    order = ("project", *ScheduleForm.order)

    def __init__(self, admin_of: OperatorAdmin, schedule: Schedule | None, sent: Any):
        super().__init__(schedule, sent)
        if schedule is None:
            widget = KnownOnly(admin_of.opts.get_field("project"), admin_of.admin_site)
            projects = projects_all().select_related("domain")
            self.fields["project"] = forms.ModelChoiceField(projects, widget=widget)
        self.order_fields(self.order)
        themed(self)


@admin.register(Schedule)
class ScheduleAdmin(OwnPage, OperatorAdmin):
    """The schedules. Sessions are submitted as the owner, and who saves a schedule becomes that."""

    list_display = ("name", "project", "when", "state", "paused_reason", "owner", "next", "last")
    joined = ("project__domain", "owner")
    list_filter = (("project", AutocompleteSelectFilter), "overlap")
    search_fields = ("name__startswith", "project__name__startswith")
    ordering = ("-pk",)
    paginator = CappedPaginator
    sortable_by = ()
    list_per_page = 50
    actions = ("pause", "resume", "trigger", "backfill", "remove")

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return the page of a schedule, or of a new one; a POST previews its times or saves it."""
        found = None if object_id is None else self.get_object(request, object_id)
        if object_id is not None and found is None:
            return self.missing(request, object_id)
        form = _OperatorsForm(self, found, request.POST if request.method == "POST" else None)
        if form.is_bound and "preview" in request.POST:
            times = form.times(found and found.created_at)
            return self._page(request, found, form, times)
        try:
            saved = form.is_bound and _saved(request, form, found)
        except NotFound:
            return self.missing(request, object_id)
        if saved:
            messages.success(request, f"The schedule {saved} is saved. You are its owner.")
            for warning in form.warnings:
                messages.warning(request, f"Its sessions: {warning}.")
            return HttpResponseRedirect(change_url("schedule", saved.pk))
        # What the form has written into the record is not stored.
        found = found and self.get_object(request, str(found.pk))
        return self._page(request, found, form, found and next_times(found, database_now()))

    def _page(
        self, request: HttpRequest, found: Schedule | None, form: _OperatorsForm, times: Any
    ) -> HttpResponse:
        context = {
            "original": found,
            "form": form,
            "times": times,
            "owner": operator(request),
            "preview": "preview" in request.POST,
            "state": found and self.state(found),
            "list_url": reverse("admin:sessions_app_schedule_changelist"),
            "audit_url": self.audit_url(found) if found else "",
            "media": self.media + form.media,
        }
        title = f"Schedule: {found or 'a new one'}"
        return self.render(request, "schedule", title, **context)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete the schedule. Its sessions stay."""
        schedule_delete(obj, by=operator(request))

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
            schedule_resume(schedule, by=require_user(actor_of(request)))
        messages.success(request, "Resumed. They go on with their next times.")

    @admin.action(description="Submit one session now")
    def trigger(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Make one session of each of the chosen schedules, as their owners."""
        by = require_user(actor_of(request))
        for schedule in chosen:
            try:
                made = schedule_trigger(schedule, by=by)
            except DomainError as error:
                messages.error(request, f"{schedule}: {error.detail}.")
            else:
                messages.success(request, f"{schedule}: {made.session_id} is submitted.")
                for warning in made.warnings:
                    messages.warning(request, f"{schedule}: {warning}.")

    @admin.action(description="Submit those of past times")
    def backfill(self, request: HttpRequest, chosen: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a stretch of time and show what a dry run says; once confirmed, do it."""
        form = BackfillForm(request.POST if "from" in request.POST else None)
        asked = form.read(Backfill) if form.is_bound else None
        by = require_user(actor_of(request))
        runs = _runs(chosen, asked, dry_run=True, by=by) if asked else []
        total = sum(len(run.made) for run in runs)
        # A confirmation is valid only for the stretch whose dry run was shown.
        stretch = f"{asked.from_.isoformat()} {asked.to.isoformat()}" if asked else ""
        possible = 0 < total <= MOST_TIMES
        if asked and possible and request.POST.get("confirmed") == stretch:
            for run in _runs(chosen, asked, dry_run=False, by=by):
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


def _saved(request: HttpRequest, form: _OperatorsForm, found: Schedule | None) -> Schedule | None:
    """Save the form as its user; None if the form has the reasons against. Raises `NotFound`."""
    by = require_user(actor_of(request))
    if found is not None:
        return found if form.change(found, by=by) else None
    return form.create(form.cleaned_data["project"], by=by) if form.is_valid() else None


class _Run(NamedTuple):
    """The backfill of one schedule: its times, or why it was refused."""

    schedule: Schedule
    made: list[Made]
    refused: str = ""


def _runs(chosen: Iterable[Schedule], asked: Backfill, *, dry_run: bool, by: User) -> list[_Run]:
    """Backfill each schedule in a transaction of its own; a `dry_run` makes no session."""
    found = []
    for schedule in chosen:
        try:
            made = schedule_backfill(
                schedule, begin=asked.from_, end=asked.to, dry_run=dry_run, by=by
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
