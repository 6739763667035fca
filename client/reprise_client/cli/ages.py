"""Ages as people type them, such as `90s`, `1.5h` or `7d`."""

import re
from datetime import timedelta

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def age(text: str, units: str = "smhdw") -> timedelta | None:
    """Return the length of time, or None if the text is no age in one of the `units`.

    Raises `OverflowError` if it is too long for a `timedelta`.
    """
    found = re.fullmatch(rf"(\d+(?:\.\d+)?)([{units}])", text)
    return timedelta(seconds=float(found[1]) * _SECONDS[found[2]]) if found else None
