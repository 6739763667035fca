"""Celery tasks of the scheduler: short steps, safe to run twice."""

from celery import shared_task

from scheduler.services.drain import drains_go_on
from scheduler.services.executors import leases_sweep_orphans
from scheduler.services.expire import BATCH, leases_expire
from scheduler.services.silence import silence_tell
from scheduler.services.standing import queue_usage_refresh


@shared_task(name="scheduler.tasks.sweep_leases", ignore_result=True)
def sweep_leases() -> None:
    """Expire what is past its deadline, tell whose silence will end in that, go on with drains."""
    silence_tell()
    while max(leases_expire()) == BATCH:
        pass
    drains_go_on()


@shared_task(name="scheduler.tasks.sweep_orphaned_leases", ignore_result=True)
def sweep_orphaned_leases() -> int:
    """Delete leases that no longer count, such as those of cancelled sessions; how many."""
    return leases_sweep_orphans()


@shared_task(name="scheduler.tasks.decay_queue_usage", ignore_result=True)
def decay_queue_usage() -> int:
    """Add up what queues hold and let their priorities decay; of how many queues."""
    return queue_usage_refresh()
