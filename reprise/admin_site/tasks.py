"""Admin pages of the machinery: periodic tasks with their last run, parked tasks, heartbeats."""

import json
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django_celery_beat.admin import PeriodicTaskAdmin as BeatsAdmin
from django_celery_beat.admin import PeriodicTaskForm as BeatsForm
from django_celery_beat.admin import TaskSelectWidget
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from interfaces.admin.base import OperatorForm, ReadOnlyAdmin, RecordAdmin, operator
from reprise.beat.switches import tasks_switch
from reprise.celery import app
from reprise.models import Heartbeat, ParkedTask
from reprise.selectors import busy_beats, with_last_runs
from reprise.worker.parking import parked_discard, parked_send
from sessions_app.db.writes import atomic_writes
from sessions_app.locks import database_now
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.records import record_type


class TaskWidget(UnfoldAdminSelectWidget, TaskSelectWidget):  # type: ignore[misc]  # untyped
    """A choice of the names of all tasks that a worker knows."""


class PeriodicTaskForm(BeatsForm):  # type: ignore[misc]  # untyped
    """The form of django-celery-beat in the theme."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = TaskWidget()

    def clean(self) -> dict[str, Any]:
        """Validate the form; the parent's `clean` fails if the task name was refused before."""
        self.cleaned_data.setdefault("task", "")
        cleaned: dict[str, Any] = super().clean()
        return cleaned

    def clean_args(self) -> str:
        """Return the positional arguments; they must be a JSON list."""
        return self._json("args", list)

    def clean_kwargs(self) -> str:
        """Return the arguments by name; they must be a JSON object."""
        return self._json("kwargs", dict)

    def _json(self, field: str, kind: type[Any]) -> str:
        text: str = self.cleaned_data[field]
        try:
            fits = isinstance(json.loads(text), kind)
        except (ValueError, RecursionError):
            fits = False
        if not fits:
            raise ValidationError(f"Must be a JSON {'list' if kind is list else 'object'}.")
        return text


class PeriodicTaskAdmin(RecordAdmin, BeatsAdmin):  # type: ignore[misc]  # untyped
    """The admin page of the periodic tasks that beat runs, with the result of the last run."""

    form = PeriodicTaskForm
    list_before_template = "admin/beat_note.html"
    date_hierarchy = None
    list_display = (
        "name", "enabled", "interval", "last_run", "duration", "result", "runs", "failures"
    )  # fmt: skip
    list_filter = ("enabled",)
    actions = ("enable_tasks", "disable_tasks", "run_now")
    readonly_fields = ("last_run", "duration", "result")
    ordering = ("name",)
    search_fields = ("name", "task")
    fieldsets = (
        (None, {"fields": ("name", "regtask", "task", "enabled", "description")}),
        ("Last run", {"fields": ("last_run", "duration", "result")}),
        ("Schedule", {"fields": ("interval", "crontab", "clocked", "start_time", "one_off")}),
        ("Message", {"fields": ("args", "kwargs", "queue", "expire_seconds")}),
    )

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the name that the audit log uses."""
        return record_type(PeriodicTask), record.name

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the tasks with the columns of their last run, in one query."""
        return with_last_runs(super().get_queryset(request))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, with what beat runs itself instead of sending messages."""
        context = {**(extra_context or {}), "beats": busy_beats()}
        response: HttpResponse = super().changelist_view(request, context)
        return response

    @admin.display(description="last run", ordering="run_started_at")
    def last_run(self, task: Any) -> Any:
        return task.run_started_at

    @admin.display(description="took", ordering="run_duration")
    def duration(self, task: Any) -> str | None:
        return None if task.run_duration is None else f"{task.run_duration:.3f} s"

    @admin.display(description="result")
    def result(self, task: Any) -> str | None:
        text: str | None = task.run_error or task.run_result
        return text

    @admin.display(description="runs", ordering="run_runs")
    def runs(self, task: Any) -> int | None:
        found: int | None = task.run_runs
        return found

    @admin.display(description="failed", ordering="run_failures")
    def failures(self, task: Any) -> int | None:
        found: int | None = task.run_failures
        return found

    @admin.action(description="Enable", permissions=["change"])
    def enable_tasks(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset, enabled=True)

    @admin.action(description="Disable", permissions=["change"])
    def disable_tasks(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset, enabled=False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Any], *, enabled: bool) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        names = tasks_switch(ids, enabled=enabled, by=operator(request))
        done = "Enabled" if enabled else "Disabled"
        self.message_user(request, f"{done}: {', '.join(names) or 'none; nothing had to change'}")

    @admin.action(description="Run now", permissions=["change"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        tasks = list(queryset)
        try:
            for task in tasks:
                headers = {"periodic_task_name": task.name}
                queue = {"queue": task.queue} if task.queue else {}
                app.tasks[task.task].apply_async(headers=headers, retry=False, **queue)
        except Exception as error:  # noqa: BLE001  # any failure of any broker, or no such task
            self.message_user(request, f"Not sent: {error}", messages.ERROR)
            return
        kind, by = record_type(PeriodicTask), operator(request)
        rows = [AuditRow(by, f"{kind}.run", kind, task.name) for task in tasks]
        with atomic_writes() as writes:
            audit_append(writes, rows, now=database_now())
        self.message_user(request, f"Sent: {', '.join(task.name for task in tasks)}")


class ScheduleForm(OperatorForm):
    """A form that refuses schedules on which beat would fail."""

    def clean(self) -> dict[str, Any]:
        """Refuse a schedule that has no next time."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                self._meta.model(**cleaned).schedule.remaining_estimate(timezone.now())
            except (ArithmeticError, RuntimeError, ValueError) as error:
                raise ValidationError(f"This time never occurs: {error}") from error
        return cleaned


