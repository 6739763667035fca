"""The main loop of the agent. It puts the parts together, and gives each message to its part."""

import logging

from executor.agent.offers import Offers
from executor.agent.orderly_stop import OrderlyStop
from executor.agent.recovery import Recovery
from executor.agent.reporting import Reporting
from executor.agent.run_stops import RunStops
from executor.agent.run_table import RunTable
from executor.agent.starting import RunStarter
from executor.clock import boottime
from executor.connection import Connection
from executor.drivers.protocol import Driver
from executor.inbox import (
    Answered,
    HandedBack,
    Inbox,
    Leased,
    Message,
    OutputShipped,
    StopAsked,
    TakenOver,
)
from executor.leases import LeaseBook, LeaseKeeper, Limits
from executor.output import NoOutput, OutputPump
from executor.progress import ProgressBook
from executor.reports import ReportBuffer
from executor.runs import Runs
from executor.sender import ReportSender
from executor.state import StateDir

log = logging.getLogger(__name__)

TAKEN_OVER_SECONDS = 30.0
"""Seconds to send the remaining output after another agent has taken over.

Until then the state directory is in use, so no other agent can start on it.
"""
LONGEST_WAIT = 5.0
"""Longest pause of the main loop, in seconds.

Whoever monitors the agent must see its loop turn, even when there is nothing to do.
"""

EXIT_STOPPED = 0
EXIT_TAKEN_OVER = 3


class Agent:
    """The main loop. It runs until it is stopped or another agent takes over its name.

    Each turn of the loop, at least every five seconds, is noted in the `state`. Any thread may post
    to the `inbox`; everything else is called on the main thread.
    """

    def __init__(
        self,
        *,
        store: Runs,
        buffer: ReportBuffer,
        connection: Connection,
        driver: Driver,
        limits: Limits,
        state: StateDir,
    ):
        self._buffer = buffer
        self._driver = driver
        self._state = state
        self._leasing = False
        self._taken_over: str | None = None
        self.inbox = Inbox(driver.wake)
        self._sender = sender = ReportSender(buffer, connection, self.inbox)
        self._book, progress = LeaseBook(), ProgressBook()
        self._pump = pump = (
            OutputPump(connection, self.inbox, progress)
            if driver.keeps_files
            else NoOutput(self.inbox)
        )
        self._table = table = RunTable(store, buffer, driver, pump, self._book, progress)
        self._keeper = LeaseKeeper(self._book, connection, driver, self.inbox, limits, progress)
        self._offers = offers = Offers(table, buffer, driver, sender, limits.max_sessions)
        self._stops = stops = RunStops(table, buffer, driver, state)
        starter = RunStarter(table, driver, pump, offers)
        self._reporting = Reporting(table, buffer, pump, progress, offers, starter)
        self._recovery = Recovery(state, driver, table, offers, stops, self._reporting)
        self._stop = OrderlyStop(table, driver, self._keeper, sender, pump, offers, stops)

    def run(self) -> int:
        """Run the loop until the end and return the exit status of the process."""
        while self._taken_over is None and not self._stop.done():
            self._state.note_turn()
            self._begin_leasing()
            self._reporting.observed(self._driver.poll(self._pause()))
            for message in self.inbox.drain():
                self._handle(message)
            self._stops.check_lease()
        self._driver.close()
        if self._taken_over is not None:
            left = "continue" if self._driver.outlives_agent else "were killed"
            log.error("%s: the runs of this agent %s", self._taken_over, left)
            self._hand_over()
            return EXIT_TAKEN_OVER
        log.info("stopped")
        return EXIT_STOPPED

    def _begin_leasing(self) -> None:
        """Start the lease calls, unless something must come first.

        The first lease call gives up every run that it does not name. So all buffered reports must
        be sent before it, and the driver must have found all runs that exist.
        """
        if self._leasing or self._stop.begun:
            return
        if not self._table.recovered:
            if not self._recovery.attempt():
                return
            self._sender.start()
            self._pump.start()
        if self._buffer.empty():
            self._leasing = True
            self._keeper.start()

    def _pause(self) -> float:
        """Return the seconds until the loop must turn even if no message comes."""
        until = boottime() + LONGEST_WAIT
        if self._stop.begun:
            until = min(until, self._stop.by())
        if (check := self._stops.next_check()) is not None:
            until = min(until, check)
        return max(0.0, until - boottime())

    def _handle(self, message: Message) -> None:
        match message:
            case Leased(answer, sent_at):
                # First, since runs that are let go take the room of what is offered.
                self._stops.renew(answer, sent_at)
                self._offers.take(answer["leases"])
                if gone := answer.get("forget_troubles"):
                    self._driver.forget_troubles(gone)
            case Answered(outcomes):
                self._reporting.answered(outcomes)
                if self._stop.begun:
                    self._offers.close()
            case OutputShipped(keys, closed):
                self._reporting.output_shipped(keys, closed=closed)
            case HandedBack(key):
                self._book.drop(key)
                if key in self._table.runs:
                    self._table.remove([self._table.runs[key]])
            case TakenOver(reason):
                self._taken_over = reason
            case StopAsked():
                self._stop.begin()

    def _hand_over(self) -> None:
        """Send the output of runs whose ends were already reported: no other process has it."""
        runs = self._table.runs.values()
        answered = [run.key for run in runs if self._buffer.settled(run.key)]
        if left := self._pump.wait_for(answered, TAKEN_OVER_SECONDS):
            log.error(
                "the output of %d ended sessions is not sent yet: the next agent with this state"
                " directory sends it", left,
            )  # fmt: skip
