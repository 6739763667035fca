"""The bodies that create and change schedules, and what they submit."""

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)

from interfaces.requests.bodies import MAX_SECONDS, ProjectAddress, SessionTemplate
from interfaces.requests.queries import Time, lowered
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from retry.policies.fields import Label
from sessions_app.models import Schedule
from sessions_app.models.schedules import KEPT, MAX_REASON
from sessions_app.models.tenants import NAME_LENGTH

MAX_CATCH_UP = 30 * 86_400
MAX_JITTER = 3_600
MAX_TEXT = 200
_Text = Annotated[StrictStr, Field(min_length=1, max_length=MAX_TEXT)]


class Timing(StrictModel):
    """When a schedule fires: by `cron` in a `time_zone`, or every so many seconds."""

    cron: _Text | None = None
    """Five fields as in Debian's cron, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`."""
    time_zone: _Text = "UTC"
    """A name of the IANA database, such as `Europe/Berlin`."""
    every: Annotated[StrictInt, Field(ge=1, le=MAX_SECONDS), WHOLE] | None = None
    """Seconds from one time to the next, instead of `cron`."""
    from_: Time | None = Field(default=None, alias="from")
    """No time before this. `every` counts from here, otherwise from the creation."""
    until: Time | None = None
    """No time after this."""

    def time(self, schedule: Schedule) -> None:
        """Write the times into a schedule."""
        schedule.cron, schedule.time_zone = self.cron or "", self.time_zone
        schedule.every, schedule.starts_at, schedule.until = self.every, self.from_, self.until


class ScheduleFields(Timing):
    """The fields of a schedule that can change."""

    queue: Annotated[StrictStr, Field(max_length=NAME_LENGTH)] | None = None
    """Null: the project's default queue."""
    overlap: Annotated[Literal["allow", "skip", "cancel_running"], BeforeValidator(lowered)] = (
        "allow"
    )
    """What happens if an earlier chain has not ended: both run, this time is left out, or the
    earlier one is cancelled and the new one begins when it has stopped."""
    catch_up: Annotated[StrictInt, Field(ge=0, le=MAX_CATCH_UP), WHOLE] = 60
    """Seconds for which missed times are made up."""
    jitter: Annotated[StrictInt, Field(ge=0, le=MAX_JITTER), WHOLE] = 0
    """Most seconds by which a chain is made later than its time, but never later than its next
    one."""
    pause_after: Annotated[StrictInt, Field(ge=1, le=KEPT), WHOLE] | None = None
    """Number of failed chains in a row after which it is paused."""
    paused: StrictBool = False
    """If it is not sent, a schedule that exists stays as it is."""

    @property
    def turned(self) -> bool | None:
        """Return whether it is to be paused; None if it stays as it is."""
        return self.paused if "paused" in self.model_fields_set else None

    def give(self, schedule: Schedule, *, only: bool = False) -> set[str]:
        """Write the fields into a schedule, with `only` those that were sent.

        Return the names of its columns that were written.
        """
        names = self.model_fields_set if only else set(ScheduleFields.model_fields)
        values = {
            _COLUMNS.get(name, name): getattr(self, name) for name in names & {*_CHANGED, "from_"}
        }
        if only:
            # One of the two replaces the other.
            for given, other in (("cron", "every"), ("every", "cron")):
                if values.get(given) and other not in values:
                    values[other] = None
        for name in {"cron", "queue"} & values.keys():
            values[name] = values[name] or ""
        for name, value in values.items():
            setattr(schedule, name, value)
        return {*values}


_COLUMNS = {"from_": "starts_at"}
_CHANGED = frozenset(ScheduleFields.model_fields) - {"paused"}


class _Whole(ScheduleFields):
    """All that a schedule says."""

    template: SessionTemplate

    def stored(self) -> dict[str, Any]:
        """Return the given fields of the template as JSON values."""
        return self.template.model_dump(mode="json", exclude_unset=True)


class ScheduleCreate(_Whole):
    """The body of `POST /schedules/`."""

    project: ProjectAddress | None = None
    """`domain/name`."""
    name: Label


class SchedulePut(_Whole):
    """The body of `PUT`. If the project and the name are sent, they must be those that it has."""

    project: StrictStr | None = None
    name: StrictStr | None = None


class ScheduleChanges(ScheduleFields):
    """The fields that `PATCH` may change."""

    template: SessionTemplate | None = None

    def stored(self) -> dict[str, Any] | None:
        """Return the given fields of the template as JSON values; None if it stays."""
        if self.template is None:
            return None
        return self.template.model_dump(mode="json", exclude_unset=True)


class SchedulePause(StrictModel):
    """The body of `POST .../pause/`, which may be empty."""

    reason: Annotated[StrictStr, Field(max_length=MAX_REASON)] = ""
    """It is shown with the schedule."""


class Backfill(StrictModel):
    """The body of `POST .../backfill/`: the times to make up, both ends included."""

    from_: Time = Field(alias="from")
    to: Time
    dry_run: StrictBool = False
    """True returns the times and makes nothing."""
