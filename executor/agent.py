"""The agent: it takes leases, starts runs and sends reports.

One main thread owns every run and starts every process. Three other threads talk to the server and
post what it answers to the inbox.
"""

import logging
import time
from collections.abc import Iterable
from math import inf

from reprise_client.wire import Lease, LeaseKey, Outcome, Report, Stop

from executor.clock import boottime
from executor.connection import Connection
from executor.drivers.protocol import FOUND, UNSTARTED, Driver, Observation, Order, facts
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
from executor.lifecycle import FENCED, FINISHING, STOPS, Ending, Phase, Run, Term
from executor.output import NoOutput, OutputPump
from executor.progress import ProgressBook
from executor.reports import FINAL, ReportBuffer, key_of, report
from executor.run_lines import run_lines
from executor.run_reports import middle_report
from executor.run_table import RunTable
from executor.runs import Runs
from executor.sender import ReportSender
from executor.state import StateDir
from executor.stop_times import StopTimes

log = logging.getLogger(__name__)

ACCEPTED = frozenset({"applied", "duplicate"})
UNKNOWN_GRACE = 2.0
STOP_GRACE = 2.0
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

    Each turn of the loop, at least every five seconds, is noted in the `state`. If that does not
    tell of all runs that earlier agents left, the driver looks for them first.
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
        self._store = store
        self._buffer = buffer
        self._driver = driver
        self._max_sessions = limits.max_sessions
        self._state = state
        self._book = LeaseBook()
        self._leasing = False
        self._began = boottime()
        self._life = life = state.lease_life()
        # Leases of runs that the files know are not to lapse while the cluster does not answer.
        self._survey_until = self._began + (life[0] / 2 if life else inf)
        self._recovered = False
        self._found: list[LeaseKey] = []
        """Runs that the driver found before `_recover`, which reads what their files tell."""
        self._term: Term | None = None
        self._stop_times = StopTimes()
        self._taken_over: str | None = None
        self.inbox = Inbox(driver.wake)
        self._sender = ReportSender(buffer, connection, self.inbox)
        self._progress = progress = ProgressBook()
        self._pump = (
            OutputPump(connection, self.inbox, progress)
            if driver.keeps_files
            else NoOutput(self.inbox)
        )
        self._table = RunTable(store, buffer, driver, self._pump, self._book, progress)
        self._runs, self._active = self._table.runs, self._table.active
        self._keeper = LeaseKeeper(self._book, connection, driver, self.inbox, limits, progress)

    def run(self) -> int:
        """Run the loop until the end and return the exit status of the process."""
        if self._state.is_whole():
            self._recover(complete=True)
        while not self._done():
            self._state.note_turn()
            self._begin_leasing()
            self._observed(self._driver.poll(self._pause()))
            for message in self.inbox.drain():
                self._handle(message)
            self._check_lease()
        self._driver.close()
        if self._taken_over is not None:
            left = "continue" if self._driver.outlives_agent else "were killed"
            log.error("%s: the runs of this agent %s", self._taken_over, left)
            self._hand_over()
            return EXIT_TAKEN_OVER
        log.info("stopped")
        return EXIT_STOPPED

    def _hand_over(self) -> None:
        """Send the output of runs whose ends were already reported: no other process has it."""
        answered = [run.key for run in self._runs.values() if self._buffer.settled(run.key)]
        if left := self._pump.wait_for(answered, TAKEN_OVER_SECONDS):
            log.error(
                "the output of %d ended sessions is not sent yet: the next agent with this state"
                " directory sends it", left,
            )  # fmt: skip

    # Start and stop

    def _recover(self, *, complete: bool) -> None:
        """Go on with the runs that earlier agents left; `complete`: all of them are known.

        Nothing is sent before: an acceptance that is answered meanwhile would look like a run.
        """
        self._recovered = True
        for run in self._table.recover(complete=complete):
            self._return(run, "the agent was killed before it started the session")
        for key in self._found:
            self._table.adopt_found(key)
        if self._active and self._life:
            # They may go on for as long without a renewal as if this start had been one: the server
            # gives their sessions to nobody else before.
            self._term = Term(self._began, *self._life)
        self._sender.start()
        self._pump.start()

    def _adopt_found(self, key: LeaseKey) -> None:
        if self._recovered:
            self._table.adopt_found(key)
        else:
            self._found.append(key)

    def _begin_leasing(self) -> None:
        """Start the lease calls, unless something must come first.

        The first lease call gives up every run that it does not name. So all buffered reports must
        be sent before it, and the driver must have found all runs that exist.
        """
        if self._leasing or self._stop_times.began is not None:
            return
        if not self._recovered:
            surveyed = self._driver.surveyed
            if not surveyed and boottime() < self._survey_until:
                return
            # What the driver found may still be in its queue.
            self._observed(self._driver.poll(0))
            # Of processes nothing is left to be seen.
            self._recover(complete=surveyed and self._driver.outlives_agent)
            if surveyed:
                self._state.note_whole()
        if self._buffer.empty():
            self._leasing = True
            self._keeper.start()

    def _begin_stop(self) -> None:
        if self._stop_times.began is not None:
            return
        log.info("stopping the agent: %d runs must end first", len(self._active))
        self._stop_times.began = boottime()
        self._keeper.retire()
        self._sender.hurry()
        self._pump.hurry()
        self._withdraw_offers()
        self._driver.retire()
        for run in self._active.values():
            # Runs that outlive the agent wait for the next one, as long as their leases last.
            if run.phase is Phase.OFFERED or not self._driver.outlives_agent:
                self._stop(run, Ending.AGENT_STOPPED, min(run.grace, STOP_GRACE))

    def _withdraw_offers(self) -> None:
        """Hand back the leases that were not accepted yet.

        Ending an accepted one costs an attempt.
        """
        for run in list(self._active.values()):
            if run.phase is Phase.OFFERED and self._buffer.withdraw(run.key):
                self._table.remove([run])
                self._refuse(run.key, "the executor is stopping")

    def _done(self) -> bool:
        if self._taken_over is not None:
            return True
        if self._stop_times.began is None:
            return False
        now = boottime()
        staying = self._active.values() if self._driver.outlives_agent else ()
        kept = {run.key for run in staying if run.phase is Phase.LIVE}
        over = self._active.keys() <= kept and self._driver.retired
        if self._stop_times.ended is None and over:
            self._stop_times.ended = now
        ended = (run for run in self._runs.values() if run.key not in kept)
        handed_over = self._sender.idle() and all(run.output_closed for run in ended)
        return (self._stop_times.ended is not None and handed_over) or now >= self._stop_times.by()

    def _pause(self) -> float:
        """Return the seconds until the loop must turn even if no message comes."""
        moments = [boottime() + LONGEST_WAIT]
        if self._stop_times.began is not None:
            moments.append(self._stop_times.by())
        running = self._active.values()
        if self._term is not None and any(run.ending not in FINISHING for run in running):
            # A wait does not count the sleep of a suspended machine, but the lease goes on
            # expiring.
            soon = boottime() + self._term.grace / 8
            moments.append(min(soon, self._term.sent_at + self._term.ttl))
        return max(0.0, min(moments) - boottime())

    # Messages

    def _handle(self, message: Message) -> None:
        match message:
            case Leased():
                self._leased(message)
            case Answered(outcomes):
                self._answered(outcomes)
                if self._stop_times.began is not None:
                    self._withdraw_offers()
            case OutputShipped(keys, closed):
                self._output_shipped(keys, closed)
            case HandedBack(key):
                self._book.drop(key)
                if key in self._runs:
                    self._table.remove([self._runs[key]])
            case TakenOver(reason):
                self._taken_over = reason
            case StopAsked():
                self._begin_stop()

    def _leased(self, message: Leased) -> None:
        answer = message.answer
        before, self._term = self._term, Term.of(answer, message.sent_at)
        if before is None or before.life != self._term.life:
            self._state.keep_lease_life(*self._term.life)
        # First, since runs that are let go take the room of what is offered.
        for stop in answer["stops"]:
            self._stop_asked(stop)
        offers = (self._offer(lease) for lease in answer["leases"])
        self._buffer.add([accept for accept in offers if accept is not None])
        if gone := answer.get("forget_troubles"):
            self._driver.forget_troubles(gone)

    def _offer(self, lease: Lease) -> Report | None:
        """Return the report that accepts the lease, or None if the lease is known or refused."""
        key = LeaseKey(lease["session_id"], lease["fencing_token"])
        if key in self._runs:
            return None
        project = lease["environ"].get("REPRISE_PROJECT", "")
        if trouble := self._driver.trouble or self._driver.project_troubles.get(project, ""):
            self._refuse(key, trouble, own_trouble=True)
            return None
        reason = self._refusal(lease)
        if reason is None:
            try:
                self._runs[key] = self._active[key] = Run(
                    self._store.create(key), lease, Phase.OFFERED
                )
                run_lines.remember(key, lease)
            except OSError as error:
                reason = f"cannot create its files: {error.strerror}"
        if reason is not None:
            self._refuse(key, reason, own_trouble=self._is_full and self._lets_go())
            return None
        return report(key, "PREPARING", time.time(), message=self._driver.caveat(lease["spec"]))

    @property
    def _is_full(self) -> bool:
        return len(self._active) >= self._max_sessions

    def _lets_go(self) -> bool:
        """Return whether runs take room that the server has let go, and does not count."""
        return any(run.ending is Ending.UNKNOWN for run in self._active.values())

    def _refusal(self, lease: Lease) -> str | None:
        if self._stop_times.began is not None:
            return "the executor is stopping"
        if self._is_full:
            return f"no room: {self._max_sessions} sessions at once are the limit here"
        return self._driver.refusal(lease["spec"])

    def _refuse(
        self, key: LeaseKey, reason: str, *, own_trouble: bool = False, node: str = ""
    ) -> None:
        log.info("handing back session %s: %s", key, f"{node}: {reason}" if node else reason)
        self._sender.hand_back(key, reason, own_trouble=own_trouble, refused_node=node)

    def _return(self, run: Run, reason: str, node: str = "") -> None:
        """Hand back an accepted run of which nothing was started.

        Its files stay until the server has answered: an agent that is killed before leaves them to
        the next one.
        """
        run.phase, run.output_closed = Phase.ENDED, True
        self._active.pop(run.key, None)
        self._refuse(run.key, reason, own_trouble=True, node=node)

    def _answered(self, outcomes: Iterable[Outcome]) -> None:
        answered, refused = [], []
        for outcome in outcomes:
            run = self._runs.get(key_of(outcome))
            if run is None:
                continue
            if run.phase is not Phase.OFFERED:
                answered.append(run)
            elif outcome["outcome"] in ACCEPTED:
                self._start(run)
            else:
                log.info(
                    "session %s no longer belongs to this executor (%s)",
                    run.key,
                    outcome["outcome"],
                )
                refused.append(run)
        self._table.drop(refused)
        self._table.forget_answered(answered)

    def _output_shipped(self, keys: Iterable[LeaseKey], closed: bool) -> None:
        runs = [run for key in keys if (run := self._runs.get(key)) is not None]
        for run in runs:
            run.output_closed = closed
        self._buffer.release([run.key for run in runs])
        self._table.forget_answered(runs)

    # Runs

    def _start(self, run: Run) -> None:
        if run.ending in FENCED:
            self._return(run, run.ending.value)
            return
        run.phase = Phase.LIVE
        self._pump.follow(run.files)
        if run.ending is not None or run.lease is None:
            ending = run.ending or Ending.LEASE_EXPIRED
            self._table.end_unseen([(run, facts(None))], ending, "ended before it was started")
            self._pump.finish([run.key])
            return
        log.debug("starting session %s", run.key)
        lease = run.lease
        avoid = lease.get("avoid_node", "")
        # Secrets are not kept after the start, so they are never written to a file.
        secrets = lease.pop("secret_environ", {})
        nodes = tuple(lease.get("nodes") or ())
        left_out = tuple(lease.get("avoid_nodes") or ())
        order = Order(
            *(run.key, lease["spec"], lease["environ"], run.files, avoid, secrets, nodes, left_out),
            priority_class=lease.get("priority_class", ""),
            node_labels=lease.get("node_labels") or {},
            pod_defaults=lease.get("pod_defaults") or {},
        )
        self._driver.start(order)

    def _stop_asked(self, stop: Stop) -> None:
        run = self._runs.get(LeaseKey(stop["session_id"], stop["fencing_token"]))
        if run is None or run.phase is Phase.ENDED:
            return
        given = stop["grace_period"]
        grace = run.grace if given is None else given
        ending = STOPS.get(stop["reason"], Ending.CANCELLED)
        if ending is Ending.UNKNOWN:
            if run.phase is Phase.OFFERED:
                self._table.drop([run])
            else:
                self._stop(run, ending, min(grace, UNKNOWN_GRACE))
        elif run.ending is None:
            if run.phase is Phase.LIVE:
                message = ending.value
                self._buffer.add([report(run.key, "TERMINATING", time.time(), message=message)])
            self._stop(run, ending, grace)

    def _stop(self, run: Run, ending: Ending, grace: float) -> None:
        """Ask the driver to stop the run, unless it is already stopping for a stronger reason.

        Fencing overrides a cancellation, and a lease that nobody holds overrides both.
        """
        if run.phase is Phase.ENDED or run.ending in {ending, Ending.UNKNOWN}:
            return
        log.info("stopping session %s: %s", run.key, ending.value)
        run.ending = ending
        self._driver.stop(run.key, grace)

    def _check_lease(self) -> None:
        term = self._term
        if term is None or boottime() < term.sent_at + term.ttl:
            return
        for run in self._active.values():
            # The run must be gone within `lease_grace`: half of it must remain after the stop
            # request.
            if run.ending not in FINISHING:
                self._stop(run, Ending.LEASE_EXPIRED, min(run.grace, term.grace / 4))

    def _observed(self, observations: Iterable[Observation]) -> None:
        drafts: list[Report] = []
        ended: list[LeaseKey] = []
        for seen in observations:
            if seen.status == FOUND:
                self._adopt_found(seen.key)
                continue
            run = self._runs.get(seen.key)
            # An end that an earlier agent reported is observed again: the pod stays until the
            # server has answered.
            if run is None or run.phase is Phase.ENDED:
                continue
            if seen.output:
                self._progress.hear(run.key, seen.output)
            if seen.status == UNSTARTED:
                self._return(run, seen.message, seen.node)
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
        self._buffer.add(each for each in drafts if key_of(each) in self._runs)
        if ended:
            self._pump.finish(ended)
