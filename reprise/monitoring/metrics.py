"""`/metrics` for operators. Most values come from the database, so all web processes report the
same. Beside them are the counts of the process that is asked, with its family of processes.

Counters of retries count events. A periodic task counts those up to a mark, which remain when
events are pruned; those after it are counted at each scrape.
"""

import json
from collections.abc import Iterator

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import Count, Q, Sum
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from interfaces.http.authentication import actor_of
from reprise.locks import claim_cursor
from reprise.models import EventCursor, ParkedState, ParkedTask, PeriodicRun
from reprise.monitoring import health
from reprise.monitoring.fleet import fleet
from reprise.monitoring.hours import ADDED, hours_forget
from reprise.shared_metrics import counted
from reprise.worker.metrics_port import passes
from sessions_app.locks import database_now
from sessions_app.services.access.tokens import token_find

SLICE = 20_000
"""Number of events counted in one transaction, which should last well under a second. Events, not
ids: a restored database skips a billion ids."""
FENCE_SECONDS = 2.0

_SERIES = """
    SELECT 'scheduled' AS metric, jsonb_build_object('cause', data->>'cause') AS labels,
        count(*) AS value
    FROM seen WHERE type = 'session.retry_scheduled' AND data ? 'cause' GROUP BY 2
    UNION ALL
    SELECT 'exhausted', jsonb_build_object('cause', data->>'cause'), count(*)
    FROM seen WHERE type = 'session.retry_exhausted' GROUP BY 2
    UNION ALL
    SELECT 'succeeded', '{}'::jsonb, count(*)
    FROM seen WHERE type = 'session.retry_succeeded' HAVING count(*) > 0
    UNION ALL
    SELECT 'decisions', jsonb_build_object(
            'policy', split_part(coalesce(data->'decision'->>'rule', ''), '/', 1),
            'rule', split_part(coalesce(data->'decision'->>'rule', ''), '/', 2),
            'reason', data->'decision'->>'reason'), count(*)
    FROM seen WHERE type IN ('session.error', 'session.cancelled')
        AND data->'decision' ? 'action' GROUP BY 2
    UNION ALL
    SELECT 'archived', '{}'::jsonb, count(*)
    FROM seen WHERE type = 'session.archived' HAVING count(*) > 0
"""
_COUNT = f"""
    WITH seen AS (SELECT type, time, attempt, data FROM sessions_app_sessionevent
        WHERE id > %s AND id <= %s),
    hours AS ({ADDED}), series AS ({_SERIES})
    INSERT INTO reprise_eventcount (metric, labels, value)
    SELECT metric, labels, value FROM series
    ON CONFLICT (metric, labels)
    DO UPDATE SET value = reprise_eventcount.value + excluded.value
"""
# One statement, one snapshot: what moves from the tail into the count meanwhile is seen once.
_READ = f"""
    WITH seen AS (SELECT type, data FROM sessions_app_sessionevent
        WHERE id > coalesce((SELECT max(counted_id) FROM reprise_eventcursor), 0)),
    series AS ({_SERIES})
    SELECT metric, labels::text, sum(value)::bigint FROM (
        SELECT metric, labels, value FROM series
        UNION ALL SELECT metric, labels, value FROM reprise_eventcount) AS both_parts
    GROUP BY 1, 2
"""
# A mark is good once every transaction is over that ran when it was set: until then one of them
# may still commit an event below it.
_FENCE = """
    UPDATE reprise_eventcursor SET
        fence_id = (SELECT coalesce(max(id), 0) FROM sessions_app_sessionevent),
        fence_xid = pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
        fence_at = clock_timestamp()
"""
_NEXT = """
    SELECT count(*), max(id) FROM (
        SELECT id FROM sessions_app_sessionevent WHERE id > %s AND id <= %s
        ORDER BY id LIMIT %s) AS slice
"""
_IS_NEWS = """
    SELECT EXISTS (SELECT FROM sessions_app_sessionevent
        WHERE id > coalesce((SELECT max(counted_id) FROM reprise_eventcursor), 0))
"""
_IS_PASSED = """
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= fence_xid
        AND fence_at <= clock_timestamp() - make_interval(secs => %s)
    FROM reprise_eventcursor
"""
_GAUGES = """
    SELECT
        (SELECT count(*) FROM sessions_app_session WHERE phase = 'waiting'),
        (SELECT count(*) FROM sessions_app_session WHERE phase = 'live'),
        (SELECT count(*) FROM sessions_app_retrydecision WHERE state = 'scheduled'),
        (SELECT count(*) FROM sessions_app_session WHERE resting = 'held'),
        (SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(due_at)))::float8
            FROM sessions_app_retrydecision WHERE state = 'scheduled'),
        (SELECT extract(epoch FROM clock_timestamp() - min(finished_at))::float8
            FROM sessions_app_session
            WHERE resting IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')),
        (SELECT count(*) FROM sessions_app_breaker WHERE state = 'open'),
        (SELECT count(*) FROM sessions_app_retrybudgetstate WHERE spent_since IS NOT NULL),
        (SELECT count(*) FROM sessions_app_retrydecision
            WHERE state = 'held' AND held_for = 'parked')
"""
# Counts stop at a number that counts as a backlog anyway.
_SCHEDULES = """
    SELECT count(*) FILTER (WHERE paused_at IS NULL AND due_at IS NOT NULL),
        count(*) FILTER (WHERE paused_at IS NOT NULL),
        (SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(due_at)))::float8
            FROM sessions_app_schedule WHERE paused_at IS NULL)
    FROM sessions_app_schedule
"""
_WEBHOOKS = """
    SELECT
        (SELECT count(*) FROM sessions_app_webhookendpoint WHERE paused_at IS NULL),
        (SELECT count(*) FROM sessions_app_webhookendpoint WHERE paused_at IS NOT NULL),
        (SELECT count(*) FROM sessions_app_webhookendpoint WHERE failures > 0),
        (SELECT count(*) FROM (SELECT FROM sessions_app_webhookdelivery
            WHERE state = 'waiting' LIMIT 1000000) AS waiting),
        (SELECT greatest(0, max(extract(epoch FROM clock_timestamp() - h.due_at)))::float8
            FROM sessions_app_webhookendpoint w CROSS JOIN LATERAL (
                SELECT due_at FROM sessions_app_webhookdelivery
                WHERE endpoint_id = w.id AND due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS h
            WHERE w.paused_at IS NULL)
"""
_COUNTERS = {
    "scheduled": ("reprise_session_retry_scheduled", "Retries granted", ["cause"]),
    "exhausted": ("reprise_session_retry_exhausted", "Chains whose budget ended", ["cause"]),
    "succeeded": ("reprise_session_retry_succeeded", "Chains that a retry brought to success", []),
    "decisions": (
        "reprise_session_retry_decisions",
        "Decisions after failures",
        ["policy", "rule", "reason"],
    ),
    "archived": ("reprise_sessions_archived", "Sessions that went into the log", []),
    "events_deleted": ("reprise_events_deleted", "Events that went, chain by chain", []),
}
_FROM_ZERO = ("succeeded", "archived", "events_deleted")
"""Metrics that have a series from the start, with the value 0."""


