"""The sweeps of deadlines, one batch at a time, which beat runs when no worker does.

Each batch consists of short transactions and is safe beside a worker that runs the same: the second
one finds the rows locked or changed, and skips them.
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


SWEEPS = {
    "sessions_app.tasks.sweep_retries": Sweep(AdvisoryLock.SWEEP_RETRIES, _retries),
    "scheduler.tasks.sweep_leases": Sweep(AdvisoryLock.SWEEP_LEASES, _leases),
    "scheduler.tasks.verify_starts": Sweep(AdvisoryLock.SWEEP_STARTS, _starts),
}
"""Sweeps by the name of the Celery task that does the same; the names are `periodic.DEADLINES`."""
