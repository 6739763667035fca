"""The one formatter of all log lines: JSON for programs, or a plain line for people.

Modules log with the standard library. Further fields are passed as `extra`, or bound for all lines
of a request or a task with structlog's context variables. Only `FIELDS` are written, so that
attributes of a record do not get into the log by accident.
"""

import json
import logging
import logging.config
import re
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from base.loglines.context import structlog
from base.variables.kinds import choice

from structlog.typing import EventDict, Processor, WrappedLogger  # isort: skip  # comes after it

FORMAT = choice("json", "console")
LEVEL = choice(*logging.getLevelNamesMapping())
FIELDS = (
    "request_id",
    "actor",
    "token",
    "door",
    "route",
    "method",
    "status",
    "duration_ms",
    "session_id",
    "root_session_id",
    "attempt",
    "change",
    "executor",
    "fencing_token",
    "task",
    "task_id",
    "threads",
)
"""The fields that a line may have beside `timestamp`, `level`, `logger`, `event` and
`exception`."""

logger = logging.getLogger(__name__)

# The values of the row may have several lines. The row ends with a full stop before the end of the
# line or before the end of a quotation of the error.
_ROW = re.compile(r"Failing row contains \(.*?\)\.(?=\n|\\n|['\"]|$)", re.DOTALL)


def wanted_format(named: str | None, *, production: bool) -> str:
    """Return the named format; without a name JSON in production, else the one for people."""
    return named or ("json" if production else "console")


def configuration(
    named: str, level: str, filters: Sequence[str] = (), **levels: str
) -> dict[str, Any]:
    """Return the argument of `logging.config.dictConfig`: all lines go to standard error.

    `level` is that of all loggers but those in `levels`. `filters` are paths of classes; each may
    change or drop a line.
    """
    stderr = {"class": "logging.StreamHandler", "formatter": "line", "filters": list(filters)}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {path: {"()": path} for path in filters},
        "formatters": {"line": {"()": formatter, "named": named}},
        "handlers": {"stderr": stderr},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {name: {"level": own} for name, own in levels.items()},
    }


def configure(config: dict[str, Any]) -> None:
    """Use a configuration. With JSON, Python's own warnings and tracebacks become lines, too."""
    logging.config.dictConfig(config)
    if config["formatters"]["line"]["named"] == "json":
        logging.captureWarnings(True)
        sys.excepthook = _uncaught
        threading.excepthook = _uncaught_in_thread


def formatter(named: str) -> logging.Formatter:
    """Return the formatter of this name."""
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=FIELDS),
    ]
    for_people = named == "console"
    after: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        # The traceback is a separate field, because an error's text may have several lines.
        structlog.processors.format_exc_info,
        _without_rows,
        _line if for_people else _json,
    ]
    stamp = (
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False)
        if for_people
        else structlog.processors.TimeStamper(fmt="iso", utc=True)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*before, stamp], processors=after, keep_exc_info=False
    )


def _without_rows(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Remove rows from errors: PostgreSQL quotes the row that breaks a constraint, with its
    secrets."""
    for name in ("event", "exception"):
        if "Failing row contains (" in (text := str(event.get(name, ""))):
            event[name] = _ROW.sub("Failing row contains (...).", text)
    return event


def _json(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    """Return the line as a JSON object that starts with the fields every line has."""
    first = {name: event.pop(name) for name in ("timestamp", "level", "logger", "event")}
    return json.dumps({**first, **event}, default=str)


def _line(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    """Return the line for people.

    `2031-01-31 12:00:00 WARNING reprise.beat.scheduler: lost the lock request_id=...`
    """
    head = f"{event.pop('timestamp')} {event.pop('level').upper()} {event.pop('logger')}: "
    text, exception = event.pop("event"), event.pop("exception", "")
    pairs = [f"{name}={value}" for name, value in event.items()]
    return head + " ".join([str(text), *pairs]) + (f"\n{exception}" if exception else "")


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logger.critical("the process ends: %s", kind.__name__, exc_info=(kind, error, traceback))


def _uncaught_in_thread(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_type is SystemExit:
        return
    error = failure.exc_value or failure.exc_type()
    name = failure.thread.name if failure.thread else "?"
    details = (failure.exc_type, error, failure.exc_traceback)
    logger.critical("the thread %s died", name, exc_info=details)
