"""Times that may be asked about: others have no days around them to count from. Pure."""

from datetime import UTC, datetime

from sessions_app.core.errors import InvalidInput

_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(9001, 1, 1, tzinfo=UTC)


def times_checked(**times: datetime | None) -> None:
    """Check times by the names of their fields. Raises `InvalidInput`."""
    for name, time in times.items():
        if time is not None and not _FIRST <= time < _LAST:
            raise InvalidInput({name: ["must be a time from the year 2000 to 9000"]})
