"""Release what waits for something other than its time, in batches.

The sweep of retries runs these steps before it dispatches: as a task of a worker, or in beat while
no worker is there.
"""

from collections.abc import Callable
from typing import NamedTuple

from sessions_app.services.chains import (
    breaker_holds,
    dependants,
    dispatch,
    over_budget,
    parked,
    switch_holds,
)


class _Step(NamedTuple):
    """A step of the sweep. `batch` returns how much it did.

    A result of `full` means that there may be more; None: one call does all that it can.
    """

    batch: Callable[[], int]
    full: int | None = None


_STEPS = (
    _Step(switch_holds.held_resume, switch_holds.BATCH),
    _Step(over_budget.over_budget_resume),
    _Step(parked.parked_expire, dispatch.BATCH),
    _Step(breaker_holds.breaker_held_resume, breaker_holds.BATCH),
    _Step(dependants.dependants_sweep),
)


def retries_release(batches: int = 1) -> tuple[int, bool]:
    """Resume held retries, end what was parked for too long, and release dependants.

    Each step runs at most `batches` batches. Return how much was done, and whether there may be
    more.
    """
    done, more = 0, False
    for step in _STEPS:
        step_done, step_more = _run(step, batches)
        done += step_done
        more = more or step_more
    return done, more


def _run(step: _Step, batches: int) -> tuple[int, bool]:
    done = 0
    for _ in range(batches):
        count = step.batch()
        done += count
        if step.full is None or count < step.full:
            return done, False
    return done, True
