"""What belongs to every line of a request or a task: bound here, written by the formatter.

structlog is imported here first and nowhere else but in this package.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# For its colours structlog imports rich where that is installed: 5 MB and 0.1 s in each process,
# for what no process here uses.
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
    """Forget all that is bound."""
    structlog.contextvars.clear_contextvars()


def bound(name: str) -> str:
    """What is bound by this name; empty if nothing is."""
    return str(structlog.contextvars.get_contextvars().get(name, ""))


@contextmanager
def binding(**fields: Any) -> Iterator[None]:
    """Bind what is not empty for the length of a block."""
    given = {name: value for name, value in fields.items() if value}
    with structlog.contextvars.bound_contextvars(**given):
        yield
