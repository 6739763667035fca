"""The fields of all log lines of a request or a task: bound here, written by the formatter.

Only this package imports structlog, and this module imports it first.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# structlog imports rich for its colours if rich is installed. That costs 5 MB and 0.1 s in each
# process, and no process here uses it.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]
else:
    import structlog

__all__ = ["bind", "binding", "bound", "clear", "structlog"]


def bind(**fields: Any) -> None:
    """Write these fields with every line of this thread or coroutine from now on."""
    structlog.contextvars.bind_contextvars(**fields)


def clear() -> None:
    """Forget all bound fields."""
    structlog.contextvars.clear_contextvars()


def bound(name: str) -> str:
    """Return the value bound to this name; empty if there is none."""
    return str(structlog.contextvars.get_contextvars().get(name, ""))


@contextmanager
def binding(**fields: Any) -> Iterator[None]:
    """Bind the fields that are not empty for the length of a block."""
    given = {name: value for name, value in fields.items() if value}
    with structlog.contextvars.bound_contextvars(**given):
        yield
