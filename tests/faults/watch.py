"""Checks what must hold at every moment: what is mended later was wrong, too."""

import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.plant import Plant

EVERY = 0.1
# One statement sees one moment.
_WRONG = """
    SELECT s.id::text, 'has ended as ' || s.status || ' without a decision'
    FROM sessions_app_session s WHERE s.status IN ('ERROR', 'CANCELLED')
        AND NOT EXISTS (SELECT FROM sessions_app_retrydecision d WHERE d.session_id = s.id)
    UNION ALL
    SELECT d.session_id::text, 'has a decision without a trace'
    FROM sessions_app_retrydecision d WHERE NOT EXISTS (
        SELECT FROM sessions_app_retrytrace t WHERE t.session_id = d.session_id)
    UNION ALL
    SELECT t.session_id::text, 'has a trace without a decision'
    FROM sessions_app_retrytrace t WHERE NOT EXISTS (
        SELECT FROM sessions_app_retrydecision d WHERE d.session_id = t.session_id)
    UNION ALL
    SELECT s.id::text, 'has succeeded, and a decision was made about it'
    FROM sessions_app_session s JOIN sessions_app_retrydecision d ON d.session_id = s.id
    WHERE s.status = 'TERMINATED'
    UNION ALL
    SELECT s.id::text, 'has succeeded, and was retried'
    FROM sessions_app_session s JOIN sessions_app_session c ON c.parent_id = s.id
    WHERE s.status = 'TERMINATED'
    UNION ALL
    SELECT s.root_id::text, 'is a chain with ' || count(*) || ' attempts that have not ended'
    FROM sessions_app_session s WHERE s.phase <> 'final' GROUP BY s.root_id HAVING count(*) > 1
    UNION ALL
    SELECT s.id::text, 'began after its chain had been cancelled'
    FROM sessions_app_session s JOIN sessions_app_session r ON r.id = s.root_id
    WHERE s.created_at > r.cancel_requested_at
    UNION ALL
    SELECT d.session_id::text, 'has a retry that waits though its chain was cancelled'
    FROM sessions_app_retrydecision d JOIN sessions_app_session s ON s.id = d.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE d.state IN ('scheduled', 'held') AND r.cancel_requested_at IS NOT NULL
    UNION ALL
    SELECT d.session_id::text, 'was retried, and its next attempt is not there'
    FROM sessions_app_retrydecision d WHERE d.state = 'dispatched'
        AND NOT EXISTS (SELECT FROM sessions_app_session c WHERE c.id = d.next_session_id)
    UNION ALL
    SELECT s.id::text, 'is ' || s.status || ' without its lease'
    FROM sessions_app_session s WHERE s.phase = 'live' AND NOT EXISTS (
        SELECT FROM scheduler_lease l
        WHERE l.session_id = s.id AND l.fencing_token = s.fencing_token)
    UNION ALL
    SELECT p.victim_id::text, 'made room for ' || s.id || ', for which none is kept'
    FROM scheduler_preemption p JOIN sessions_app_session s ON s.id = p.taker_id
    JOIN scheduler_executor x ON x.id = p.executor_id
    WHERE NOT p.dry_run AND p.until > now() AND s.phase = 'waiting'
        AND x.last_seen_at <= p.planned_at -- its next round may have a reason to give it up
        AND NOT EXISTS (SELECT FROM scheduler_reservation r
            WHERE r.executor_id = x.id AND r.session_id = s.id)
        AND NOT EXISTS (SELECT FROM sessions_app_sessionevent e WHERE e.session_id = s.id
            AND e.type = 'session.scheduled' AND e.time >= p.planned_at)
"""
# No fault makes it say this: only two who do not wait for each other do.
_REFUSED = re.compile(rb"ERROR:  (?:.*violates .*constraint.*|deadlock detected.*)")


def wrong_now(database: Any) -> list[str]:
    """Return what is wrong at this moment, as a connection or a cursor of Django's sees it."""
    rows = database.execute(_WRONG) or database
    return [f"{session} {what}, for a moment at least" for session, what in rows.fetchall()]


def refusals_in(log: bytes) -> list[str]:
    """The writes that PostgreSQL had to refuse because another one was not reckoned with."""
    return [f"PostgreSQL: {found.decode(errors='replace')}" for found in _REFUSED.findall(log)]


class Watch(threading.Thread):
    """Looks until `finish`, `looks` times; `violations` are what it saw, each once."""

    def __init__(self, plant: Plant):
        super().__init__(name="watch", daemon=True)
        self._plant = plant
        self._log = plant.directory / "postgres.log"
        self._read = 0
        self._finished = threading.Event()
        self.looks = 0
        self.violations: list[str] = []

    def finish(self) -> None:
        """Look no more."""
        self._finished.set()
        self.join()

    def run(self) -> None:
        finished = False
        while not finished:
            finished = self._finished.wait(EVERY)
            with suppress(psycopg.Error), self._plant.connect() as connection:
                while not self._finished.wait(EVERY):
                    self._look(wrong_now(connection))
                    self.looks += 1
            self._look(())

    def _look(self, seen: Any) -> None:
        found = [*seen, *refusals_in(self._new(self._log))]
        self.violations += sorted({*found} - {*self.violations})

    def _new(self, path: Path) -> bytes:
        """Return what was written since the last look, line by line."""
        with path.open("rb") as log:
            log.seek(self._read)
            lines = log.read().rpartition(b"\n")[0]
        self._read += len(lines)
        return lines
