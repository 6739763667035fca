"""Finding every process of a run, whatever it did to get out of sight, through /proc."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """Of /proc/<pid>/stat: state letter, process group, session, start in ticks since boot. And
    whose it is."""

    pid: int
    state: str
    group: int
    session: int
    start_time: int
    user: int


@dataclass(frozen=True)
class Family:
    """How a run's processes are known.

    `marks` are NAME=value entries of the environment that only this run has, inherited by all it
    starts. `leader` is the process that was started, with its start time: a number alone may
    have been given to another process since. `directory` is where the run works and writes. `user`
    is one that only this run has.
    """

    marks: frozenset[bytes]
    directory: Path
    leader: int | None = None
    leader_start: int | None = None
    user: int | None = None


@cache
def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


def read_process(pid: int) -> Process | None:
    """None if there is no such process; a dead one that nobody waited for has state Z."""
    stat = PROC / str(pid) / "stat"
    try:
        text, user = stat.read_text("utf-8", "replace"), stat.stat().st_uid
    except OSError:
        return None
    # The name in brackets may hold spaces and brackets itself: the fields begin after the last.
    fields = text.rpartition(")")[2].split()
    return Process(pid, fields[0], int(fields[2]), int(fields[3]), int(fields[19]), user)


class Snapshot:
    """The living processes of this user and of others at one moment, to be asked about many
    families."""

    def __init__(self, others: Iterable[int | None] = ()) -> None:
        self._processes = list(_processes_of({os.geteuid(), *others}))
        self._environs: dict[int, frozenset[bytes]] = {}

    def members(self, family: Family) -> list[int]:
        """Those that carry the family's marks or are its user's, and all of the leader's group and
        session.

        While the leader runs or was not yet waited for, their number is its own; later only those
        count that also work or write in the run's directory.
        """
        leader = None if family.leader is None else read_process(family.leader)
        known = leader is not None and leader.start_time == family.leader_start
        group = family.leader if known or leader is None else None

        def related(process: Process) -> bool:
            in_group = group is not None and group in {process.group, process.session}
            return in_group and (known or _is_at(process.pid, family.directory))

        return [
            each.pid
            for each in self._processes
            if each.user == family.user or family.marks <= self._environ(each.pid) or related(each)
        ]

    def _environ(self, pid: int) -> frozenset[bytes]:
        if pid not in self._environs:
            self._environs[pid] = _environ(pid)
        return self._environs[pid]


def kill(family: Family) -> bool:
    """SIGKILL to every member; True if none was left."""
    found = Snapshot([family.user]).members(family)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not found


def kill_and_wait(family: Family, patience: float) -> bool:
    """Kills until none is left, for at most `patience` seconds; True if none is left."""
    until = time.monotonic() + patience
    while not kill(family):
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def memory_used(pids: list[int], limit: int) -> int:
    """Bytes of memory that the processes hold together.

    The sum of resident sizes counts a shared page once for each process, so it only clears: past
    `limit` the proportional sizes decide, which are exact but slow to get.
    """
    resident = sum(_resident(pid) for pid in pids)
    return resident if resident <= limit else sum(_proportional(pid) for pid in pids)


def _processes_of(users: set[int | None]) -> Iterator[Process]:
    myself = os.getpid()
    for entry in os.scandir(PROC):
        if not entry.name.isdigit() or int(entry.name) == myself:
            continue
        with suppress(OSError):
            if entry.stat().st_uid not in users:
                continue
            process = read_process(int(entry.name))
            if process is not None and process.state not in "ZX":
                yield process


def _environ(pid: int) -> frozenset[bytes]:
    try:
        return frozenset((PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def _is_at(pid: int, directory: Path) -> bool:
    """Whether the process works in the directory, or writes to a file there."""
    for link in ("cwd", "fd/1", "fd/2"):
        with suppress(OSError):
            if (PROC / str(pid) / link).readlink().is_relative_to(directory):
                return True
    return False


def _resident(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text("ascii").split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