def metrics(request: HttpRequest) -> HttpResponse:
    """Return Prometheus' text to a cluster admin's token or `REPRISE_METRICS_TOKEN`."""
    try:
        refused = _refused(request)
    except DatabaseError:
        refused = HttpResponse("the database does not answer\n", status=503)
    if refused is not None:
        return refused
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Database())
    registry.register(counted())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _refused(request: HttpRequest) -> HttpResponse | None:
    """Return the refusal for callers who may not scrape, else None."""
    own = settings.REPRISE_METRICS_TOKEN
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        return _refusal(401, "send a token: Authorization: Bearer <token>")
    if own and passes(request.headers["Authorization"], own):
        return None
    token = token_find(secret.strip())
    if token is None:
        return _refusal(401, "the token is unknown, expired or revoked")
    if not actor_of(token).is_cluster_admin:
        return _refusal(403, "only a cluster admin may do this")
    return None


def _refusal(status: int, why: str) -> HttpResponse:
    headers = {"WWW-Authenticate": 'Bearer realm="reprise"'} if status == 401 else {}
    return HttpResponse(f"{why}\n", status=status, content_type="text/plain", headers=headers)


def events_count() -> int:
    """Move the mark as far as is safe and count up to it. Return the number of events counted."""
    counted = 0
    with connection.cursor() as cursor:
        cursor.execute(_IS_NEWS)
        if cursor.fetchone() == (False,):
            return 0
    while (found := _count_slice()) == SLICE:
        counted += found
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_IS_PASSED, [FENCE_SECONDS])
        if cursor.fetchone() in {(True,), None}:
            EventCursor.objects.get_or_create(pk=1, defaults={"fence_at": Now()})
            cursor.execute(_FENCE)
            hours_forget(database_now())
    return counted + found


