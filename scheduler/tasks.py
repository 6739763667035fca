"""Celery tasks of the scheduler. They are short and safe to run twice."""

from celery import shared_task

from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.services import verify
from scheduler.services.drain import drains_go_on
from scheduler.services.executors import leases_sweep_orphans
from scheduler.services.expire import BATCH, leases_expire
from scheduler.services.nodes.sweep import nodes_sweep
from scheduler.services.preemptions import room_make
from scheduler.services.silence import log_silence
from scheduler.services.verify import next_check, starts_verify
from scheduler.services.waits import waits_expire
from sessions_app import wakeups
from sessions_app.tasks import MAX_BATCHES, NEAR_SECONDS


@shared_task(name="scheduler.tasks.sweep_leases", ignore_result=True)
def sweep_leases() -> None:
    """Expire overdue leases and waits, log silent executors, and continue drains."""
    log_silence()
    while max(leases_expire()) == BATCH:
        pass
    for _ in range(MAX_BATCHES):
        if not waits_expire().more:
            break
    drains_go_on()


@shared_task(name="scheduler.tasks.sweep_orphaned_leases", ignore_result=True)
def sweep_orphaned_leases() -> int:
    """Delete leases that no longer count, such as of cancelled sessions. Return the number."""
    return leases_sweep_orphans()


@shared_task(name="scheduler.tasks.decay_queue_usage", ignore_result=True)
def decay_queue_usage() -> int:
    """Add up what queues hold and let their priorities decay. Return the number of queues."""
    return queue_usage_refresh()


@shared_task(name="scheduler.tasks.verify_starts", ignore_result=True)
def verify_starts() -> int:
    """Check whether the pods that are due have started. Return how many starts had failed."""
    failed, left = 0, next_check()
    for _ in range(MAX_BATCHES):
        if left is None or left > 0:
            break
        result = starts_verify()
        failed += result.failed
        left = next_check()
        if result.claimed < verify.BATCH:
            break
    else:
        wakeups.go_on(verify.TASK)
    if left is not None and 0 < left <= NEAR_SECONDS:
        wakeups.look_again(left, verify.TASK)
    return failed


@shared_task(name="scheduler.tasks.watch_nodes", ignore_result=True)
def watch_nodes() -> str:
    """Count how attempts ended on nodes, and suspect those that fail too often."""
    done = nodes_sweep()
    return f"{done.counted} counted, {done.suspected} suspected, {done.cleared} cleared"


@shared_task(name="scheduler.tasks.make_room", ignore_result=True)
def make_room() -> str:
    """Let running sessions make room for others, where that is switched on."""
    done = room_make()
    return f"{done.plans} plans, {done.victims} sessions"
