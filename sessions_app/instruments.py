"""The counters that each process keeps by itself: calls, tasks, attempts at webhooks.

What is in the database is read from there at each scrape instead. A process counts in its own
memory, or, where `PROMETHEUS_MULTIPROC_DIR` is set before this is imported, in a file that every
process of its family reads.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TASK_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
WAIT_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)

# When each series began: nobody asks, and they would be a third of all.
disable_created_metrics()  # type: ignore[no-untyped-call]

registry = CollectorRegistry()

REQUESTS = Counter(
    "reprise_http_requests",
    "Calls that were answered",
    ["door", "route", "method", "status"],
    registry=registry,
)
REQUEST_SECONDS = Histogram(
    "reprise_http_request_duration_seconds",
    "From a call to its answer; of one that goes on, to its beginning",
    ["door", "route", "method"],
    buckets=SECONDS,
    registry=registry,
)
GRAPHQL_ERRORS = Counter(
    "reprise_graphql_errors",
    "Errors in answers of GraphQL, most of which have the status 200",
    ["code"],
    registry=registry,
)
HELD = Gauge(
    "reprise_http_held",
    "Answers that are held or go on",
    ["kind"],
    multiprocess_mode="livesum",
    registry=registry,
)
BODIES_ENDED = Counter(
    "reprise_http_bodies_ended",
    "Calls that were answered before their bodies were complete",
    ["status"],
    registry=registry,
)
for _status in ("408", "503"):
    BODIES_ENDED.labels(_status)  # told before there is one, too
HEADS_ENDED = Counter(
    "reprise_http_heads_ended",
    "Heads of calls that did not come in time, or were too many (408), or were too long (431)",
    ["status"],
    registry=registry,
)
for _status in ("408", "431"):
    HEADS_ENDED.labels(_status)
WRITES_REFUSED = Gauge(
    "reprise_database_refuses_writes",
    "Whether the database refused the last write that was tried",
    multiprocess_mode="livemax",
    registry=registry,
)
TASK_RUNS = Counter(
    "reprise_task_runs", "Runs of tasks that have ended", ["task", "outcome"], registry=registry
)
TASK_SECONDS_TAKEN = Histogram(
    "reprise_task_duration_seconds",
    "How long tasks ran",
    ["task"],
    buckets=TASK_SECONDS,
    registry=registry,
)
TASK_SECONDS_WAITED = Histogram(
    "reprise_task_wait_seconds",
    "From when a task was due to its start",
    ["task"],
    buckets=WAIT_SECONDS,
    registry=registry,
)
WEBHOOK_ATTEMPTS = Counter(
    "reprise_webhook_attempts",
    "Attempts to deliver to webhooks",
    ["outcome"],
    registry=registry,
)
SCHEDULE_TIMES = Counter(
    "reprise_schedule_times",
    "Times of schedules that have passed",
    ["outcome"],
    registry=registry,
)
for _outcome in ("fired", "overlapped", "missed", "refused", "paused"):
    SCHEDULE_TIMES.labels(_outcome)  # A rate needs the zero before the first one.
PREEMPTIONS = Counter(
    "reprise_preemptions",
    "Sessions that made room for others, or would have in a dry run",
    ["rule", "mode"],
    registry=registry,
)
for _rule in ("priority", "fair_share"):
    for _mode in ("on", "dry_run"):
        PREEMPTIONS.labels(_rule, _mode)
