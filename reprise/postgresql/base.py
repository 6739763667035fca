"""The database backend: `ENGINE` of `DATABASES`."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import psycopg
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg.types.datetime import TimestamptzLoader

from reprise.http.call_limits import limits
from reprise.postgresql.known_server import see_server
from reprise.postgresql.plans import Cursor
from reprise.postgresql.pool import PromptPool

_SET = "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false)"


# psycopg parses a long statement, or one with many parameters, each time that it is executed. That
# of a dispatch is long and always the same, and took 300 us to parse.
psycopg._queries.MAX_CACHED_STATEMENT_LENGTH = 32_768  # noqa: SLF001  # it has no setting
psycopg._queries.MAX_CACHED_STATEMENT_PARAMS = 200  # noqa: SLF001

_django: Any = base  # its stubs know nothing of pools


class _UtcTimes(TimestamptzLoader):
    """Loads times in a third of the time of Django's loader, a twentieth of the server's time."""

    timezone = UTC

    def load(self, data: Any) -> datetime:
        """Return the time in UTC, as Django has set the connection to show it."""
        shown = str(data, "ascii")
        try:
            found = datetime.fromisoformat(shown)
        except ValueError:  # not in our era: psycopg says why
            found = super().load(data)
        return found if found.tzinfo is UTC else found.astimezone(UTC)


@lru_cache
def _adapters(djangos: Any) -> Any:
    adapters = psycopg.adapt.AdaptersMap(djangos)
    adapters.register_loader("timestamptz", _UtcTimes)
    return adapters


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper with our pool; connections that serve a call get the limits of calls."""

    @property
    def pool(self) -> Any:
        """Return the pool; Django's own property cannot be given another pool class."""
        options = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == _django.NO_DB_ALIAS or not options:
            return None
        pools: dict[str, Any] = self._connection_pools  # type: ignore[attr-defined]
        if self.alias not in pools:
            configure: Any = self._configure_connection
            made: Any = PromptPool(
                kwargs={**self.get_connection_params(), "autocommit": True},
                open=False,
                configure=configure,
                check=PromptPool.check_connection,
                **options,
            )
            # If several threads get here at once, all of them use the first pool.
            pools.setdefault(self.alias, made)
        return pools[self.alias]

    def get_connection_params(self) -> dict[str, Any]:
        """Return Django's parameters, with our cursor and loader of times, and without JIT.

        Before version 18, each step of a plan that a planner switch forbids costs 10^10. PostgreSQL
        would take a look at ten rows for expensive, and compile it anew each time.
        """
        found: dict[str, Any] = super().get_connection_params()
        # libpq reads the variable only if the parameter is missing.
        given = found.get("options", os.environ.get("PGOPTIONS", ""))
        return {
            **found,
            "context": _adapters(found["context"]),
            "cursor_factory": Cursor,
            "options": f"-c jit=off {given}".rstrip(),
        }

    def _configure_connection(self, connection: Any) -> bool:
        """Configure a new connection as Django does, and check that its server is known."""
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]
        if self.alias != NO_DB_ALIAS:
            if commit and not connection.autocommit:
                connection.commit()
            see_server(connection)
        return commit

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection; one more statement if its limits have to change."""
        connection = super().get_new_connection(conn_params)
        wanted = limits()
        if getattr(connection, "limits", None) != wanted:
            try:
                # It may come from a transaction that somebody closed: a statement would begin
                # another one, in which Django could not set its mode.
                connection.autocommit = True
                connection.execute(_SET, [f"{ms}ms" for ms in wanted or (0, 0)])
            except psycopg.Error:
                with suppress(psycopg.Error):
                    self.pool.putconn(connection) if self.pool else connection.close()
                raise
            connection.limits = wanted
        return connection

    def _set_autocommit(self, autocommit: bool) -> None:
        """Set the mode as psycopg's own setter does between transactions.

        That one takes a lock and runs a generator that waits for nothing, which costs 50 us, twice
        in each transaction.
        """
        found: Any = self.connection
        if found.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            found._autocommit = autocommit  # noqa: SLF001  # what the setter does after its checks
        else:
            super()._set_autocommit(autocommit)  # type: ignore[misc]

    def _commit(self) -> None:
        """Commit, and note it: a call that has committed does not begin anew."""
        super()._commit()  # type: ignore[misc]
        self.committed = True

    def connect_anew(self) -> None:
        """Replace every connection of this process, this one as soon as it is free."""
        if self.pool:
            self.pool.drain()
