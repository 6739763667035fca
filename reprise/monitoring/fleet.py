"""Metrics of executors and of the database's connections."""

from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from sessions_app.db.joined_rows import read_rows

# An executor that no agent has called for yet has no heartbeat age.
_EXECUTORS = """
    SELECT e.name, extract(epoch FROM clock_timestamp() - e.last_seen_at)::float8, e.cordoned,
        e.trouble <> '',
        (SELECT count(*) FROM scheduler_lease l WHERE l.executor_id = e.id),
        (SELECT count(*) FROM scheduler_node n WHERE n.executor_id = e.id
            AND n.suspected_until IS NOT NULL AND e.avoid_suspects <> 'off'),
        (SELECT count(*) FROM scheduler_node n WHERE n.executor_id = e.id
            AND n.quarantined_at IS NOT NULL)
    FROM scheduler_executor e ORDER BY e.name
"""
# Connections of all processes and replicas; those of other users show no state.
_CONNECTIONS = """
    SELECT CASE WHEN state IN ('active', 'idle') THEN state
            WHEN starts_with(state, 'idle in transaction') THEN 'idle in transaction'
            ELSE 'other' END, count(*), current_setting('max_connections')::int
    FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1
"""
_STATES = ("active", "idle", "idle in transaction", "other")


def fleet() -> Iterator[Metric]:
    """Yield the metrics; two statements."""
    yield from _executors()
    yield from _connections()


def _executors() -> Iterator[Metric]:
    age = _of_executors("heartbeat_age_seconds", "Since the agent last called in")
    leases = _of_executors("leases", "Leases that it holds")
    cordoned = _of_executors("cordoned", "Whether it gets no new leases")
    troubled = _of_executors("in_trouble", "Whether it can start nothing at present")
    suspect = _of_nodes("suspect", "Nodes that fail more than the same work does elsewhere")
    closed = _of_nodes("quarantined", "Nodes that an operator put into quarantine")
    for name, seconds, is_cordoned, in_trouble, held, *nodes in read_rows(_EXECUTORS, []):
        if seconds is not None:
            age.add_metric([name], seconds)
        leases.add_metric([name], held)
        cordoned.add_metric([name], float(is_cordoned))
        troubled.add_metric([name], float(in_trouble))
        for gauge, count in zip((suspect, closed), nodes, strict=True):
            gauge.add_metric([name], count)
    yield from (age, leases, cordoned, troubled, suspect, closed)


def _of_nodes(state: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"reprise_nodes_{state}", documentation, labels=["executor"])


def _of_executors(what: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"reprise_executor_{what}", documentation, labels=["executor"])


def _connections() -> Iterator[Metric]:
    found = read_rows(_CONNECTIONS, [])  # our own connection is among them
    counts = {state: count for state, count, _ in found}
    connections = GaugeMetricFamily(
        "reprise_database_connections", "Connections to the database", labels=["state"]
    )
    for state in _STATES:
        connections.add_metric([state], counts.get(state, 0))
    limit = GaugeMetricFamily(
        "reprise_database_connections_max", "Connections that PostgreSQL takes", found[0][2]
    )
    yield from (connections, limit)
