"""The thread that sends what runs write, and removes their directories."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread

from reprise_client.errors import ApiError, RepriseError
from reprise_client.wire import Chunk, ChunkOutcome, LeaseKey, SupersededError

from executor.clock import boottime
from executor.connection import Connection, RetryPauses
from executor.failpoints import failpoint
from executor.failure_tail import TAIL_BYTES
from executor.inbox import Inbox, OutputShipped, TakenOver
from executor.log_end import MARKER_BYTES, LogEnd
from executor.progress import ProgressBook
from executor.reports import PAUSE
from executor.runs import RunFiles, remove_tree

log = logging.getLogger(__name__)

TICK = 0.5
CHUNK = 256 * 1024
SMALLEST_CHUNK = 4096
CHUNKS = 16
KEPT = 32 * TAIL_BYTES
"""Bytes of an output that stay though nobody wants more of it: with a dump of many threads."""
REPORT_WAITS = 3.0
OUTPUT_WAITS = 600.0
REFUSED_AS_A_WHOLE = frozenset({400, 404, 413, 422})


@dataclass
class _Stream:
    """The output of one run.

    `due`: when to look for more (boot time). `muted`: nothing more of it will be sent, and of what
    it has written only `kept` stays, for the signature of its failure. `end`: set once the server
    has the beginning; the rest is then sent after the end of the run. `refused_at`: when the server
    first refused the rest of an ended run's output. `let_go`: the run's end no longer waits for it.
    `progress` reads the output, too, before any of it is cut.
    """

    files: RunFiles
    due: float
    offset: int = 0
    muted: bool = False
    finished: bool = False
    refused_at: float | None = None
    let_go: bool = False
    end: LogEnd | None = None
    kept: LogEnd = field(default_factory=lambda: LogEnd(0, KEPT))
    progress: ProgressBook = field(default_factory=ProgressBook)

    def next_chunk(self, size: int) -> Chunk | None:
        if not self.finished:
            # The report of the end reads the rest.
            self.progress.read(self.files)
        if self.muted:
            if not self.finished:
                self._free()
            return None
        if self.end is None:
            data = self.files.read_output(self.offset, size)
            return Chunk(self.files.key, self.offset, data) if data else None
        if not self.finished:
            self.muted = not self.end.roll(self.files)
            if self.muted:
                log.error("cannot keep the end of the output of session %s", self.files.key)
            return None
        self.offset = max(self.offset, self.end.after)
        data = self.end.read(self.files, self.offset, size)
        return Chunk(self.files.key, self.offset, data, tail=True) if data else None

    def _free(self) -> None:
        """Free what nobody will read: a run may write for days."""
        if not self.kept.roll(self.files):
            self.files.empty_output()
            self.progress.emptied(self.files.key)
            self.kept.freed = 0

    def answered(self, chunk: Chunk, outcome: ChunkOutcome) -> None:
        """Apply the server's answer to a chunk, unless that was "busy"."""
        self.offset, self.refused_at = outcome["next_offset"], None
        if outcome["outcome"] not in {"applied", "duplicate"}:
            self.muted = True
        elif chunk.tail:
            self.muted = self.offset == chunk.offset
        elif outcome["full"]:
            size = outcome.get("tail_bytes", 0)
            self.muted = size <= MARKER_BYTES
            self.end = LogEnd(outcome.get("tail_from", self.offset), size)
            self.end.save(self.files)


