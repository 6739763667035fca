"""Reports what the driver has observed, and acts on what the server has answered."""

import logging
from collections.abc import Iterable

from reprise_client.wire import LeaseKey, Outcome, Report

from executor.agent.lifecycle import Ending, Phase
from executor.agent.offers import Offers
from executor.agent.run_reports import middle_report
from executor.agent.run_table import RunTable
from executor.agent.starting import RunStarter
from executor.drivers.protocol import FOUND, UNSTARTED, Observation
from executor.output import Pump
from executor.progress import ProgressBook
from executor.reports import FINAL, ReportBuffer, key_of

log = logging.getLogger(__name__)

ACCEPTED = frozenset({"applied", "duplicate"})


class Reporting:
    """All calls are on the main thread."""

    def __init__(
        self,
        table: RunTable,
        buffer: ReportBuffer,
        pump: Pump,
        progress: ProgressBook,
        offers: Offers,
        starter: RunStarter,
    ):
        self._table = table
        self._buffer = buffer
        self._pump = pump
        self._progress = progress
        self._offers = offers
        self._starter = starter

    def observed(self, observations: Iterable[Observation]) -> None:
        """Report what the driver has observed of runs."""
        drafts: list[Report] = []
        ended: list[LeaseKey] = []
        for seen in observations:
            if seen.status == FOUND:
                self._table.adopt_found(seen.key)
                continue
            run = self._table.runs.get(seen.key)
            # An end that an earlier agent reported is observed again: the pod stays until the
            # server has answered.
            if run is None or run.phase is Phase.ENDED:
                continue
            if seen.output:
                self._progress.hear(run.key, seen.output)
            if seen.status == UNSTARTED:
                self._offers.give_back(run, seen.message, seen.node)
            elif seen.status not in FINAL:
                drafts.append(middle_report(seen))
            elif run.ending is Ending.UNKNOWN:
                self._table.drop([run])
            else:
                drafts.append(self._table.end(run, seen))
                ended.append(run.key)
        if not drafts:
            return
        # Add all reports in one call: they then share one wait for the disk.
        self._buffer.add(each for each in drafts if key_of(each) in self._table.runs)
        if ended:
            self._pump.finish(ended)

    def answered(self, outcomes: Iterable[Outcome]) -> None:
        """Start the runs that the server has accepted, and forget those whose end it has."""
        answered, refused = [], []
        for outcome in outcomes:
            run = self._table.runs.get(key_of(outcome))
            if run is None:
                continue
            if run.phase is not Phase.OFFERED:
                answered.append(run)
            elif outcome["outcome"] in ACCEPTED:
                self._starter.start(run)
            else:
                log.info(
                    "session %s no longer belongs to this executor (%s)",
                    run.key,
                    outcome["outcome"],
                )
                refused.append(run)
        self._table.drop(refused)
        self._table.forget_answered(answered)

    def output_shipped(self, keys: Iterable[LeaseKey], *, closed: bool) -> None:
        """Let the ends of these runs be reported: they no longer have to wait for their output."""
        runs = [run for key in keys if (run := self._table.runs.get(key)) is not None]
        for run in runs:
            run.output_closed = closed
        self._buffer.release([run.key for run in runs])
        self._table.forget_answered(runs)
