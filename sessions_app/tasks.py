"""Celery tasks over the records: short steps, safe to run twice, that take no arguments.

A message never says which retry is due: the rows do.
"""

import logging

from celery import shared_task

from sessions_app import wakeups
from sessions_app.models.webhooks import webhooks_any
from sessions_app.services.chains.dispatch import BATCH, held_resume, next_due, retries_dispatch
from sessions_app.services.resources.quotas import usage_rebuild
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
    """What hints may have missed: resume held retries, then dispatch what is due."""
    for _ in range(MAX_BATCHES):
        if held_resume() < BATCH:
            break
    else:
        wakeups.sweep_after_commit()
    dispatched: int = dispatch_due_retries()
    return dispatched


@shared_task(name="sessions_app.tasks.rebuild_usage", ignore_result=True)
def rebuild_usage() -> str:
    """Count anew what is in use of all quotas; how many counters there are, and were wrong."""
    counters, corrected = usage_rebuild()
    if corrected:
        logger.warning("%d of %d counters of quotas were wrong", corrected, counters)
    return f"{counters} counted, {corrected} corrected"


@shared_task(name="sessions_app.tasks.deliver_webhooks", ignore_result=True)
def deliver_webhooks() -> int:
    """Tell webhooks what is new, and again what is due; how many attempts were made."""
    attempted, left = webhooks_run()
    if left is not None and left <= WEBHOOKS_NEAR_SECONDS:
        wakeups.publisher.webhooks(max(left, WEBHOOKS_PAUSE), sure=True)
    return attempted


@shared_task(name="sessions_app.tasks.sweep_webhooks", ignore_result=True)
def sweep_webhooks() -> int:
    """What hints may have missed; how many attempts were made."""
    attempted: int = deliver_webhooks() if webhooks_any() else 0
    return attempted
