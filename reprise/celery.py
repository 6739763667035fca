"""The Celery application: one queue for each kind of work, and the periodic sweeps.

Messages only wake processes up: every deadline is a row, and the sweeps find it without messages.
"""

import logging
import math
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from celery import Celery, Task, bootsteps, signals
from django.db import close_old_connections, connections

from base.loglines import lines
from reprise import garbage, shared_metrics
from reprise.worker import broker, relay
from sessions_app.audit.context import TASK, through

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")
# A worker would run Django's checks and drop what they find. They import every view, which costs
# 26 MB and 0.6 s in each worker.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

_program = Path(sys.argv[0])
if "worker" in sys.argv and "celery" in {_program.name, _program.parent.name}:
    # The processes of the pool share their metrics. This is set up here because Celery's first
    # signal comes after the import of the tasks, which import the metrics.
    shared_metrics.share()

CONFIRM_SECONDS = 10.0
"""Seconds after which a message without the broker's confirmation counts as not sent."""
_inherited: list[Any] = []


class DatabaseTask(Task[Any, Any]):
    """A task that returns its database connection at the end of each run, in any kind of worker.

    Runs of periodic tasks are recorded for operators.
    """

    Request = "reprise.worker.task_log:CountedRequest"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self.request, "periodic_task_name", None)
        try:
            with through(TASK, task=str(self.name)):
                if name:
                    return self._recorded(name, args, kwargs)
                return self._run(args, kwargs)
        finally:
            close_old_connections()

    def _recorded(self, name: str, args: Any, kwargs: Any) -> Any:
        from reprise.beat.periodic import run_log, sweep_taken

        sweep_taken(str(self.name))
        began, clock = time.time(), time.monotonic()
        try:
            result = self._run(args, kwargs)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            run_log.record(name, began, time.monotonic() - clock, error=text)
            raise
        text = "" if result is None else str(result)
        run_log.record(name, began, time.monotonic() - clock, result=text)
        return result

    def _run(self, args: Any, kwargs: Any) -> Any:
        # Imported when Django's settings are there.
        from reprise.postgresql.plans import tried_anew

        return tried_anew(partial(super().__call__, *args, **kwargs))

    def apply_async(  # type: ignore[override]  # passes on what it does not know
        self, args: Any = None, kwargs: Any = None, countdown: float | None = None, **options: Any
    ) -> Any:
        """Send the task. A delay is rounded up to whole seconds: the broker's delay queues have
        none shorter than a second, and Celery would cut the fraction off."""
        if countdown is not None and countdown > 0:
            options["countdown"] = math.ceil(countdown)
        if relay.pass_on(str(self.name), args, kwargs, options):
            return None
        options.setdefault("confirm_timeout", CONFIRM_SECONDS)
        return super().apply_async(args, kwargs, **options)


