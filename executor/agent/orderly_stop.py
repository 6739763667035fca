"""Stops the agent in order: what runs has a moment to end, and what ended to be reported."""

import logging

from executor.agent.lifecycle import Ending, Phase
from executor.agent.offers import Offers
from executor.agent.run_stops import RunStops
from executor.agent.run_table import RunTable
from executor.clock import boottime
from executor.drivers.protocol import Driver
from executor.leases import LeaseKeeper
from executor.output import Pump
from executor.sender import ReportSender

log = logging.getLogger(__name__)

STOP_SECONDS = 4.5
HAND_OVER_SECONDS = 2.0
STOP_GRACE = 2.0


class OrderlyStop:
    """All calls are on the main thread. Its times are those of the boot's clock; None: not yet."""

    def __init__(
        self,
        table: RunTable,
        driver: Driver,
        keeper: LeaseKeeper,
        sender: ReportSender,
        pump: Pump,
        offers: Offers,
        stops: RunStops,
    ):
        self._table = table
        self._driver = driver
        self._keeper = keeper
        self._sender = sender
        self._pump = pump
        self._offers = offers
        self._stops = stops
        self._began: float | None = None
        self._ended: float | None = None
        """When all runs had ended that do not outlive the agent."""

    @property
    def begun(self) -> bool:
        """Return whether the agent was asked to stop."""
        return self._began is not None

    def begin(self) -> None:
        """Take no leases any more, and stop the runs that do not outlive the agent."""
        if self.begun:
            return
        log.info("stopping the agent: %d runs must end first", len(self._table.active))
        self._began = boottime()
        self._keeper.retire()
        self._sender.hurry()
        self._pump.hurry()
        self._offers.close()
        self._driver.retire()
        for run in self._table.active.values():
            # Runs that outlive the agent wait for the next one, as long as their leases last.
            if run.phase is Phase.OFFERED or not self._driver.outlives_agent:
                self._stops.stop(run, Ending.AGENT_STOPPED, min(run.grace, STOP_GRACE))

    def by(self) -> float:
        """Return when the agent ends whatever has not ended."""
        latest = (self._began or 0.0) + STOP_SECONDS
        return latest if self._ended is None else min(latest, self._ended + HAND_OVER_SECONDS)

    def done(self) -> bool:
        """Return whether the stop has begun, and nothing is left to wait for."""
        if not self.begun:
            return False
        now, active = boottime(), self._table.active
        staying = active.values() if self._driver.outlives_agent else ()
        kept = {run.key for run in staying if run.phase is Phase.LIVE}
        if self._ended is None and active.keys() <= kept and self._driver.retired:
            self._ended = now
        ended = (run for run in self._table.runs.values() if run.key not in kept)
        handed_over = self._sender.idle() and all(run.output_closed for run in ended)
        return (self._ended is not None and handed_over) or now >= self.by()