def _count_slice() -> int:
    """Count at most `SLICE` events below the mark, if the mark is valid. Return their number."""
    with transaction.atomic(), connection.cursor() as cursor:
        mark = claim_cursor()
        cursor.execute(_IS_PASSED, [FENCE_SECONDS])
        if mark is None or cursor.fetchone() != (True,):
            return 0
        cursor.execute(_NEXT, [mark.counted_id, mark.fence_id, SLICE])
        found, last = cursor.fetchone()
        if found:
            cursor.execute(_COUNT, [mark.counted_id, last])
            EventCursor.objects.filter(pk=mark.pk).update(counted_id=last)
        return int(found)


class _Database(Collector):
    """The collector of all metrics from the database, in a handful of statements."""

    def collect(self) -> Iterator[Metric]:
        parts = health.parts()
        yield from _up(parts)
        if not parts["database"].alive:
            return
        try:
            yield from [*_counters(), *_gauges(), *_schedules(), *_webhooks()]
            yield from [*_parked(), *_periodic(), *fleet()]
        except DatabaseError:
            return  # it went away meanwhile; the state of the parts is reported anyway


def _up(parts: dict[str, health.Part]) -> Iterator[Metric]:
    up = GaugeMetricFamily("reprise_up", "Whether a part is alive", labels=["part"])
    age = GaugeMetricFamily(
        "reprise_heartbeat_age_seconds", "Since a part was last heard of", labels=["part"]
    )
    standby = GaugeMetricFamily(
        "reprise_beat_standby", "Whether beat runs the sweeps of deadlines itself"
    )
    standby.add_metric([], float(parts["beat"].alive and bool(parts["beat"].detail)))
    for name, part in parts.items():
        up.add_metric([name], float(part.alive))
        if part.age_s is not None:
            age.add_metric([name], part.age_s)
    yield from (up, age, standby)


def _counters() -> Iterator[Metric]:
    families = {
        metric: CounterMetricFamily(name, text, labels=labels)
        for metric, (name, text, labels) in _COUNTERS.items()
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ)
        for metric, labels, value in cursor.fetchall():
            values = json.loads(labels)
            families[metric].add_metric([values.get(n) or "" for n in _COUNTERS[metric][2]], value)
    for name in _FROM_ZERO:
        if not families[name].samples:
            families[name].add_metric([], 0)
    yield from families.values()


