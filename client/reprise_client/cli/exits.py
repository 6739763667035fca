"""The exit codes for scripts, and the one-line error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprise_client.cli.unseen import say
from reprise_client.errors import (
    ApiError,
    ConfigError,
    InvalidAnswer,
    InvalidRequest,
    RepriseError,
    ServerUnreachable,
    WaitTimeout,
)

if TYPE_CHECKING:
    from reprise_client.models import Session

FAILED = 1
USAGE = 2
NOT_FOUND = 3
REFUSED = 4
INVALID = 5
UNREACHABLE = 6
TIMED_OUT = 124  # as timeout(1)
INTERRUPTED = 130

_CODES: dict[type[RepriseError], int] = {
    ConfigError: USAGE,
    InvalidRequest: USAGE,
    ServerUnreachable: UNREACHABLE,
    InvalidAnswer: UNREACHABLE,
    WaitTimeout: TIMED_OUT,
}
_API_CODES = {401: REFUSED, 403: REFUSED, 404: NOT_FOUND, 429: UNREACHABLE}
_HINTS = {
    401: "log in again: reprise login URL",
    403: "the token may not do this: reprise context show",
    404: "check the id, and the server: reprise context show",
    409: "look at it first: reprise session info ID",
}


class CommandError(RepriseError):
    """An error of the command itself, with its exit code."""

    def __init__(self, text: str, code: int):
        super().__init__(text)
        self.code = code


def code_of(error: RepriseError) -> int:
    """Return the exit code of an error, as in the table in the client's README."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, ApiError):
        return _API_CODES.get(error.status, INVALID if error.status < 500 else UNREACHABLE)
    return _CODES.get(type(error), FAILED)


def hint_of(error: RepriseError) -> str:
    """Return advice for an error, or "" if there is none."""
    if isinstance(error, ApiError):
        # Errors that name fields need no advice.
        return "" if error.errors else _HINTS.get(error.status, "")
    if isinstance(error, ServerUnreachable | InvalidAnswer):
        return "check the address: reprise context show"
    return ""


def line_of(error: RepriseError) -> str:
    """Return the error and the advice in one line."""
    hint = hint_of(error)
    return _line(f"{error} ({hint})" if hint else str(error))


def _line(text: str) -> str:
    return f"reprise: {' '.join(text.split())}"


def report(error: RepriseError) -> None:
    say(line_of(error), err=True)


def complain(text: str) -> None:
    """Print one more line about an error."""
    say(_line(text), err=True)


def session_code(session: Session) -> int:
    """Return 0 for a success, else the attempt's exit code, or 1 if it has none."""
    if session.status == "TERMINATED":
        return 0
    code = session.exit_code
    return code if code is not None and 0 < code < 256 else FAILED
