"""Limits of calls for statements and for waiting on locks: a call that waits holds a thread.

Tasks, migrations and commands have no such limits: they may take longer, and nobody waits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

_in_call: ContextVar[bool] = ContextVar("reprise_in_call", default=False)


def limits() -> tuple[int, int] | None:
    """Return the limits of a statement and of a lock wait in ms (0: none); None outside a call."""
    if not _in_call.get():
        return None
    values = settings.REPRISE
    return tuple(  # type: ignore[return-value]  # two of them
        round(1000 * values[name]) for name in ("call_statement_timeout", "call_lock_timeout")
    )


@contextmanager
def limited() -> Iterator[None]:
    """Apply the limits of calls to connections taken from the pool inside the block."""
    token = _in_call.set(True)
    try:
        yield
    finally:
        _in_call.reset(token)


class CallLimits:
    """Middleware that applies the limits of calls to each request."""

    def __init__(self, respond: Callable[[HttpRequest], HttpResponseBase]):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request within the limits."""
        with limited():
            return self._respond(request)
