"""The log context and metrics of each task run: origin, due time, outcome."""

import logging
import time
from datetime import datetime
from typing import Any

from billiard.einfo import ExceptionInfo
from billiard.exceptions import WorkerLostError
from celery import signals
from celery.worker.request import Request

from base.loglines.context import bind, bound, clear
from sessions_app.instruments import TASK_RUNS, TASK_SECONDS_TAKEN, TASK_SECONDS_WAITED

logger = logging.getLogger(__name__)

DUE = "reprise_due"
"""Header of a message: when its task is due, in seconds since the epoch by the sender's clock."""
ORIGIN = "reprise_request_id"
"""Header of a message: the id of the request that caused it; the first one of several."""
_OUTCOMES = {"SUCCESS": "succeeded", "FAILURE": "failed", "RETRY": "retried"}


def note(headers: dict[str, Any]) -> None:
    """Set the headers of a message that is about to be sent."""
    eta = headers.get("eta")
    headers[DUE] = datetime.fromisoformat(eta).timestamp() if eta else time.time()
    if origin := bound("request_id"):
        headers[ORIGIN] = origin


@signals.task_prerun.connect
def _begin(task_id: str, task: Any, **_kwargs: Any) -> None:
    request = task.request
    clear()
    bind(task=task.name, task_id=task_id)
    if origin := getattr(request, ORIGIN, None):
        bind(request_id=str(origin))
    due = getattr(request, DUE, None)
    if isinstance(due, int | float):
        # Two clocks are compared: the sender's may be ahead.
        TASK_SECONDS_WAITED.labels(task.name).observe(max(0.0, time.time() - due))
    request.reprise_began = time.perf_counter()


@signals.task_postrun.connect
def _end(task: Any, state: str, **_kwargs: Any) -> None:
    began = getattr(task.request, "reprise_began", None)
    if began is not None:
        TASK_SECONDS_TAKEN.labels(task.name).observe(time.perf_counter() - began)
    TASK_RUNS.labels(task.name, _OUTCOMES.get(state, "other")).inc()
    clear()


class CountedRequest(Request):
    """Celery's request in the worker's main process, which alone sees how killed runs end."""

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Count a run that was killed for taking too long."""
        if not soft:
            TASK_RUNS.labels(self.name, "timed_out").inc()
        super().on_timeout(soft, timeout)

    def on_failure(
        self, exc_info: ExceptionInfo, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Count a run whose process died."""
        if isinstance(exc_info.exception, WorkerLostError):
            TASK_RUNS.labels(self.name, "lost").inc()
        super().on_failure(exc_info, send_failed_event, return_ok)