def _gauges() -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(_GAUGES)
        (counts,) = cursor.fetchall()
    waiting, live, scheduled, held, overdue, oldest, broken, spent, parked = counts
    sessions = GaugeMetricFamily("reprise_sessions", "Unfinished sessions", labels=["phase"])
    sessions.add_metric(["waiting"], waiting)
    sessions.add_metric(["live"], live)
    retries = GaugeMetricFamily("reprise_retries", "Retries that wait", labels=["state"])
    retries.add_metric(["scheduled"], scheduled)
    retries.add_metric(["held"], held)
    late = GaugeMetricFamily(
        "reprise_retry_overdue_seconds", "How long the most overdue retry has been due"
    )
    late.add_metric([], overdue or 0.0)
    age = GaugeMetricFamily(
        "reprise_oldest_ended_chain_age_seconds",
        "How long ago the chain ended that is the next one to be archived",
    )
    age.add_metric([], oldest or 0.0)
    breakers = GaugeMetricFamily("reprise_breakers_open", "Open breakers")
    breakers.add_metric([], broken)
    budgets = GaugeMetricFamily("reprise_retry_budget_spent", "Shared retry budgets that are spent")
    budgets.add_metric([], spent)
    chains = GaugeMetricFamily("reprise_chains_parked", "Chains that wait for a person to decide")
    chains.add_metric([], parked)
    yield from (sessions, retries, late, age, breakers, budgets, chains)


def _schedules() -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(_SCHEDULES)
        active, paused, overdue = cursor.fetchone()
    schedules = GaugeMetricFamily("reprise_schedules", "Schedules", labels=["state"])
    schedules.add_metric(["active"], active)
    schedules.add_metric(["paused"], paused)
    late = GaugeMetricFamily(
        "reprise_schedule_overdue_seconds", "How late the most overdue schedule is"
    )
    late.add_metric([], overdue or 0.0)
    yield from (schedules, late)


def _webhooks() -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(_WEBHOOKS)
        active, paused, failing, waiting, overdue = cursor.fetchone()
    webhooks = GaugeMetricFamily("reprise_webhooks", "Webhooks", labels=["state"])
    webhooks.add_metric(["active"], active)
    webhooks.add_metric(["paused"], paused)
    failed = GaugeMetricFamily("reprise_webhooks_failing", "Webhooks whose last attempt failed")
    failed.add_metric([], failing)
    outbox = GaugeMetricFamily("reprise_webhook_deliveries_waiting", "Events to be delivered")
    outbox.add_metric([], waiting)
    late = GaugeMetricFamily(
        "reprise_webhook_overdue_seconds", "How long the most overdue delivery has been due"
    )
    late.add_metric([], overdue or 0.0)
    yield from (webhooks, failed, outbox, late)


def _parked() -> Iterator[Metric]:
    found = ParkedTask.objects.aggregate(
        waiting=Count("pk", filter=Q(state=ParkedState.PARKED)), times=Sum("times")
    )
    waiting = GaugeMetricFamily("reprise_parked_tasks", "Poison tasks that wait for an operator")
    waiting.add_metric([], found["waiting"])
    times = CounterMetricFamily("reprise_tasks_parked", "Times that a poison task was parked")
    times.add_metric([], found["times"] or 0)
    yield from (waiting, times)


def _periodic() -> Iterator[Metric]:
    last = GaugeMetricFamily(
        "reprise_periodic_task_last_run_timestamp_seconds", "Start of the last run", labels=["task"]
    )
    took = GaugeMetricFamily(
        "reprise_periodic_task_duration_seconds", "Duration of the last run", labels=["task"]
    )
    runs = CounterMetricFamily("reprise_periodic_task_runs", "Runs", labels=["task"])
    failures = CounterMetricFamily("reprise_periodic_task_failures", "Failures", labels=["task"])
    for run in PeriodicRun.objects.order_by("name"):
        last.add_metric([run.name], run.started_at.timestamp())
        took.add_metric([run.name], run.duration)
        runs.add_metric([run.name], run.runs)
        failures.add_metric([run.name], run.failures)
    yield from (last, took, runs, failures)
