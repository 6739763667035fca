"""What `/metrics` says of executors and of the database's connections."""

from collections.abc import Iterator

from django.db import connection
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

# One that no agent has called for yet has no age.
_EXECUTORS = """
    SELECT e.name, extract(epoch FROM clock_timestamp() - e.last_seen_at)::float8, e.cordoned,
        e.trouble <> '',
        (SELECT count(*) FROM scheduler_lease l WHERE l.executor_id = e.id)
    FROM scheduler_executor e ORDER BY e.name
"""
# Of all processes and replicas together; what is somebody else's has no state for us.
_CONNECTIONS = """
    SELECT CASE WHEN state IN ('active', 'idle') THEN state
            WHEN starts_with(state, 'idle in transaction') THEN 'idle in transaction'
            ELSE 'other' END, count(*), current_setting('max_connections')::int
    FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1
"""
_STATES = ("active", "idle", "idle in transaction", "other")


def fleet() -> Iterator[Metric]:
    """Two statements."""
    with connection.cursor() as cursor:
        cursor.execute(_EXECUTORS)
        executors = cursor.fetchall()
        cursor.execute(_CONNECTIONS)
        found = cursor.fetchall()  # our own connection is one of them
    connections = {state: count for state, count, _ in found}
    age = GaugeMetricFamily(
        "reprise_executor_heartbeat_age_seconds",
        "Since the agent last called in",
        labels=["executor"],
    )
    leases = GaugeMetricFamily(
        "reprise_executor_leases", "Leases that it holds", labels=["executor"]
    )
    cordoned = GaugeMetricFamily(
        "reprise_executor_cordoned", "Whether it gets no new leases", labels=["executor"]
    )
    troubled = GaugeMetricFamily(
        "reprise_executor_in_trouble",
        "Whether it can start nothing at present",
        labels=["executor"],
    )
    for name, seconds, is_cordoned, in_trouble, held in executors:
        if seconds is not None:
            age.add_metric([name], seconds)
        leases.add_metric([name], held)
        cordoned.add_metric([name], float(is_cordoned))
        troubled.add_metric([name], float(in_trouble))
    yield from (age, leases, cordoned, troubled)
    open_now = GaugeMetricFamily(
        "reprise_database_connections", "Connections to the database", labels=["state"]
    )
    for state in _STATES:
        open_now.add_metric([state], connections.get(state, 0))
    limit = GaugeMetricFamily(
        "reprise_database_connections_max", "Connections that PostgreSQL takes"
    )
    limit.add_metric([], found[0][2])
    yield from (open_now, limit)