class DeclareParking(bootsteps.StartStopStep):
    """Declares the parking queue at each connection of a worker: the broker may have been wiped."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def include_if(self, parent: Any) -> bool:
        return not broker.in_memory(str(parent.app.conf.broker_url))

    def start(self, parent: Any) -> None:
        with parent.app.connection_for_write() as connection:
            broker.declare_parking(connection)


app: "Celery[Any]" = Celery("reprise", task_cls=DatabaseTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
if refused := broker.refusal(str(app.conf.broker_url)):
    # One line is easier to read than a traceback.
    raise SystemExit(f"BROKER_URL: {refused}")
app.conf.update(
    task_default_exchange=broker.EXCHANGE.name,
    task_default_exchange_type=broker.EXCHANGE.type,
    task_default_queue="maintenance",
    task_default_routing_key="maintenance",
    task_default_queue_type="quorum",
    task_queues=broker.QUEUES,
    task_create_missing_queues=False,
    task_routes={
        "sessions_app.tasks.dispatch_due_retries": {"queue": "retry"},
        "sessions_app.tasks.sweep_retries": {"queue": "retry"},
        "sessions_app.tasks.release_dependants": {"queue": "retry"},
        "sessions_app.tasks.fire_schedules": {"queue": "retry"},
        "sessions_app.tasks.deliver_webhooks": {"queue": "webhooks"},
        "sessions_app.tasks.sweep_webhooks": {"queue": "webhooks"},
        "scheduler.tasks.verify_starts": {"queue": "verification"},
    },
    broker_native_delayed_delivery_queue_type=broker.LADDER_QUEUE_TYPE,
    broker_connection_retry_on_startup=True,
    # A worker survives every outage of the broker, and reconnects soon.
    broker_connection_max_retries=None,
    worker_consumer="reprise.worker.watchdog:PromptConsumer",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    # Shorter than RabbitMQ's half hour, after which it would end the worker's channel.
    task_time_limit=20 * 60,
    task_ignore_result=True,
    result_expires=None,
    worker_prefetch_multiplier=1,
    # Remote control needs a queue that is exclusive to a worker's name: a second worker on a host
    # could not start, nor one whose predecessor the broker does not yet know to be dead.
    worker_enable_remote_control=False,
    beat_enable_remote_control=False,
    worker_hijack_root_logger=False,
    timezone="UTC",
)
if broker.in_memory(str(app.conf.broker_url)):
    app.conf.broker_transport_options = {"polling_interval": 0.5}
else:
    app.conf.broker_transport_options = {"confirm_publish": True}
# `current_app` is local to a thread; without this, other threads would use a default AMQP app.
app.set_default()
app.autodiscover_tasks(["sessions_app", "scheduler", "reprise"])
app.steps["consumer"].add(DeclareParking)
app.steps["consumer"].add("reprise.worker.watchdog:WatchedLoop")


@signals.before_task_publish.connect
def _before_publish(headers: dict[str, Any], exchange: Any, **_kwargs: Any) -> None:
    from reprise.worker import task_log

    task_log.note(headers)
    if getattr(exchange, "name", exchange) == broker.DELAYED:
        # With an ETA, a worker whose clock is behind would hold the message, and nothing else,
        # until then.
        headers["eta"] = None


@signals.celeryd_after_setup.connect
def _serve_metrics(**_kwargs: Any) -> None:
    from reprise.worker import metrics_port, task_log  # noqa: F401  # they listen to signals


@signals.celeryd_after_setup.connect
@signals.beat_init.connect
def _collect_rarely(**_kwargs: Any) -> None:
    # In a worker this comes before the fork: the pool's processes share what is frozen.
    garbage.freeze()


@signals.worker_process_init.connect
@signals.worker_ready.connect
@signals.beat_init.connect
def _collect_regularly(**_kwargs: Any) -> None:
    garbage.collect_regularly()


@signals.worker_ready.connect
def _watch_disk_of_worker(**_kwargs: Any) -> None:
    from reprise.monitoring import disk

    disk.watch.start("worker")


@signals.beat_init.connect
def _watch_disk_of_beat(**_kwargs: Any) -> None:
    from reprise.monitoring import disk

    disk.watch.start("beat")


@signals.worker_init.connect
@signals.beat_init.connect
def _wait_for_tables(**_kwargs: Any) -> None:
    # After what the process does for itself. Imported when Django's settings are there.
    from reprise.postgresql.tables import tables

    tables.wait()


@signals.setup_logging.connect
def _log_as_all_do(loglevel: int | str | None = None, **_kwargs: Any) -> None:
    """Configure logging in place of Celery; Celery's level option applies to its own lines only."""
    from celery.apps import worker
    from django.conf import settings

    lines.configure(settings.LOGGING)
    if loglevel:
        logging.getLogger("celery").setLevel(loglevel)
    if settings.LOG_FORMAT == "json":
        # Celery prints its last words directly, past all loggers.
        say = logging.getLogger("celery.worker").info
        setattr(worker, "safe_say", lambda message, *_: say(message))  # noqa: B010  # no stub has it


@signals.worker_process_init.connect
def _connections_of_ones_own(**_kwargs: Any) -> None:
    """Drop the pool of connections, which does not survive the fork that made this process.

    A process runs one task at a time, so a new connection of its own is enough. The parent's
    connections are kept and not touched: closing them would send a goodbye on the parent's socket.
    """
    for connection in connections.all():
        pools = getattr(connection, "_connection_pools", {})
        _inherited.extend((connection.connection, pools.pop(connection.alias, None)))
        connection.connection = None
        connection.settings_dict.get("OPTIONS", {}).pop("pool", None)
