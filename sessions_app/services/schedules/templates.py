"""The templates of schedules. The doors register the function that knows the form of requests."""

from collections.abc import Callable, Mapping
from typing import Any

from sessions_app.services.sessions.submission import Submission

Read = Callable[[Mapping[str, Any]], Submission]
"""A function that reads a template as a request to create a session. Raises `InvalidInput`."""
_read: list[Read] = []


def read_with(read: Read) -> None:
    """Register the function of the doors."""
    _read[:] = [read]


def template_read(template: Mapping[str, Any]) -> Submission:
    """Return a stored template as a submission, by the rules of now. Raises `InvalidInput`."""
    return _read[0](template)
