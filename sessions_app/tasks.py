"""Celery tasks over the records: short steps, safe to run twice, that take no arguments.

A message never says what is due: the rows do.
"""

import logging
from collections.abc import Sequence
from uuid import UUID

from celery import shared_task

from sessions_app import wakeups
from sessions_app.models.webhooks import webhooks_any
from sessions_app.services.breakers.sweep import breakers_sweep
from sessions_app.services.budgets.sweep import budgets_sweep
from sessions_app.services.chains.breaker_holds import breaker_held_resume
from sessions_app.services.chains.dependants import dependants_follow
from sessions_app.services.chains.dispatch import BATCH, next_due, retries_dispatch
from sessions_app.services.chains.releases import retries_release
from sessions_app.services.chains.retry_advice import retries_advise
from sessions_app.services.failures.count import TASK_SECONDS, failures_count
from sessions_app.services.resources.quotas import usage_rebuild
from sessions_app.services.schedules import firing
from sessions_app.services.schedules.saving import TASK as SCHEDULES
from sessions_app.webhooks.delivery_run import webhooks_run

logger = logging.getLogger(__name__)

MAX_BATCHES = 20
"""So that one task stays short whatever is due; what is left asks for another run."""
NEAR_SECONDS = 2.0
WEBHOOKS_NEAR_SECONDS = 15.0
"""What is due later is found by the sweep."""
WEBHOOKS_PAUSE = 0.5


@shared_task(name="sessions_app.tasks.dispatch_due_retries", ignore_result=True)
def dispatch_due_retries() -> int:
    """Bring the child of every due retry; the number of children."""
    dispatched = batches = 0
    left = next_due()
    while left is not None and left <= 0 and batches < MAX_BATCHES:
        batches += 1
        result = retries_dispatch()
        dispatched += result.dispatched
        left = next_due()
        if result.claimed < BATCH:
            break
    if left is not None and left <= 0 and batches == MAX_BATCHES:
        wakeups.go_on()
    elif left is not None and left <= NEAR_SECONDS:
        wakeups.look_again(left)
    return dispatched


@shared_task(name="sessions_app.tasks.sweep_retries", ignore_result=True)
def sweep_retries() -> int:
    """Do what hints may have missed: release what waits for something other than its time, then
    dispatch what is due. Return the number of children."""
    _, more = retries_release(MAX_BATCHES)
    if more:
        wakeups.sweep_after_commit()
    dispatched: int = dispatch_due_retries()
    return dispatched


def release_held_by_breakers() -> None:
    """Let go what breakers no longer hold; ask for another run if there is more."""
    for _ in range(MAX_BATCHES):
        if breaker_held_resume() < BATCH:
            break
    else:
        wakeups.sweep_after_commit()


@shared_task(name=wakeups.DEPENDANTS, ignore_result=True)
def release_dependants(on_roots: Sequence[str] = ()) -> int:
    """Release or cancel what waits for these chains. Return the number of dependants.

    The ids only say where to look: the rows say which chains have ended.
    """
    return dependants_follow([UUID(each) for each in on_roots])


@shared_task(name=SCHEDULES, ignore_result=True)
def fire_schedules() -> int:
    """Make the chains of all schedules that are due. Return the number of chains."""
    fired = batches = 0
    left = firing.next_due()
    while left is not None and left <= 0 and batches < MAX_BATCHES:
        batches += 1
        step = firing.schedules_fire()
        fired += step.fired
        left = firing.next_due()
        if not step.claimed:
            break
    if left is not None and left <= 0 and batches == MAX_BATCHES:
        wakeups.go_on(SCHEDULES)
    elif left is not None and left <= NEAR_SECONDS:
        wakeups.look_again(left, SCHEDULES)
    return fired


@shared_task(name="sessions_app.tasks.rebuild_usage", ignore_result=True)
def rebuild_usage() -> str:
    """Count anew what is in use of all quotas; how many counters there are, and were wrong."""
    counters, corrected = usage_rebuild()
    if corrected:
        logger.warning("%d of %d counters of quotas were wrong", corrected, counters)
    return f"{counters} counted, {corrected} corrected"


def failures_sweep(seconds: float) -> tuple[int, bool]:
    """Judge the shared budgets, count the failures that are new in the log, and keep the breakers,
    for at most `seconds` each.

    Return the number of failures, and whether any breaker is open, opened or closed.
    """
    budgets_sweep(seconds)
    return failures_count(seconds), breakers_sweep(seconds)


@shared_task(name="sessions_app.tasks.count_failures", ignore_result=True)
def count_failures() -> int:
    """Count the failures that are new in the log by their signatures. Return their number.

    The breakers and the shared budgets are judged in the same run.
    """
    counted, turned = failures_sweep(TASK_SECONDS)
    if turned:
        release_held_by_breakers()
    return counted


@shared_task(name="sessions_app.tasks.advise_retries", ignore_result=True)
def advise_retries() -> int:
    """Compute the advice about retries that is older than a day. Return the number of projects."""
    return retries_advise()


@shared_task(name="sessions_app.tasks.deliver_webhooks", ignore_result=True)
def deliver_webhooks() -> int:
    """Tell webhooks what is new, and again what is due; how many attempts were made."""
    attempted, left = webhooks_run()
    if left is not None and left <= WEBHOOKS_NEAR_SECONDS:
        wakeups.publisher.webhooks(max(left, WEBHOOKS_PAUSE), sure=True)
    return attempted


@shared_task(name="sessions_app.tasks.sweep_webhooks", ignore_result=True)
def sweep_webhooks() -> int:
    """Send what hints may have missed. Return the number of attempts."""
    attempted: int = deliver_webhooks() if webhooks_any() else 0
    return attempted
