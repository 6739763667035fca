"""A pool of connections that is back at work at most some seconds after its server.

psycopg's own pool waits twice as long after each failed try to connect, up to minutes, and gives
broken connections out one by one, with such pauses in between.
"""

from typing import Any

from psycopg_pool import ConnectionPool
from psycopg_pool.base import AttemptWithBackoff

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 2.0


class Attempt(AttemptWithBackoff):
    """A connection that is tried again and again, the last times every `LONGEST_PAUSE` seconds."""

    INITIAL_DELAY = FIRST_PAUSE

    def update_delay(self, now: float) -> None:
        """As psycopg's, which doubles the pause each time."""
        super().update_delay(now)
        self.delay = min(self.delay, LONGEST_PAUSE)


class PromptPool(ConnectionPool[Any]):
    """As psycopg's, but for the pauses; a test holds it to them."""

    def _add_connection(self, attempt: AttemptWithBackoff | None, growing: bool = False) -> None:
        super()._add_connection(attempt or Attempt(timeout=self.reconnect_timeout), growing)

    def _check_connection(self, conn: Any) -> None:
        try:
            super()._check_connection(conn)
        except Exception:
            # A server that went away took all connections with it: new ones for all of them, and
            # whoever waits gets the first.
            self.drain()
            raise
