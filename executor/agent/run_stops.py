"""Stops runs: the server asks for it, their leases run out, or the agent stops."""

import logging
import time

from reprise_client.wire import LeaseAnswer, LeaseKey, Stop

from executor.agent.lifecycle import FINISHING, STOPS, Ending, Phase, Run, Term
from executor.agent.run_table import RunTable
from executor.clock import boottime
from executor.drivers.protocol import Driver
from executor.reports import ReportBuffer, report
from executor.state import StateDir

log = logging.getLogger(__name__)

UNKNOWN_GRACE = 2.0


class RunStops:
    """Knows until when the leases last: their `term`, None before the first lease call.

    All calls are on the main thread.
    """

    def __init__(self, table: RunTable, buffer: ReportBuffer, driver: Driver, state: StateDir):
        self._table = table
        self._buffer = buffer
        self._driver = driver
        self._state = state
        self.term: Term | None = None

    def renew(self, answer: LeaseAnswer, sent_at: float) -> None:
        """Renew the leases by a lease call that was sent then, and stop what it says."""
        before, self.term = self.term, Term.of(answer, sent_at)
        if before is None or before.life != self.term.life:
            self._state.keep_lease_life(*self.term.life)
        for stop in answer["stops"]:
            self._asked(stop)

    def stop(self, run: Run, ending: Ending, grace: float) -> None:
        """Ask the driver to stop the run, unless it is already stopping for a stronger reason.

        Fencing overrides a cancellation, and a lease that nobody holds overrides both.
        """
        if run.phase is Phase.ENDED or run.ending in {ending, Ending.UNKNOWN}:
            return
        log.info("stopping session %s: %s", run.key, ending.value)
        run.ending = ending
        self._driver.stop(run.key, grace)

    def check_lease(self) -> None:
        """Stop all runs if their leases have not been renewed for too long."""
        term = self.term
        if term is None or boottime() < term.sent_at + term.ttl:
            return
        for run in self._table.active.values():
            # The run must be gone within `lease_grace`: half of it must remain after the stop
            # request.
            if run.ending not in FINISHING:
                self.stop(run, Ending.LEASE_EXPIRED, min(run.grace, term.grace / 4))

    def next_check(self) -> float | None:
        """Return when the leases must be checked again, at the latest; None if no run has one."""
        running = self._table.active.values()
        if self.term is None or all(run.ending in FINISHING for run in running):
            return None
        # A wait does not count the sleep of a suspended machine, but the lease goes on expiring.
        return min(boottime() + self.term.grace / 8, self.term.sent_at + self.term.ttl)

    def _asked(self, stop: Stop) -> None:
        run = self._table.runs.get(LeaseKey(stop["session_id"], stop["fencing_token"]))
        if run is None or run.phase is Phase.ENDED:
            return
        given = stop["grace_period"]
        grace = run.grace if given is None else given
        ending = STOPS.get(stop["reason"], Ending.CANCELLED)
        if ending is Ending.UNKNOWN:
            if run.phase is Phase.OFFERED:
                self._table.drop([run])
            else:
                self.stop(run, ending, min(grace, UNKNOWN_GRACE))
        elif run.ending is None:
            if run.phase is Phase.LIVE:
                message = ending.value
                self._buffer.add([report(run.key, "TERMINATING", time.time(), message=message)])
            self.stop(run, ending, grace)
