"""The runs that an agent answers for, and all that it keeps of each."""

import logging
from collections.abc import Collection, Iterable

from reprise_client.wire import Lease, LeaseKey, Report, Termination

from executor.agent.lifecycle import Ending, Phase, Run
from executor.agent.run_reports import final_report, first_number
from executor.drivers.protocol import Driver, Left, Observation, facts
from executor.leases import LeaseBook
from executor.output import Pump
from executor.progress import ProgressBook
from executor.reports import ReportBuffer
from executor.run_lines import run_lines
from executor.runs import RunFiles, Runs

log = logging.getLogger(__name__)

AGENT_KILLED = "the agent was killed; its runs ended with it"


class RunTable:
    """`active` are those of `runs` that have not ended.

    `recovered` becomes true when it is known what earlier agents left. All calls are on the main
    thread.
    """

    def __init__(
        self,
        store: Runs,
        buffer: ReportBuffer,
        driver: Driver,
        pump: Pump,
        book: LeaseBook,
        progress: ProgressBook,
    ):
        self._store = store
        self._buffer = buffer
        self._driver = driver
        self._pump = pump
        self._book = book
        self._progress = progress
        self.runs: dict[LeaseKey, Run] = {}
        self.active: dict[LeaseKey, Run] = {}
        self.recovered = False
        self._found: list[LeaseKey] = []
        """Runs that the driver found before `recover`, which reads what their files tell."""

    def offer(self, key: LeaseKey, lease: Lease) -> None:
        """Add a run whose acceptance is to be sent. Raises `OSError` if it can have no files."""
        self.runs[key] = self.active[key] = Run(self._store.create(key), lease, Phase.OFFERED)
        run_lines.remember(key, lease)

    def adopt(self, files: RunFiles) -> None:
        """Go on with an accepted run that an earlier agent started."""
        log.info("session %s continues", files.key)
        self.runs[files.key] = self.active[files.key] = Run(files, None, Phase.LIVE)
        self._book.hold(files.key, {})
        self._pump.follow(files)

    def adopt_found(self, key: LeaseKey) -> None:
        """Adopt a run that only the driver knows, because its files are lost.

        The server decides whether it may go on.
        """
        if not self.recovered:
            self._found.append(key)
            return
        if key in self.runs:
            return
        files = self._store.create(key)
        if self._driver.reclaim(files) is not Left.GOES_ON:
            self.discard(files)
            return
        self._buffer.adopt(key, first_number())
        self.adopt(files)

    def recover(self, *, complete: bool) -> list[Run]:
        """Adopt the runs that an earlier agent left, or end them and make sure that each is
        reported.

        Return those of which nothing was started, which must be handed back. There are none unless
        the files are `complete`: after a loss of power those of a run may be older than the run.
        """
        killed, unstarted, unbegun = [], [], []
        reported = set(self._buffer.leases())
        for files in self._store.leftovers():
            left = self._driver.reclaim(files)
            ended = self._buffer.ended(files.key)
            if left is Left.GOES_ON and not ended:
                # Also a run whose acceptance has no answer here: only a loss of power takes the
                # note of the answer and leaves the run.
                self.adopt(files)
                continue
            begun = left is not Left.UNBEGUN or not complete
            if files.key not in reported or (begun and not self._buffer.accepted(files.key)):
                # The first lease call does not name it, so it goes back free of charge.
                unstarted.append(files.key)
                self.discard(files)
                continue
            run = Run(files, None, Phase.ENDED)
            self.runs[files.key] = run
            self._book.hold(files.key, {})
            if not (begun or ended):
                # The server may have accepted it all the same.
                unbegun.append(run)
                continue
            self._pump.follow(files)
            if not ended:
                message = files.termination_message()
                termination = facts(None, message=message, pod_message=AGENT_KILLED)
                killed.append((run, termination))
        self._buffer.forget(unstarted)
        self.end_unseen(killed, Ending.LEASE_EXPIRED, AGENT_KILLED)
        self._pump.finish([key for key in self.runs if key not in self.active])
        self._buffer.release([key for key in self._buffer.leases() if key not in self.runs])
        self.recovered = True
        for key in self._found:
            self.adopt_found(key)
        return unbegun

    def end_unseen(
        self, runs: Iterable[tuple[Run, Termination]], ending: Ending, message: str
    ) -> None:
        """Report the ends of runs that no driver holds."""
        drafts = []
        for run, termination in runs:
            run.ending = ending
            seen = Observation(
                run.key, "ERROR", termination["node"], message, termination, stopped=True
            )
            drafts.append(self.end(run, seen))
        self._buffer.add(drafts)

    def end(self, run: Run, seen: Observation) -> Report:
        """Note that a run has ended; return the report of it."""
        run.phase = Phase.ENDED
        self.active.pop(run.key, None)
        final = final_report(run, seen, self._progress.end(run.files))
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
            self._progress.drop(run.key)
            self.discard(run.files)
        self._buffer.forget([run.key for run in runs])
