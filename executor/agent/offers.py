"""Leases that the server offers: accepted, refused, or handed back before anything was started."""

import logging
import time
from collections.abc import Iterable

from reprise_client.wire import Lease, LeaseKey, Report

from executor.agent.lifecycle import Ending, Phase, Run
from executor.agent.run_table import RunTable
from executor.drivers.protocol import Driver
from executor.reports import ReportBuffer, report
from executor.sender import ReportSender

log = logging.getLogger(__name__)


class Offers:
    """Accepts leases until it is `closed`. All calls are on the main thread."""

    def __init__(
        self,
        table: RunTable,
        buffer: ReportBuffer,
        driver: Driver,
        sender: ReportSender,
        max_sessions: int,
    ):
        self._table = table
        self._buffer = buffer
        self._driver = driver
        self._sender = sender
        self._max_sessions = max_sessions
        self._closed = False

    def take(self, leases: Iterable[Lease]) -> None:
        """Accept the leases for which there is room, and refuse the others."""
        accepts = (self._offer(lease) for lease in leases)
        self._buffer.add([accept for accept in accepts if accept is not None])

    def close(self) -> None:
        """Refuse all leases from now on, and hand back those that were not accepted yet.

        Ending an accepted one costs an attempt.
        """
        self._closed = True
        for run in list(self._table.active.values()):
            if run.phase is Phase.OFFERED and self._buffer.withdraw(run.key):
                self._table.remove([run])
                self._refuse(run.key, "the executor is stopping")

    def give_back(self, run: Run, reason: str, node: str = "") -> None:
        """Hand back an accepted run of which nothing was started.

        Its files stay until the server has answered: an agent that is killed before leaves them to
        the next one.
        """
        run.phase, run.output_closed = Phase.ENDED, True
        self._table.active.pop(run.key, None)
        self._refuse(run.key, reason, own_trouble=True, node=node)

    def _offer(self, lease: Lease) -> Report | None:
        """Return the report that accepts the lease, or None if the lease is known or refused."""
        key = LeaseKey(lease["session_id"], lease["fencing_token"])
        if key in self._table.runs:
            return None
        project = lease["environ"].get("REPRISE_PROJECT", "")
        if trouble := self._driver.trouble or self._driver.project_troubles.get(project, ""):
            self._refuse(key, trouble, own_trouble=True)
            return None
        reason = self._refusal(lease)
        if reason is None:
            try:
                self._table.offer(key, lease)
            except OSError as error:
                reason = f"cannot create its files: {error.strerror}"
        if reason is not None:
            self._refuse(key, reason, own_trouble=self._is_full and self._lets_go())
            return None
        return report(key, "PREPARING", time.time(), message=self._driver.caveat(lease["spec"]))

    @property
    def _is_full(self) -> bool:
        return len(self._table.active) >= self._max_sessions

    def _lets_go(self) -> bool:
        """Return whether runs take room that the server has let go, and does not count."""
        return any(run.ending is Ending.UNKNOWN for run in self._table.active.values())

    def _refusal(self, lease: Lease) -> str | None:
        if self._closed:
            return "the executor is stopping"
        if self._is_full:
            return f"no room: {self._max_sessions} sessions at once are the limit here"
        return self._driver.refusal(lease["spec"])

    def _refuse(
        self, key: LeaseKey, reason: str, *, own_trouble: bool = False, node: str = ""
    ) -> None:
        log.info("handing back session %s: %s", key, f"{node}: {reason}" if node else reason)
        self._sender.hand_back(key, reason, own_trouble=own_trouble, refused_node=node)
