"""The threads that send reports and returned leases to the server."""

import logging
import time
from collections.abc import Sequence
from threading import Event, Lock, Thread

from reprise_client.errors import ApiError, RepriseError
from reprise_client.wire import LeaseKey, Outcome, Report, Return, SupersededError

from executor.clock import boottime
from executor.connection import Connection, RetryPauses
from executor.failpoints import failpoint
from executor.inbox import Answered, HandedBack, Inbox, TakenOver
from executor.reports import BATCH, PAUSE, ReportBuffer, key_of

log = logging.getLogger(__name__)

REFUSED_AS_A_WHOLE = frozenset({400, 413, 422})
LANES = 2
"""Batches under way at once: the database works on one, while the server reads another."""
LEAST = 50
"""Reports that must wait before another lane than the first sends them: few go along soon."""


class ReportSender:
    """Sends reports and returns as soon as there are any, in batches, until the server has
    answered."""

    def __init__(self, buffer: ReportBuffer, connection: Connection, inbox: Inbox):
        self._buffer = buffer
        self._connection = connection
        self._inbox = inbox
        self._returns: dict[LeaseKey, Return] = {}
        self._returns_lock = Lock()
        self._well = True
        """True while the last call succeeded; until then only the first lane sends."""
        self._limit = BATCH
        self._hurried = Event()

    def start(self) -> None:
        for lane in range(LANES):
            each = Thread(
                target=self._run,
                args=[self._buffer.listener()],
                kwargs={"first": lane == 0},
                name=f"reports-{lane}",
                daemon=True,
            )
            each.start()

    def hurry(self) -> None:
        """Stop making long pauses between tries, because little time is left."""
        self._hurried.set()

    def hand_back(
        self, key: LeaseKey, reason: str, *, own_trouble: bool = False, refused_node: str = ""
    ) -> None:
        with self._returns_lock:
            self._returns[key] = _return(key, reason, own_trouble, refused_node)
        self._buffer.wake()

    def idle(self) -> bool:
        with self._returns_lock:
            return not self._returns and self._buffer.empty()

    def _run(self, changed: Event, *, first: bool) -> None:
        """Send until another agent takes over. After a failure only the first lane tries again."""
        pauses = RetryPauses("sending reports")
        while True:
            changed.wait(self._buffer.next_due(boottime()))
            changed.clear()
            try:
                while self._send_all() if first else self._send_more():
                    if first:
                        pauses.succeeded()
                        self._well = True
            except SupersededError as error:
                self._inbox.post(TakenOver(str(error)))
                return
            except RepriseError as error:
                self._well = False
                if first and self._hurried.wait(pauses.failed(error)):
                    time.sleep(PAUSE)
                self._buffer.wake()

    def _send_all(self) -> bool:
        try:
            sent = self._send_returns()
        except SupersededError:
            raise
        except RepriseError:
            # Whatever the server has against a return, it has to know what runs do.
            self._send_reports(1)
            raise
        return sent or self._send_reports(1)

    def _send_more(self) -> bool:
        return self._well and self._send_reports(LEAST)

    def _send_returns(self) -> bool:
        with self._returns_lock:
            waiting = list(self._returns.items())[:BATCH]
        if not waiting:
            return False
        returns = [each for _, each in waiting]
        failpoint("executor.before_return_send")
        outcomes = self._connection.call(lambda wire, mine: wire.hand_back(mine, returns))
        failpoint("executor.after_return_send")
        done = [k for (k, _), o in zip(waiting, outcomes, strict=False) if o["outcome"] != "busy"]
        with self._returns_lock:
            for key in done:
                del self._returns[key]
        for key in done:
            self._inbox.post(HandedBack(key))
        if len(done) < len(waiting):
            time.sleep(PAUSE)
        return True

    def _send_reports(self, least: int) -> bool:
        batch = self._buffer.take(self._limit, boottime(), least=least)
        if not batch:
            return False
        outcomes: Sequence[Outcome] = ()
        try:
            outcomes = self._deliver(batch)
        finally:
            # This is posted after a failure, too: reports that are no longer in flight can be
            # withdrawn.
            final = self._buffer.settle(batch, outcomes, boottime())
            self._inbox.post(Answered(final))
        for outcome in final:
            if outcome["outcome"] == "invalid":
                log.error(
                    "the server refused report %d of session %s for good: %s",
                    outcome["seq"], key_of(outcome), outcome["detail"],
                )  # fmt: skip
        return True

    def _deliver(self, batch: Sequence[Report]) -> Sequence[Outcome]:
        """Send a batch and return the outcomes, which are empty if the server refuses it as a
        whole.

        The next batch is smaller then. A report that is refused on its own is given up, so that it
        does not block the others.
        """
        failpoint("executor.before_report_send")
        try:
            outcomes = self._connection.call(lambda wire, mine: wire.report(mine, batch))
        except ApiError as error:
            if error.status not in REFUSED_AS_A_WHOLE:
                raise
            if len(batch) == 1:
                return [_invalid(batch[0], str(error))]
            self._limit = len(batch) // 2
            return ()
        failpoint("executor.after_report_send")
        self._limit = min(BATCH, self._limit * 2)
        log.debug("%d reports sent, the first of session %s", len(batch), key_of(batch[0]))
        return outcomes


def _return(key: LeaseKey, reason: str, own_trouble: bool, refused_node: str) -> Return:
    item = Return(session_id=key.session_id, fencing_token=key.fencing_token, reason=reason)
    if own_trouble:
        item["own_trouble"] = True
    if refused_node:
        item["refused_node"] = refused_node
    return item


def _invalid(refused: Report, detail: str) -> Outcome:
    return Outcome(
        session_id=refused["session_id"],
        fencing_token=refused["fencing_token"],
        seq=refused["seq"],
        outcome="invalid",
        detail=detail,
    )
