"""Fills a table as fast as PostgreSQL can: COPY first, then its indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_CONSTRAINTS = """
    SELECT conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = %s::regclass AND contype IN ('c', 'f', 'u')
"""
_INDEXES = """
    SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid = %s::regclass
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""


@contextmanager
def loading(table: str, columns: str, *, beside: str) -> Iterator[Any]:
    """Empty a table, and yield a COPY (text) into it.

    Tables with foreign keys to it are emptied, too, and so is `beside`, which refers to it without
    a constraint. Afterwards the constraints and indexes are restored, but the rows are not
    validated.
    """
    from django.db import connection, transaction

    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute("SET max_parallel_maintenance_workers = 2")
        cursor.execute(_CONSTRAINTS, [table])
        constraints = cursor.fetchall()
        cursor.execute(_INDEXES, [table])
        indexes = cursor.fetchall()
        with transaction.atomic():
            cursor.execute(f"TRUNCATE {table}, {beside} CASCADE")
            for name, _, _ in constraints:
                cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
            for name, _ in indexes:
                cursor.execute(f"DROP INDEX {name}")
            # Frozen rows are visible to all at once, so no vacuum is needed.
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FREEZE)") as copy:
                yield copy
        for _, definition in indexes:
            cursor.execute(definition)
        for name, kind, definition in constraints:
            believed = "" if kind == "u" or "NOT VALID" in definition else " NOT VALID"
            cursor.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}{believed}')
        # Autovacuum would start during the measurement.
        cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        cursor.execute(f"ANALYZE {table}")
        cursor.execute("CHECKPOINT")
