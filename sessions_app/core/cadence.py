"""When schedules fire: the times of a cron expression, or of every so many seconds. Pure.

Cron is read as Debian's cron reads it, also where clocks change: a job with fixed hours fires once,
one whose minute or hour begins with `*` goes by elapsed time.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

MAX_CRON = 100
OF_SCHEDULES = "schedule:"
"""How the `creation_id`s of chains of schedules begin, and no others."""
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 5
FAR = datetime(2200, 1, 1, tzinfo=UTC)
"""No time that people give lies after it, so that sums of times stay within what dates hold."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """The times of a schedule: of `cron` in a time zone, or every `every` seconds.

    `anchor` is the moment from which `every` counts. `first` and `last` are the limits of all
    times, and are times themselves if they fit.
    """

    anchor: datetime
    cron: str = ""
    time_zone: str = "UTC"
    every: int | None = None
    first: datetime | None = None
    last: datetime | None = None

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times later than a moment, in UTC, in their order."""
        if self.first is not None:
            moment = max(moment, self.first - timedelta(microseconds=1))
        found = self._of_interval(moment) if self.every else self._of_cron(moment)
        for time in found:
            if time > (self.last or FAR):
                return
            yield time

    def next(self, moment: datetime) -> datetime | None:
        """Return the first time later than a moment; None if there is none."""
        return next(self.after(moment), None)

    def times(self, begin: datetime, end: datetime, most: int) -> list[datetime]:
        """Return at most `most` times from `begin` to `end`, both included."""
        found = []
        for time in islice(self.after(begin - timedelta(microseconds=1)), most):
            if time > end:
                break
            found.append(time)
        return found

    def _of_interval(self, moment: datetime) -> Iterator[datetime]:
        step = timedelta(seconds=self.every or 0)
        start = self.first or self.anchor
        # From `first` on; without it the first interval passes before the first time.
        number = max((moment - start) // step + 1, 0 if self.first else 1)
        while True:
            yield (start + number * step).astimezone(UTC)
            number += 1

    def _of_cron(self, moment: datetime) -> Iterator[datetime]:
        local = moment.astimezone(ZoneInfo(self.time_zone))
        last = moment
        for time in _Times(MACROS.get(self.cron, self.cron), local):
            at = time.astimezone(UTC)
            # In a repeated hour fixed times are those of its first pass, which may be over.
            if at > last:
                last = at
                yield at


class _Times(CronSim):
    """The times of an expression.

    `CronSim` goes from hour to hour. Where clocks change by half an hour, as on Lord Howe Island,
    it comes into the middle of an hour, and leaves out the times before.
    """

    def advance_hour(self) -> bool:
        moved = super().advance_hour()
        if moved and self.dt.tzinfo is not None and self.dt.minute:
            begun = self.dt.astimezone(UTC) - timedelta(minutes=self.dt.minute)
            local = begun.astimezone(self.dt.tzinfo)
            self.dt = local if local.hour == self.dt.hour else self.dt
        return moved


def cron_written(text: str) -> str:
    """Return an expression as it is stored. Raises `ValueError` with what is wrong."""
    written = " ".join(text.split())
    if written.startswith("@"):
        if written.lower() not in MACROS:
            raise ValueError(f"must be five fields or one of {', '.join(MACROS)}")
        return written.lower()
    if len(written) > MAX_CRON or len(written.split()) != _FIELDS:
        raise ValueError(
            "must be five fields: minute, hour, day of month, month, day of week, such as 0 3 * * *"
        )
    try:
        CronSim(written, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(f"cannot be read: {str(error).lower()}") from None
    return written


def time_zone_written(name: str) -> str:
    """Return the name of a time zone. Raises `ValueError` if there is none such."""
    if name not in _zones():
        raise ValueError("must be a time zone of the IANA database, such as Europe/Berlin or UTC")
    return name


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def delay_of(schedule: UUID, time: datetime, jitter: int) -> timedelta:
    """Return by how much a time fires later: up to `jitter` seconds, the same whenever asked."""
    if not jitter:
        return timedelta()
    digest = hashlib.sha256(f"{schedule}:{written(time)}".encode()).digest()
    return timedelta(seconds=int.from_bytes(digest[:8], "big") % (jitter + 1))


def written(time: datetime) -> str:
    """Return a time as ids have it: `2030-01-31T12:00:00Z`."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