class ScheduleAdmin(RecordAdmin):
    """The admin page of intervals and crontabs that periodic tasks refer to."""

    form = ScheduleForm

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the key that the audit log uses; schedules have no name."""
        return record_type(type(record)), str(record.pk)


class ParkedTaskAdmin(ReadOnlyAdmin):
    """The admin page of parked tasks, which killed every worker that took them."""

    list_display = ("name", "arguments", "queue", "state", "times", "reason", "parked_at")
    list_filter = ("state", "queue")
    search_fields = ("name", "task_id")
    ordering = ("-parked_at",)
    actions = ("send_again", "discard")

    @admin.action(description="Send again", permissions=["view"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[ParkedTask]) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        try:
            with app.connection_for_write() as broker:
                broker.ensure_connection(max_retries=1, timeout=5)
                sent = parked_send(ids, broker=broker, by=request.user.get_username())
        except Exception as error:  # noqa: BLE001  # any failure of any broker
            self.message_user(request, f"Not sent: {error}. Try again.", messages.ERROR)
            return
        self.message_user(request, f"Sent again: {sent}")

    @admin.action(description="Discard", permissions=["view"])
    def discard(self, request: HttpRequest, queryset: QuerySet[ParkedTask]) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        discarded = parked_discard(ids, by=request.user.get_username())
        self.message_user(request, f"Discarded: {discarded}")


class HeartbeatAdmin(ReadOnlyAdmin):
    """The admin page of who lives: workers and beat; and of what each process last could write."""

    list_display = ("part", "name", "started_at", "seen_at", "doing")


def register(site: admin.AdminSite) -> None:
    """Replace the admin pages of django-celery-beat with these."""
    beats: tuple[type[Model], ...] = (
        PeriodicTask, IntervalSchedule, CrontabSchedule, ClockedSchedule, SolarSchedule
    )  # fmt: skip
    for model in beats:
        if site.is_registered(model):
            site.unregister(model)
    site.register(PeriodicTask, PeriodicTaskAdmin)
    site.register([IntervalSchedule, CrontabSchedule, ClockedSchedule], ScheduleAdmin)
    site.register(ParkedTask, ParkedTaskAdmin)
    site.register(Heartbeat, HeartbeatAdmin)
