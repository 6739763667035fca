"""Goes on with the runs that earlier agents left."""

from math import inf

from executor.agent.lifecycle import Term
from executor.agent.offers import Offers
from executor.agent.reporting import Reporting
from executor.agent.run_stops import RunStops
from executor.agent.run_table import RunTable
from executor.clock import boottime
from executor.drivers.protocol import Driver
from executor.state import StateDir


class Recovery:
    """Recovers once, before anything is sent: an acceptance that is answered meanwhile would look
    like a run.

    If the `state` does not tell of all runs that earlier agents left, the driver looks for them
    first. All calls are on the main thread.
    """

    def __init__(
        self,
        state: StateDir,
        driver: Driver,
        table: RunTable,
        offers: Offers,
        stops: RunStops,
        reporting: Reporting,
    ):
        self._state = state
        self._driver = driver
        self._table = table
        self._offers = offers
        self._stops = stops
        self._reporting = reporting
        self._whole = state.is_whole()
        self._began = boottime()
        self._life = life = state.lease_life()
        # Leases of runs that the files know are not to lapse while the cluster does not answer.
        self._survey_until = self._began + (life[0] / 2 if life else inf)

    def attempt(self) -> bool:
        """Recover unless the driver has to find runs first. Return whether it did."""
        if self._whole:
            self._recover(complete=True)
            return True
        surveyed = self._driver.surveyed
        if not surveyed and boottime() < self._survey_until:
            return False
        # What the driver found may still be in its queue.
        self._reporting.observed(self._driver.poll(0))
        # Of processes nothing is left to be seen.
        self._recover(complete=surveyed and self._driver.outlives_agent)
        if surveyed:
            self._state.note_whole()
        return True

    def _recover(self, *, complete: bool) -> None:
        for run in self._table.recover(complete=complete):
            self._offers.give_back(run, "the agent was killed before it started the session")
        if self._table.active and self._life:
            # They may go on for as long without a renewal as if this start had been one: the server
            # gives their sessions to nobody else before.
            self._stops.term = Term(self._began, *self._life)
