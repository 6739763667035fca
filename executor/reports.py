"""Reports that must not be lost: they are written to disk before they are sent and kept until
answered."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any

from reprise_client.wire import LeaseKey, Outcome, Report, RunProgress, Termination

from executor.failpoints import failpoint
from executor.journal import Entry, Journal

log = logging.getLogger(__name__)

FINAL = frozenset({"TERMINATED", "ERROR"})
BATCH = 500
PAUSE = 0.1
JOURNAL_LIMIT = 4 * 1024 * 1024


def report(
    key: LeaseKey,
    status: str,
    at: float,
    *,
    node: str = "",
    message: str = "",
    termination: Termination | None = None,
    pod: Mapping[str, Any] | None = None,
    log_tail: str = "",
    progress: RunProgress | None = None,
) -> Report:
    """Return a report without its number (`seq` is 0), which the buffer assigns."""
    made = Report(
        session_id=key.session_id,
        fencing_token=key.fencing_token,
        seq=0,
        status=status,
        at=at,
        node=node,
        message=message,
        exit_code=None if termination is None else termination["exit_code"],
        termination=termination,
    )
    if pod is not None:
        made["pod"] = pod
    if log_tail:
        made["log_tail"] = log_tail
    if progress is not None:
        made["progress"] = progress
    return made


def key_of(item: Report | Outcome) -> LeaseKey:
    return LeaseKey(item["session_id"], item["fencing_token"])


@dataclass
class _LeaseReports:
    """The reports of one lease and their answers."""

    last_seq: int = 0
    answered_seq: int = 0
    ended: bool = False
    released: bool = False
    pending: dict[int, Report] = field(default_factory=dict)
    not_before: float = 0.0

    def sendable(self, now: float) -> list[Report]:
        if now < self.not_before:
            return []
        return [r for r in self.pending.values() if self.released or r["status"] not in FINAL]


class ReportBuffer:
    """All reports that wait for an answer, in `directory`/journal. It is thread-safe.

    A final report is durable at once, but it is sent only after `release(key)`, which says that the
    output was handed over. The last number of each lease is remembered until `forget(key)`, so that
    a later agent never assigns it twice.
    """

    def __init__(self, directory: Path):
        self._journal = Journal(directory / "journal")
        self._lock = Lock()
        self._leases: dict[LeaseKey, _LeaseReports] = {}
        # The leases with something to send. Making a batch must not walk through all leases.
        self._waiting: dict[LeaseKey, _LeaseReports] = {}
        self._in_flight: dict[LeaseKey, int] = {}
        self._incomplete = False
        self._listeners: list[Event] = []
        for entry in self._journal.load():
            self._replay(entry)
        self._waiting = {key: lease for key, lease in self._leases.items() if lease.pending}
        self._journal.rewrite(self._snapshot())

    def listener(self) -> Event:
        """Return an event that is set whenever there may be something to send, as at first."""
        event = Event()
        event.set()
        self._listeners.append(event)
        return event

    def wake(self) -> None:
        """Set the events of all listeners."""
        for each in self._listeners:
            each.set()

    def add(self, drafts: Iterable[Report]) -> None:
        """Number the reports and make them durable before anything can send them."""
        with self._lock:
            numbered = [self._number(draft) for draft in drafts]
            if not numbered:
                return
            failpoint("executor.before_report_write")
            self._write((["report", each] for each in numbered), durable=True)
            failpoint("executor.after_report_write")
            for each in numbered:
                key = key_of(each)
                lease = self._leases[key]
                lease.pending[each["seq"]] = each
                if lease.released or each["status"] not in FINAL:
                    self._waiting[key] = lease
        self.wake()

    def release(self, keys: Iterable[LeaseKey]) -> None:
        with self._lock:
            for key in keys:
                lease = self._leases.get(key)
                if lease is not None:
                    lease.released = True
                    if lease.pending:
                        self._waiting[key] = lease
        self.wake()

    def take(self, limit: int, now: float, *, least: int = 1) -> list[Report]:
        """Return `least` to `limit` reports to send, ordered by session and number, or none.

        They stay in the buffer, and their leases can neither be withdrawn nor be in another batch,
        until `settle`: several batches may be under way, but those of one lease stay in order.
        """
        batch: list[Report] = []
        with self._lock:
            for key, lease in self._waiting.items():
                if key not in self._in_flight:
                    batch += lease.sendable(now)
                if len(batch) >= limit:
                    break
            if len(batch) < least:
                return []
            del batch[limit:]
            batch.sort(key=lambda each: (each["session_id"], each["seq"]))
            self._in_flight |= {key_of(each): each["seq"] for each in batch}
        return batch

    def next_due(self, now: float) -> float | None:
        """Return the seconds until a report that was busy may be sent again; None if there is
        none."""
        with self._lock:
            waits = [lease.not_before - now for lease in self._waiting.values()]
        return min((wait for wait in waits if wait > 0), default=None)

    def settle(
        self, batch: Sequence[Report], outcomes: Sequence[Outcome], now: float
    ) -> list[Outcome]:
        """End what `take` began with this batch, and return the final outcomes.

        Reports with a final outcome are forgotten. The others (busy or without an answer) are tried
        again after a short pause.
        """
        final = [each for each in outcomes if each["outcome"] != "busy"]
        with self._lock:
            if final:
                self._write_answers(final)
            for key in {key_of(each): None for each in batch}:
                seq = self._in_flight.pop(key)
                lease = self._leases.get(key)
                if lease is None or not lease.sendable(now):
                    self._waiting.pop(key, None)
                elif any(number <= seq for number in lease.pending):
                    lease.not_before = now + PAUSE
            if self._journal.size > JOURNAL_LIMIT:
                self._incomplete = True
                self._write((), durable=False)
        return final

    def adopt(self, key: LeaseKey, last_seq: int) -> None:
        """Add a lease that an earlier agent reported on, unless the journal tells of it.

        If the journal is lost, its reports were answered, and none had a number above `last_seq`.
        """
        with self._lock:
            if lease := self._leases.get(key):
                lease.released = False  # its end waits for its output after all
                return
            self._leases[key] = _LeaseReports(last_seq, last_seq)
            self._write([["known", *key, last_seq, last_seq, False]], durable=True)

    def withdraw(self, key: LeaseKey) -> bool:
        """Take back a lease on which nothing was reported yet. Return False if it is too late."""
        with self._lock:
            lease = self._leases.get(key, _LeaseReports())
            if key in self._in_flight or lease.answered_seq > 0:
                return False
            self._forget([key])
        return True

    def forget(self, keys: Iterable[LeaseKey]) -> None:
        with self._lock:
            self._forget(keys)

    def leases(self) -> list[LeaseKey]:
        with self._lock:
            return list(self._leases)

    def accepted(self, key: LeaseKey) -> bool:
        """Return whether the report that accepted the lease was answered."""
        with self._lock:
            return self._leases.get(key, _LeaseReports()).answered_seq > 0

    def ended(self, key: LeaseKey) -> bool:
        """Return whether the lease's final report was written, answered or not."""
        with self._lock:
            return self._leases.get(key, _LeaseReports()).ended

    def settled(self, key: LeaseKey) -> bool:
        """Return whether the lease's final report and all before it were answered."""
        with self._lock:
            lease = self._leases.get(key, _LeaseReports())
            return lease.ended and not lease.pending

    def empty(self) -> bool:
        with self._lock:
            return not any(lease.pending for lease in self._leases.values())

    def _number(self, draft: Report) -> Report:
        lease = self._leases.setdefault(key_of(draft), _LeaseReports())
        lease.last_seq += 1
        lease.ended = lease.ended or draft["status"] in FINAL
        return {**draft, "seq": lease.last_seq}

    def _write_answers(self, outcomes: Sequence[Outcome]) -> None:
        failpoint("executor.before_answer_write")
        # This is not synced: a report that is sent again after a loss of power is a duplicate.
        self._write((["answered", *key_of(o), o["seq"]] for o in outcomes), durable=False)
        failpoint("executor.after_answer_write")
        for each in outcomes:
            self._answered(key_of(each), each["seq"])

    def _answered(self, key: LeaseKey, seq: int) -> None:
        lease = self._leases.get(key)
        if lease is not None:
            lease.pending.pop(seq, None)
            lease.answered_seq = max(lease.answered_seq, seq)

    def _forget(self, keys: Iterable[LeaseKey]) -> None:
        known = [key for key in keys if self._leases.pop(key, None) is not None]
        for key in known:
            self._waiting.pop(key, None)
        if known:
            self._write((["forget", *key] for key in known), durable=False)

    def _write(self, entries: Iterable[Entry], *, durable: bool) -> None:
        """Append entries to the journal. If the disk is full, the reports are sent all the same.

        They are lost only if the agent dies before there is room. Then the runs end, and the server
        settles them.
        """
        try:
            if self._incomplete:
                self._journal.rewrite(self._snapshot())
                self._incomplete = False
            self._journal.append(entries, durable=durable)
        except OSError as error:
            if not self._incomplete:
                log.error("cannot write reports to disk, so they are only in memory: %s", error)
            self._incomplete = True

    def _replay(self, entry: Entry) -> None:
        match entry:
            case ["report", dict() as draft]:
                kept: Any = draft
                lease = self._leases.setdefault(key_of(kept), _LeaseReports())
                lease.pending[kept["seq"]] = kept
                lease.last_seq = max(lease.last_seq, kept["seq"])
                lease.ended = lease.ended or kept["status"] in FINAL
            case ["answered", session_id, token, seq]:
                self._answered(LeaseKey(session_id, token), seq)
            case ["forget", session_id, token]:
                self._leases.pop(LeaseKey(session_id, token), None)
            case ["known", session_id, token, last_seq, answered_seq, ended]:
                lease = _LeaseReports(last_seq, answered_seq, ended)
                self._leases[LeaseKey(session_id, token)] = lease

    def _snapshot(self) -> list[Entry]:
        entries: list[Entry] = []
        for key, lease in self._leases.items():
            entries.append(["known", *key, lease.last_seq, lease.answered_seq, lease.ended])
            entries += [["report", each] for each in lease.pending.values()]
        return entries
