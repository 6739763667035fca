"""The forms of schedules. The models of the API check them, so that every door refuses the same."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from django import forms
from django.contrib.auth.models import User
from pydantic import BaseModel, ValidationError

from interfaces.forms.yaml_text import YamlField, as_yaml
from interfaces.http.documents import parse_yaml
from interfaces.http.problems import field_errors
from interfaces.requests.schedules import ScheduleCreate, SchedulePut, Timing
from sessions_app.core.cadence import MAX_CRON
from sessions_app.core.errors import Conflict, InvalidInput
from sessions_app.locks import database_now
from sessions_app.models import Project, Schedule
from sessions_app.models.schedules import Overlap
from sessions_app.models.tenants import NAME_LENGTH
from sessions_app.services.schedules import saving
from sessions_app.services.schedules.checking import schedule_check

TEMPLATE = "template"
_MINUTES = "%Y-%m-%dT%H:%M"
_FIRST = {"command": ["sh", "-c", "echo $REPRISE_SCHEDULED_TIME"]}
_NUMBERS = ("every", "catch_up", "jitter", "pause_after")
TIMES = ("cron", "time_zone", "every", "from", "until")
Body = TypeVar("Body", bound=BaseModel)


def _number(label: str, text: str) -> forms.IntegerField:
    return forms.IntegerField(label=label, required=False, min_value=0, help_text=text)


def _time(label: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput({"type": "datetime-local"}, format=_MINUTES)
    return forms.DateTimeField(label=label, required=False, widget=widget, help_text="in UTC")


class BodyForm(forms.Form):
    """A form that is read as a body of the API."""

    def body(self) -> dict[str, Any]:
        """Return the fields that have a value, as the API takes them."""
        given = {name: each for name, each in self.cleaned_data.items() if each not in (None, "")}
        return {
            name: each.isoformat() if isinstance(each, datetime) else each
            for name, each in given.items()
        }

    def read(self, model: type[Body], only: Collection[str] | None = None) -> Body | None:
        """Return what was typed, or `only` these fields, as a body of the API.

        None if the form has the reasons against.
        """
        if not self.is_valid():
            return None
        given = self.body()
        wanted = given.keys() if only is None else given.keys() & {*only}
        try:
            return model.model_validate({name: given[name] for name in wanted})
        except ValidationError as error:
            self.refuse(InvalidInput(field_errors(error)))
        return None

    def refuse(self, error: InvalidInput) -> None:
        """Put the reasons of a refusal to their fields."""
        for path, texts in error.errors.items():
            name, _, inner = path.partition(".")
            known = name if name in self.fields else None
            self.add_error(known, [f"{inner}: {text}" if inner else text for text in texts])


class BackfillForm(BodyForm):
    """The stretch of time of a backfill."""

    to = _time("To")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A word of Python, so that it is no name of an attribute.
        self.fields["from"] = _time("From")
        self.order_fields(("from", "to"))


class TimesForm(BodyForm):
    """When a schedule fires."""

    cron = forms.CharField(
        label="Cron expression",
        required=False,
        max_length=MAX_CRON,
        help_text="minute, hour, day of month, month, day of week, such as 0 3 * * 1-5; or "
        "@hourly, @daily, @weekly, @monthly",
    )
    time_zone = forms.CharField(
        label="Time zone", required=False, max_length=64, help_text="such as Europe/Berlin or UTC"
    )
    every = _number("Every", "seconds from one time to the next, instead of a cron expression")
    until = _time("Until")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A word of Python, so that it is no name of an attribute.
        self.fields["from"] = _time("From")
        self.order_fields(self.order)

    order: tuple[str, ...] = TIMES

    def times(self, made_at: datetime | None = None) -> list[datetime] | None:
        """Return the next times that would be saved; None if the form has the reasons against.

        `made_at` is when the schedule was made, if it exists.
        """
        asked = self.read(Timing, TIMES)
        if asked is None:
            return None
        now = database_now()
        draft = Schedule(created_at=made_at or now, template={})
        asked.time(draft)
        try:
            saving.timing_check(draft, now)
        except InvalidInput as error:
            self.refuse(error)
            return None
        return saving.next_times(draft, now)


class ScheduleForm(TimesForm):
    """All that can be changed of a schedule; the name only of a new one."""

    name = forms.CharField(label="Name", max_length=NAME_LENGTH)
    queue = forms.CharField(
        label="Queue",
        required=False,
        max_length=NAME_LENGTH,
        help_text="empty: the project's default queue",
    )
    template = YamlField(
        rows=10,
        label="What to submit",
        help_text="the body of a submission, as YAML, without project, queue and creation_id",
    )
    overlap = forms.ChoiceField(
        label="If an earlier one has not ended",
        choices=Overlap.choices,
        help_text="a retry that waits counts as not ended",
    )
    catch_up = _number("Catch up", "seconds for which missed times are made up; empty: 60")
    jitter = _number("Jitter", "most seconds by which a session is made later than its time")
    pause_after = _number("Pause after", "number of failed sessions in a row; empty: never")
    order: tuple[str, ...] = (
        "name",
        *TIMES,
        TEMPLATE,
        "queue",
        "overlap",
        "catch_up",
        "jitter",
        "pause_after",
    )

    warnings: tuple[str, ...] = ()
    """About the sessions that it will make, once it is saved."""

    def __init__(self, schedule: Schedule | None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, initial=_stored(schedule), **kwargs)
        if schedule is not None:
            del self.fields["name"]

    def clean_template(self) -> dict[str, Any]:
        """Read the YAML."""
        try:
            return parse_yaml(self.cleaned_data[TEMPLATE].encode())
        except InvalidInput as error:
            texts = [text for each in error.errors.values() for text in each]
            raise forms.ValidationError(texts) from None

    def create(self, project: Project, *, by: User) -> Schedule | None:
        """Make the schedule, whose owner is `by`; None if the form has the reasons against."""
        asked = self.read(ScheduleCreate, ScheduleForm.order)
        if asked is None:
            return None
        made = Schedule(project=project, name=asked.name, template=asked.stored())
        asked.give(made)
        try:
            self.warnings = schedule_check(made, by=by)
            saving.schedule_create(made, by=by)
        except InvalidInput as error:
            self.refuse(error)
        except Conflict as error:
            self.add_error("name", f"{error.detail}.")
        return None if self.errors else made

    def change(self, schedule: Schedule, *, by: User) -> bool:
        """Change the schedule, whose owner is `by` then.

        Return whether it was changed; if not, the form has the reasons against.
        """
        asked = self.read(SchedulePut, ScheduleForm.order)
        if asked is None:
            return False
        fields = asked.give(schedule) | {TEMPLATE}
        schedule.template = asked.stored()
        try:
            self.warnings = schedule_check(schedule, by=by, fields=fields)
            saving.schedule_change(schedule, by=by, fields=fields)
        except InvalidInput as error:
            self.refuse(error)
        return not self.errors


def _stored(schedule: Schedule | None) -> dict[str, Any]:
    """Return the initial values of the form."""
    if schedule is None:
        return {"time_zone": "UTC", TEMPLATE: as_yaml(_FIRST), "catch_up": 60}
    plain = ("cron", "time_zone", "queue", "overlap", "until", *_NUMBERS)
    return {
        **{name: getattr(schedule, name) for name in plain},
        "from": schedule.starts_at,
        TEMPLATE: as_yaml(schedule.template),
    }
