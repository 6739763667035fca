"""The runs that an agent answers for, and all that it keeps of each."""

import logging
from collections.abc import Collection, Iterable

from reprise_client.wire import LeaseKey, Report

from executor.drivers.protocol import Driver, Observation
from executor.leases import LeaseBook
from executor.lifecycle import Phase, Run
from executor.output import NoOutput, OutputPump
from executor.reports import ReportBuffer
from executor.run_lines import run_lines
from executor.run_reports import final_report
from executor.runs import RunFiles, Runs

log = logging.getLogger(__name__)


class RunTable:
    """`active` are those of `runs` that have not ended."""

    def __init__(
        self,
        store: Runs,
        buffer: ReportBuffer,
        driver: Driver,
        pump: OutputPump | NoOutput,
        book: LeaseBook,
    ):
        self._store = store
        self._buffer = buffer
        self._driver = driver
        self._pump = pump
        self._book = book
        self.runs: dict[LeaseKey, Run] = {}
        self.active: dict[LeaseKey, Run] = {}

    def adopt(self, files: RunFiles) -> None:
        """Go on with an accepted run that an earlier agent started."""
        log.info("session %s goes on", files.key)
        self.runs[files.key] = self.active[files.key] = Run(files, None, Phase.LIVE)
        self._book.hold(files.key, {})
        self._pump.follow(files)

    def end(self, run: Run, seen: Observation) -> Report:
        """Note that a run has ended; return the report of it."""
        run.phase = Phase.ENDED
        self.active.pop(run.key, None)
        final = final_report(run, seen)
        message = final["message"]
        log.debug("session %s: %s%s", run.key, final["status"], message and f" {message}")
        return final

    def discard(self, files: RunFiles) -> None:
        """Clear the files of a run away, which nobody needs any more."""
        self._store.retire(files)
        self._pump.discard(files.path)

    def forget_answered(self, runs: Iterable[Run]) -> None:
        """Forget runs whose end was answered, once their output needs the directory no more."""
        settled = [run for run in runs if self._buffer.settled(run.key)]
        for run in settled:
            self._book.drop(run.key)
        self.remove([run for run in settled if run.output_closed])

    def drop(self, runs: Collection[Run]) -> None:
        """Forget runs and their leases."""
        self.remove(runs)
        for run in runs:
            self._book.drop(run.key)

    def remove(self, runs: Collection[Run]) -> None:
        """Forget runs; their leases stay."""
        for run in runs:
            # Twice in one batch of answers is once too often.
            if self.runs.pop(run.key, None) is None:
                continue
            self.active.pop(run.key, None)
            run_lines.forget(run.key)
            self._driver.release(run.key)
            self._pump.drop(run.key)
            self.discard(run.files)
        self._buffer.forget([run.key for run in runs])
