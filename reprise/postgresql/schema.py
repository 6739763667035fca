"""Schema changes while servers of the version before use the tables.

A change that waits for a lock blocks everybody who comes later, and may hold locks that others wait
for. So all its waits together last less than PostgreSQL's `deadlock_timeout`, counted from its
first lock: the change gives up, never a server, and is then tried again.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, transaction
from django.db.backends.postgresql.schema import DatabaseSchemaEditor
from psycopg.errors import DeadlockDetected, LockNotAvailable

PAUSE_SECONDS = 0.5
PATIENCE_SECONDS = 600.0
"""For so long `migrate` tries to get the locks of one change."""
VACUUM_SECONDS = 5.0

_WAIT = """
    SELECT set_config('lock_timeout', greatest(50, setting::int / 2) || 'ms', false)
    FROM pg_settings WHERE name = 'deadlock_timeout'
"""
_CURRENT = "SELECT current_setting('lock_timeout')"
_WAIT_LESS = """
    SELECT set_config('lock_timeout',
        greatest(1, greatest(50, setting::int / 2) - round(1000 * %s)) || 'ms', true)
    FROM pg_settings WHERE name = 'deadlock_timeout'
"""
_SET = "SELECT set_config('lock_timeout', %s, false)"
_IS_VALID = """
    SELECT indisvalid FROM pg_index
    WHERE indexrelid = to_regclass(quote_ident(current_schema()) || '.' || quote_ident(%s))
"""
_VACUUMED = """
    SELECT DISTINCT relation::regclass::text FROM pg_locks JOIN pg_class c ON c.oid = relation
    WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'ShareUpdateExclusiveLock' AND granted AND pid <> pg_backend_pid()
        AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
"""


def lacks_lock(error: BaseException) -> bool:
    """Return whether a change failed only because it did not get a lock."""
    return isinstance(error.__cause__, LockNotAvailable | DeadlockDetected)


@contextmanager
def short_waits(connection: Any) -> Iterator[None]:
    """Make statements inside wait for a lock at most half as long as `deadlock_timeout`."""
    with connection.cursor() as cursor:
        cursor.execute(_CURRENT)
        (before,) = cursor.fetchone()
        cursor.execute(_WAIT)
    try:
        yield
    finally:
        _wait(connection, before)


def _wait(connection: Any, limit: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SET, [limit])


def interrupt_vacuum(connection: Any) -> None:
    """Make autovacuum release its tables. It does so for statements that wait longer than
    `deadlock_timeout`, which our changes do not. No other lock is held here meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(_VACUUMED)
        for (table,) in cursor.fetchall():
            try:
                with transaction.atomic(using=connection.alias):
                    cursor.execute(f"SET LOCAL lock_timeout = '{VACUUM_SECONDS}s'")
                    cursor.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
            except OperationalError as error:
                if not lacks_lock(error):
                    raise


class Patience:
    """The patience with one change that does not get its locks."""

    def __init__(self, connection: Any):
        self._connection = connection
        self._began: float | None = None

    def pause(self, error: OperationalError) -> None:
        """Wait until the change is tried again; raise its error if the patience is over."""
        now = time.monotonic()
        self._began = self._began or now
        if now - self._began > PATIENCE_SECONDS:
            raise error
        interrupt_vacuum(self._connection)
        time.sleep(PAUSE_SECONDS)


class OnlineSchemaEditor(DatabaseSchemaEditor):
    """Django's editor; outside a transaction, a statement that gets no lock is tried again."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._holds_since: float | None = None

    def add_index(self, model: Any, index: Any, concurrently: bool = False) -> None:
        """Add an index; drop an invalid one of an earlier attempt, keep a valid one."""
        if concurrently and not self.collect_sql and self._is_there(index.name):
            return
        super().add_index(model, index, concurrently=concurrently)

    def _is_there(self, name: str) -> bool:
        with self.connection.cursor() as cursor:
            cursor.execute(_IS_VALID, [name])
            found = cursor.fetchone()
        if found == (False,):
            self.execute(f"DROP INDEX CONCURRENTLY {self.quote_name(name)}")
        return bool(found == (True,))

    def execute(self, sql: Any, params: Any = ()) -> None:
        """Execute a statement, with the waits that suit it."""
        if self.collect_sql:
            super().execute(sql, params)
        elif self.connection.in_atomic_block:
            self._execute_soon(sql, params)
        elif " CONCURRENTLY " in str(sql):
            self._wait_long(sql, params)
        else:
            self._execute_until(sql, params)

    def _execute_soon(self, sql: Any, params: Any) -> None:
        """Execute a statement that may hold locks already: it waits the less, the longer it does.

        Whoever waits for one of them ends its call after `deadlock_timeout`, if both wait then.
        """
        now = time.monotonic()
        self._holds_since = self._holds_since or now
        with self.connection.cursor() as cursor:
            cursor.execute(_WAIT_LESS, [now - self._holds_since])
        super().execute(sql, params)

    def _execute_until(self, sql: Any, params: Any) -> None:
        patience = Patience(self.connection)
        while True:
            try:
                super().execute(sql, params)
            except OperationalError as error:
                if not lacks_lock(error):
                    raise
                patience.pause(error)
            else:
                return

    def _wait_long(self, sql: Any, params: Any) -> None:
        """Execute a `CONCURRENTLY` statement without a limit on waits: it blocks nobody."""
        with self.connection.cursor() as cursor:
            cursor.execute(_CURRENT)
            (before,) = cursor.fetchone()
        _wait(self.connection, "0")
        try:
            super().execute(sql, params)
        finally:
            _wait(self.connection, before)
