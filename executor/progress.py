"""How far runs are, as they print it: read from their output before any of it is cut."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock

from reprise_client.wire import LeaseKey, ProgressNews, RunProgress

from base.runlines.progress import LineReader, Number, Progress
from executor.clock import boottime
from executor.failure_tail import heading
from executor.runs import RunFiles
from executor.state import replace_file

SEND_EVERY = 5.0
"""Least seconds between two calls that tell of one run."""
RATE_SECONDS = 60.0
"""The rate is that of the last one or two of these spans."""
PIECE = 256 * 1024
RECORD = "progress.json"
_OTHER_RANKS = heading(1)


@dataclass
class _Told:
    """The progress of a run: its last line, its last checkpoint with the step of that line, and
    its best step."""

    step: Number
    best: Number
    of: Number | None = None
    note: str = ""
    checkpoint: str = ""
    checkpoint_step: Number = 0

    def hear(self, line: Progress) -> None:
        self.step, self.of, self.note = line.step, line.of, line.note
        self.best = max(self.best, line.step)
        if line.checkpoint:
            self.checkpoint, self.checkpoint_step = line.checkpoint, line.step


@dataclass
class _Mark:
    """A step, and when it was told (boot time)."""

    step: Number
    at: float


@dataclass
class _Run:
    """The facts known about one run. `position`: the bytes of its output that were read.

    Of several ranks only rank 0 counts, whose output comes first; `over`: it has been read.
    """

    key: LeaseKey
    position: int = 0
    seam: bytes = b""
    over: bool = False
    reader: LineReader = field(default_factory=LineReader)
    told: _Told | None = None
    marks: list[_Mark] = field(default_factory=list)
    sent_at: float = float("-inf")
    lock: Lock = field(default_factory=Lock)

    def of_rank_0(self, data: bytes) -> bytes:
        """Return the part of new output that is of rank 0."""
        if self.over:
            return b""
        seam = len(self.seam)
        at = (self.seam + data).find(_OTHER_RANKS)
        self.over = at >= 0
        self.seam = (self.seam + data)[1 - len(_OTHER_RANKS) :]
        return data[: max(0, at - seam)] if self.over else data

    def hear(self, lines: Iterable[Progress]) -> bool:
        """Take what lines tell, in order. Return whether there were any."""
        heard = False
        for line in lines:
            if self.told is None:
                self.told = _Told(line.step, line.step)
            self.told.hear(line)
            heard = True
        if heard and self.told is not None:
            self._mark(_Mark(self.told.step, boottime()))
        return heard

    def _mark(self, mark: _Mark) -> None:
        """Keep the beginnings of the last two spans, and the newest mark behind them."""
        if self.marks and mark.step < self.marks[-1].step:
            self.marks.clear()
        if len(self.marks) > 1 and self.marks[-1].at - self.marks[-2].at < RATE_SECONDS:
            self.marks.pop()
        self.marks = [*self.marks[-2:], mark]

    def rate(self) -> float | None:
        """Return the steps a second; None until two moments are known."""
        if len(self.marks) < 2:
            return None
        first, last = self.marks[0], self.marks[-1]
        return (last.step - first.step) / (last.at - first.at) if last.at > first.at else None

    def news(self) -> RunProgress | None:
        """Return what the server is to know."""
        told = self.told
        if told is None:
            return None
        made = RunProgress(
            step=told.step, of=told.of, note=told.note, best=told.best, rate=self.rate()
        )
        if told.checkpoint:
            made["checkpoint"] = told.checkpoint
            made["checkpoint_step"] = told.checkpoint_step
        return made


class ProgressBook:
    """The progress of all runs. It is thread-safe.

    What it knows of a run is in the run's directory, too, so that a later agent goes on from there.
    """

    def __init__(self) -> None:
        self._runs: dict[LeaseKey, _Run] = {}
        self._news: dict[LeaseKey, _Run] = {}
        self._lock = Lock()

    def read(self, files: RunFiles) -> None:
        """Read what the run has written since the last call."""
        size = files.output_size()
        with self._lock:
            run = self._runs.get(files.key)
        if run is None:
            if not size:
                return
            run = self._add(files)
        with run.lock:
            heard = self._read_on(run, files, size)
        if heard:
            self._note(run)

    def emptied(self, key: LeaseKey) -> None:
        """Note that the output was emptied: the run goes on writing at position 0."""
        with self._lock:
            run = self._runs.get(key)
        if run is not None:
            with run.lock:
                run.position = 0

    def hear(self, key: LeaseKey, output: bytes) -> None:
        """Read output that stands in no file."""
        with self._lock:
            run = self._runs.setdefault(key, _Run(key))
        with run.lock:
            heard = run.hear(run.reader.feed(output))
        if heard:
            self._note(run)

    def end(self, files: RunFiles) -> RunProgress | None:
        """Read the rest of an ended run's output. Return its progress; None if it told nothing.

        It is for the report of the end: no other call tells of the run from now on.
        """
        self.read(files)
        with self._lock:
            self._news.pop(files.key, None)
            run = self._runs.get(files.key)
        if run is None:
            return None
        with run.lock:
            run.hear(run.reader.end())
            return run.news()

    def drop(self, key: LeaseKey) -> None:
        with self._lock:
            self._runs.pop(key, None)
            self._news.pop(key, None)

    def take(self) -> list[ProgressNews]:
        """Return what the server does not know yet, of each run at most every 5 s."""
        if not self._news:
            return []
        now = boottime()
        with self._lock:
            due = [run for run in self._news.values() if now >= run.sent_at + SEND_EVERY]
            for run in due:
                run.sent_at = now
                del self._news[run.key]
        taken = []
        for run in due:
            with run.lock:
                news = run.news()
            if news is not None:
                session_id, token = run.key
                taken.append(ProgressNews(session_id=session_id, fencing_token=token, **news))
        return taken

    def give_back(self, taken: Iterable[ProgressNews]) -> None:
        """Note that the call with these failed: the next one is to tell of them again."""
        with self._lock:
            for each in taken:
                run = self._runs.get(LeaseKey(each["session_id"], each["fencing_token"]))
                if run is not None:
                    run.sent_at = float("-inf")
                    self._news[run.key] = run

    def _add(self, files: RunFiles) -> _Run:
        made = _Run(files.key)
        with suppress(OSError, ValueError, TypeError, KeyError):
            record = json.loads((files.path / RECORD).read_bytes())
            made.told, made.position = _Told(**record["told"]), int(record["position"])
            made.reader = LineReader(inside=bool(record["inside"]))
        with self._lock:
            return self._runs.setdefault(files.key, made)

    def _read_on(self, run: _Run, files: RunFiles, size: int) -> bool:
        if size < run.position:
            run.position = 0
        heard = False
        while run.position < size:
            data = files.read_output(run.position, min(PIECE, size - run.position))
            if not data:
                break
            run.position += len(data)
            heard = run.hear(run.reader.feed(run.of_rank_0(data))) or heard
        if heard:
            _save(run, files.path)
        return heard

    def _note(self, run: _Run) -> None:
        with self._lock:
            if run.key in self._runs:
                self._news[run.key] = run


def _save(run: _Run, path: Path) -> None:
    """Write down what is known: output may be freed before a later agent reads it."""
    if run.told is None:
        return
    # A line of which only the beginning was read is read again from there.
    position = run.position - run.reader.unread
    record = {"told": asdict(run.told), "position": position, "inside": run.reader.inside}
    with suppress(OSError):
        replace_file(path / RECORD, json.dumps(record).encode(), durable=False)
