"""A pool of connections that recovers at most some seconds after its server.

psycopg's own pool waits twice as long after each failed attempt to connect, up to minutes, and
hands out broken connections one by one, with such pauses in between.
"""

from typing import Any

from psycopg_pool import ConnectionPool
from psycopg_pool.base import AttemptWithBackoff

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 2.0


class Attempt(AttemptWithBackoff):
    """An attempt to connect, repeated at least every `LONGEST_PAUSE` seconds."""

    INITIAL_DELAY = FIRST_PAUSE

    def update_delay(self, now: float) -> None:
        """Double the pause as psycopg does, up to `LONGEST_PAUSE`."""
        super().update_delay(now)
        self.delay = min(self.delay, LONGEST_PAUSE)


class PromptPool(ConnectionPool[Any]):
    """psycopg's pool with short pauses; a test checks them."""

    def _add_connection(self, attempt: AttemptWithBackoff | None, growing: bool = False) -> None:
        super()._add_connection(attempt or Attempt(timeout=self.reconnect_timeout), growing)

    def _get_ready_connection(self, timeout: float | None) -> Any:
        # The one that was used last, which has its statements prepared and planned, and not the one
        # that has waited longest: with that, all of a pool would have to plan everything.
        self._pool.rotate(1)
        return super()._get_ready_connection(timeout)

    def putconn(self, conn: Any) -> None:
        """Take a connection back; replace all if it prepares nothing any more (`plans.py`).

        The plans of the others are outdated, too: a call that begins anew would fail at each.
        """
        if conn.prepare_threshold is None:
            self.drain()
        super().putconn(conn)

    def _check_connection(self, conn: Any) -> None:
        try:
            super()._check_connection(conn)
        except Exception:
            # A server that went away took all connections with it: replace all, so that waiters get
            # the first new one.
            self.drain()
            raise
