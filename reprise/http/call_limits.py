"""How long a statement of a call may take, and wait for a lock: a call that waits holds a thread.

Tasks, migrations and commands have no such limits: what they do may take longer, and nobody waits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

_in_call: ContextVar[bool] = ContextVar("reprise_in_call", default=False)


def limits() -> tuple[int, int] | None:
    """Return the limits of a statement and of a wait in ms (0: none), None outside of any call."""
    if not _in_call.get():
        return None
    values = settings.REPRISE
    return tuple(  # type: ignore[return-value]  # two of them
        round(1000 * values[name]) for name in ("call_statement_timeout", "call_lock_timeout")
    )


@contextmanager
def limited() -> Iterator[None]:
    """Have the limits of calls for connections that are taken from the pool inside."""
    token = _in_call.set(True)
    try:
        yield
    finally:
        _in_call.reset(token)


class CallLimits:
    """Middleware: a request is a call."""

    def __init__(self, respond: Callable[[HttpRequest], HttpResponseBase]):
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Django's hook."""
        with limited():
            return self._respond(request)
