"""The sweeps of deadlines, one batch at a time, which beat runs when no worker does.

Each batch consists of short transactions and is safe beside a worker that runs the same: the second
one finds the rows locked or changed, and skips them.

Counting failures is one of them, since it opens and closes breakers and judges shared budgets, for
which retries wait. It has a lock: the second one waits for it, and counts what follows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.services import expire, verify
from scheduler.services.drain import drains_go_on
from scheduler.services.silence import log_silence
from scheduler.services.waits import waits_expire
from sessions_app.locks import AdvisoryLock
from sessions_app.services.chains import dispatch
from sessions_app.services.chains.releases import retries_release
from sessions_app.tasks import failures_sweep

COUNT_SECONDS = 1.0
"""Seconds for which each part of a batch counts; what is left of the log waits for the next one."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep of deadlines; `batch` returns how much it did and whether there may be more."""

    lock: AdvisoryLock
    batch: Callable[[], tuple[int, bool]]


def _retries() -> tuple[int, bool]:
    """Release one batch of each kind of waiting retries, and dispatch retries that are due."""
    released, more = retries_release()
    left = dispatch.next_due()
    if left is None or left > 0:
        return released, more
    found = dispatch.retries_dispatch()
    return released + found.dispatched, more or found.claimed == dispatch.BATCH


def _leases() -> tuple[int, bool]:
    """Expire one batch of each kind of lease and of waits, and continue drains."""
    log_silence()
    expired = expire.leases_expire()
    waits = waits_expire()
    more = max(expired) == expire.BATCH or waits.more
    if not more:
        drains_go_on()
    return sum(expired) + waits.ended, more


def _starts() -> tuple[int, bool]:
    """Verify one batch of starts."""
    left = verify.next_check()
    if left is None or left > 0:
        return 0, False
    found = verify.starts_verify()
    return found.claimed, found.claimed == verify.BATCH


def _failures() -> tuple[int, bool]:
    """Count failures, and keep breakers and shared budgets.

    There is never more to do at once: no deadline waits until all of a long log is read.
    """
    counted, _ = failures_sweep(COUNT_SECONDS)
    return counted, False


SWEEPS = {
    "sessions_app.tasks.sweep_retries": Sweep(AdvisoryLock.SWEEP_RETRIES, _retries),
    "scheduler.tasks.sweep_leases": Sweep(AdvisoryLock.SWEEP_LEASES, _leases),
    "scheduler.tasks.verify_starts": Sweep(AdvisoryLock.SWEEP_STARTS, _starts),
    "sessions_app.tasks.count_failures": Sweep(AdvisoryLock.SWEEP_FAILURES, _failures),
}
"""Sweeps by the name of the Celery task that does the same; the names are `periodic.DEADLINES`."""
