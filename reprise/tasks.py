"""Celery tasks of the server's upkeep. They are short and safe to run twice."""

from celery import shared_task

from reprise.celery import app
from reprise.monitoring.metrics import events_count
from reprise.upkeep.retention import prune
from reprise.worker.broker import in_memory
from reprise.worker.parking import ANSWER_SECONDS, BATCH, parked_collect


@shared_task(name="reprise.tasks.collect_parked", ignore_result=True)
def collect_parked() -> int:
    """Move messages from the broker's parking queue into rows. Return the number of messages."""
    if in_memory(str(app.conf.broker_url)):
        return 0
    collected = 0
    limited = {"read_timeout": ANSWER_SECONDS}
    with app.connection_for_write(transport_options=limited) as broker:
        while (found := parked_collect(broker)) == BATCH:
            collected += found
    return collected + found


@shared_task(name="reprise.tasks.count_events", ignore_result=True)
def count_events() -> int:
    """Count new events of the log, for `/metrics`. Return their number."""
    return events_count()


@shared_task(name="reprise.tasks.prune_ended", ignore_result=True)
def prune_ended() -> tuple[int, int]:
    """Archive chains that ended long ago, and delete old events. Return the numbers of both."""
    return prune()
