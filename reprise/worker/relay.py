"""Messages from standalone's web processes to the worker in its main process.

Without RabbitMQ the broker is the memory of one process. So each web process writes its messages to
a pipe, as lines of JSON, and the main process sends them. A lost line costs time, never a retry:
the sweeps find every deadline.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from celery import current_app

from base.loglines.context import binding, bound

_lock = threading.Lock()
_pipe: TextIO | None = None


def pass_on_to(pipe: TextIO) -> None:
    """Let this process write its messages to a pipe from now on."""
    global _pipe  # noqa: PLW0603  # one pipe a process, for its whole life
    _pipe = pipe


def pass_on(
    task: str,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> bool:
    """Write a message to the pipe; return False if this process has none.

    Raises `OSError` if the main process is gone.
    """
    if _pipe is None:
        return False
    message = {
        "task": task,
        "args": args,
        "kwargs": kwargs,
        "options": options,
        "request_id": bound("request_id"),
    }
    line = json.dumps(message) + "\n"
    with _lock:
        _pipe.write(line)
        _pipe.flush()
    return True


def send(line: str) -> None:
    """Send the message in a line. Raises what the broker raises, and `KeyError` for no task."""
    message = json.loads(line)
    with binding(request_id=message["request_id"]):
        current_app.tasks[message["task"]].apply_async(
            message["args"], message["kwargs"], **message["options"]
        )