class OutputPump(Thread):
    """Sends the output of each followed run every half second, and the rest after its end.

    It posts `OutputShipped` when the server has the rest. While the server refuses the rest, it
    posts that once after 3 s, so that the end can be reported, and finally after 10 min.
    """

    def __init__(self, connection: Connection, inbox: Inbox, progress: ProgressBook):
        super().__init__(name="output", daemon=True)
        self._connection = connection
        self._inbox = inbox
        self._progress = progress
        self._streams: dict[LeaseKey, _Stream] = {}
        self._lock = Lock()
        self._wake = Event()
        self._hurried = Event()
        self._rubbish: SimpleQueue[Path] = SimpleQueue()
        self._chunk = CHUNK
        self._chunks = CHUNKS

    def hurry(self) -> None:
        """Stop making long pauses between tries, because little time is left."""
        self._hurried.set()

    def follow(self, files: RunFiles) -> None:
        with self._lock:
            end = LogEnd.load(files)
            stream = _Stream(files, boottime() + TICK, end=end, progress=self._progress)
            self._streams[files.key] = stream
        self._wake.set()

    def finish(self, keys: Sequence[LeaseKey]) -> None:
        """Send what is left of the output of these runs, which have ended."""
        with self._lock:
            for key in keys:
                # A run that is no longer followed was sent completely, or dropped.
                if stream := self._streams.get(key):
                    stream.finished, stream.due = True, 0.0
        self._wake.set()

    def drop(self, key: LeaseKey) -> None:
        with self._lock:
            self._streams.pop(key, None)

    def wait_for(self, keys: Sequence[LeaseKey], seconds: float) -> int:
        """Wait until the output of ended runs was sent. Return for how many it was not in time."""
        until = boottime() + seconds
        while left := self._left(keys):
            if boottime() >= until or not self.is_alive():
                break
            time.sleep(PAUSE)
        return left

    def _left(self, keys: Sequence[LeaseKey]) -> int:
        with self._lock:
            return sum(key in self._streams for key in keys)

    def discard(self, directory: Path) -> None:
        """Remove the directory when there is time, as its tree may be large."""
        self._rubbish.put(directory)
        self._wake.set()

    def run(self) -> None:
        pauses = RetryPauses("sending output")
        while True:
            self._wake.wait(self._pause())
            self._wake.clear()
            try:
                while self._ship():
                    pauses.succeeded()
            except SupersededError as error:
                self._inbox.post(TakenOver(str(error)))
                return
            except RepriseError as error:
                # The end of another run does not cut this pause short: a server in trouble has many
                # of them.
                if self._hurried.wait(pauses.failed(error)):
                    time.sleep(PAUSE)
                self._wake.set()
            while not self._rubbish.empty():
                remove_tree(self._rubbish.get())

    def _pause(self) -> float | None:
        with self._lock:
            first = min((stream.due for stream in self._streams.values()), default=None)
        return None if first is None else max(0.0, first - boottime())

    def _ship(self) -> bool:
        """Send one call with a chunk of each stream that is due. Return False if there was none."""
        pieces = self._collect(boottime())
        if not pieces:
            return False
        chunks = [chunk for _, chunk in pieces]
        failpoint("executor.before_log_send")
        progress = self._progress.take()
        try:
            outcomes = self._connection.call(lambda wire, mine: wire.log(mine, chunks, progress))
        except RepriseError as error:
            self._progress.give_back(progress)
            if not isinstance(error, ApiError):
                raise
            if error.status in REFUSED_AS_A_WHOLE:
                self._narrow(pieces, error)
                return True
            self._refused(pieces, error)
            raise
        failpoint("executor.after_log_send")
        self._chunks = min(CHUNKS, self._chunks * 2)
        for (stream, chunk), outcome in zip(pieces, outcomes, strict=False):
            self._go_on(stream, chunk, outcome)
        return True

    def _collect(self, now: float) -> list[tuple[_Stream, Chunk]]:
        with self._lock:
            streams = sorted(self._streams.values(), key=lambda stream: stream.due)
        pieces: list[tuple[_Stream, Chunk]] = []
        for stream in streams:
            if stream.due > now or len(pieces) == self._chunks:
                break
            chunk = stream.next_chunk(self._chunk)
            if chunk is not None:
                pieces.append((stream, chunk))
            elif stream.finished:
                self._close(stream)
            else:
                stream.due = now + TICK
        return pieces

    def _go_on(self, stream: _Stream, chunk: Chunk, outcome: ChunkOutcome) -> None:
        at_once = False
        if outcome["outcome"] != "busy":
            moved = outcome["next_offset"] != chunk.offset
            stream.answered(chunk, outcome)
            backlog = stream.finished or len(chunk.data) >= self._chunk
            at_once = stream.muted or (moved and backlog)
        stream.due = boottime() + (0 if at_once else TICK)

    def _refused(self, pieces: list[tuple[_Stream, Chunk]], error: ApiError) -> None:
        """Note a refusal for the moment.

        After some time the end of a run no longer waits for its output.
        """
        now = boottime()
        for stream, _ in pieces:
            if not stream.finished:
                continue
            stream.refused_at = stream.refused_at or now
            if now > stream.refused_at + OUTPUT_WAITS:
                self._give_up(stream, error)
            elif now > stream.refused_at + REPORT_WAITS and not stream.let_go:
                stream.let_go = True
                self._inbox.post(OutputShipped([stream.files.key], closed=False))

    def _narrow(self, pieces: list[tuple[_Stream, Chunk]], error: ApiError) -> None:
        """Send less in the next call, until the refused chunk is alone and is given up."""
        if len(pieces) > 1:
            self._chunks = len(pieces) // 2
        elif error.status == 413 and self._chunk > SMALLEST_CHUNK:
            self._chunk //= 2
        else:
            self._give_up(pieces[0][0], error)

    def _give_up(self, stream: _Stream, error: ApiError) -> None:
        log.error("the rest of the output of session %s is lost: %s", stream.files.key, error)
        stream.muted = True

    def _close(self, stream: _Stream) -> None:
        self.drop(stream.files.key)
        self._inbox.post(OutputShipped([stream.files.key], closed=True))


class NoOutput:
    """The replacement for the pump if runs write nothing: no end waits for output."""

    def __init__(self, inbox: Inbox):
        self._inbox = inbox

    def start(self) -> None:
        """Do nothing: there is no work in the background."""

    def hurry(self) -> None:
        """Do nothing: nothing is ever sent."""

    def follow(self, files: RunFiles) -> None:
        """Do nothing: no output will come."""

    def finish(self, keys: Sequence[LeaseKey]) -> None:
        self._inbox.post(OutputShipped(keys, closed=True))

    def drop(self, key: LeaseKey) -> None:
        """Do nothing: nothing is kept."""

    def wait_for(self, keys: Sequence[LeaseKey], seconds: float) -> int:  # noqa: ARG002
        """Return 0: no output is missing."""
        return 0

    def discard(self, directory: Path) -> None:
        """Do nothing: there is no directory."""


Pump = OutputPump | NoOutput
