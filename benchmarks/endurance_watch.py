"""What one look at a system under steady load finds: rate, lateness, memory, dead rows, sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.processes import memory_mb, postmaster_of, tree

_LAST_EVENT = "SELECT coalesce(max(id), 0) FROM sessions_app_sessionevent"
# Events are read by their primary key, and decisions by their sessions: a look costs little.
_WORK = """
    SELECT count(*) FILTER (WHERE e.type IN ('session.terminated', 'session.error')),
        percentile_cont(0.99) WITHIN GROUP (ORDER BY
            greatest(0, extract(epoch FROM d.dispatched_at - d.due_at))::float8)
    FROM sessions_app_sessionevent e
    LEFT JOIN sessions_app_retrydecision d
        ON e.type = 'session.retry_dispatched' AND d.session_id = e.session_id
    WHERE e.id > %s AND e.id <= %s
"""
_TABLES = """
    SELECT s.relname, s.n_live_tup, s.n_dead_tup, s.autovacuum_count, pg_table_size(s.relid)
    FROM pg_stat_user_tables s
"""
_INDEXES = """
    SELECT s.indexrelname, t.n_live_tup, pg_relation_size(s.indexrelid),
        CASE WHEN c.reltuples > 0 THEN c.reltuples ELSE t.n_live_tup END
    FROM pg_stat_user_indexes s JOIN pg_class c ON c.oid = s.indexrelid
    JOIN pg_stat_user_tables t ON t.relid = s.relid
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or an index."""

    rows: int
    """Live rows of the table."""
    size: int
    """Bytes."""
    dead: int = 0
    vacuums: int = 0
    entries: float = 0.0
    """Those of an index that the last vacuum counted."""


@dataclass(frozen=True)
class Look:
    """The figures of one moment."""

    at: float
    """Seconds since the beginning of the load."""
    attempts: int
    """Attempts that ended since the look before."""
    late_p99_s: float
    """Seconds from when a retry was due to its dispatch; of those since the look before."""
    rss_mb: dict[str, float]
    """Of each process; of PostgreSQL all together, with shared pages once."""
    tables: dict[str, Relation]
    indexes: dict[str, Relation]


class Watch:
    """Looks at a database and at trees of processes, on a connection of its own."""

    def __init__(self, connection: "psycopg.Connection[Any]", roots: dict[str, list[int]]):
        self._connection = connection
        self._roots = roots
        self._postmaster = postmaster_of(connection)
        self._last = self._value(_LAST_EVENT)

    def look(self, at: float) -> Look:
        """Return what there is now, `at` seconds after the beginning."""
        last = self._value(_LAST_EVENT)
        ended, late = self._row(_WORK, [self._last, last])
        self._last = last
        return Look(
            at,
            int(ended),
            float(late or 0.0),
            dict(self._memory()),
            {
                name: Relation(live, size, dead=dead, vacuums=vacuums)
                for name, live, dead, vacuums, size in self._connection.execute(_TABLES)
            },
            {
                name: Relation(live, size, entries=entries)
                for name, live, size, entries in self._connection.execute(_INDEXES)
            },
        )

    def _memory(self) -> Iterator[tuple[str, float]]:
        for name, roots in self._roots.items():
            for number, pid in enumerate(each for root in roots for each in tree(root)):
                yield f"{name} {number}", memory_mb([pid])[0]
        yield "postgresql", memory_mb(tree(self._postmaster))[1]

    def _row(self, query: str, values: list[Any] | None = None) -> tuple[Any, ...]:
        return self._connection.execute(query, values).fetchone() or ()

    def _value(self, query: str) -> int:
        return int(self._row(query)[0])
