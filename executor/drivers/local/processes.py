"""Finds every process of a run through /proc, whatever the process did to hide."""

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")
DEAD = "ZX"
"""The states of processes that have ended, though nobody waited for them yet."""


@dataclass(frozen=True)
class Process:
    """A process, as /proc/<pid>/stat shows it.

    It has the state letter, parent, process group, session, start in ticks since boot, and the user
    id.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_time: int
    user: int


@dataclass(frozen=True)
class Family:
    """The marks by which a run's processes are found.

    `marks` are NAME=value entries of the environment that only this run has; all its processes
    inherit them. `leader` is the process that was started, with its start time, because its number
    may be reused. `directory` is where the run works and writes. `user` is one that only this run
    has. `keeper` is the first process of a namespace that only this run has, with its start time:
    the others end with it.
    """

    marks: frozenset[bytes]
    directory: Path
    leader: int | None = None
    leader_start: int | None = None
    user: int | None = None
    keeper: int | None = None
    keeper_start: int | None = None


def read_process(pid: int) -> Process | None:
    """Return the process, or None if there is none.

    A dead one that was not waited for has state Z.
    """
    place = PROC / str(pid)
    try:
        text = (place / "stat").read_text("utf-8", "replace")
        # The files inside belong to root as soon as a process forbids others to look at it.
        user = place.stat().st_uid
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses, so the fields begin after the last.
    fields = text.rpartition(")")[2].split()
    parent, group, session = map(int, fields[1:4])
    return Process(pid, fields[0], parent, group, session, int(fields[19]), user)


def start_time(pid: int | None) -> int | None:
    """Return when the process started, in ticks since boot; None if there is none."""
    process = None if pid is None else read_process(pid)
    return None if process is None else process.start_time


class Snapshot:
    """The living processes of this user and of others at one moment.

    One snapshot serves many families.
    """

    def __init__(self, others: Iterable[int | None] = ()) -> None:
        found = list(_processes_of({os.geteuid(), *others}))
        self._processes = [each for each in found if each.state not in DEAD]
        self._children = [each for each in found if each.parent == os.getpid()]
        self._environs: dict[int, frozenset[bytes]] = {}
        self._mounts: dict[int, str] = {}

    def members(self, family: Family) -> list[int]:
        """Return the processes of a family: by its namespace, or by its marks, its user, or the
        leader's group and session.

        While the leader runs or was not yet waited for, the number of the group is its own. After
        that, a member of the group counts only if it also works or writes in the run's directory.
        """
        if family.keeper is not None:
            return self._inside(family.keeper)
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

    def orphans(self, leaders: Collection[int]) -> list[int]:
        """Return the living children of this process but the leaders, and reap the dead ones."""
        orphans = [each for each in self._children if each.pid not in leaders]
        for each in orphans:
            if each.state in DEAD:
                os.waitpid(each.pid, os.WNOHANG)
        return [each.pid for each in orphans if each.state not in DEAD]

    def _inside(self, keeper: int) -> list[int]:
        """Return the processes that share the mounts of the keeper of a namespace, without it."""
        for each in self._processes:
            if each.pid not in self._mounts:
                self._mounts[each.pid] = _mounts(each.pid)
        shared = self._mounts.get(keeper)
        inside = {pid for pid, mounts in self._mounts.items() if shared and mounts == shared}
        return list(inside - {keeper})

    def _environ(self, pid: int) -> frozenset[bytes]:
        if pid not in self._environs:
            self._environs[pid] = _environ(pid)
        return self._environs[pid]


def kill(family: Family, leaders: Collection[int] | None = None) -> bool:
    """Send SIGKILL to every member. Return whether none was left.

    `leaders` are the processes of runs that this process waits for. If they are given, its other
    children end, too: a run adopts its own orphans while it lives, so runs that ended left them.
    """
    if family.keeper is None:
        snapshot = Snapshot([family.user])
        found = snapshot.members(family)
        if leaders is not None:
            found += snapshot.orphans(leaders)
    else:
        found = [family.keeper] if _lives(family.keeper, family.keeper_start) else []
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not found


def kill_and_wait(family: Family, seconds: float) -> bool:
    """Kill until no member is left, for at most `seconds`. Return whether none is left."""
    until = time.monotonic() + seconds
    while not kill(family):
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def memory_used(pids: list[int], limit: int) -> int:
    """Return the bytes of memory that the processes hold together.

    The sum of resident sizes counts a shared page once per process, so it can only prove that they
    are below `limit`. Above it, the proportional sizes decide, which are exact but slow to read.
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
            if process is not None:
                yield process


def _lives(pid: int, start: int | None) -> bool:
    process = read_process(pid)
    return process is not None and process.state not in DEAD and process.start_time == start


def _mounts(pid: int) -> str:
    """Return which mounts the process has; "" if it is about to end."""
    try:
        return str((PROC / str(pid) / "ns/mnt").readlink())
    except OSError:
        return ""


def _environ(pid: int) -> frozenset[bytes]:
    try:
        return frozenset((PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def _is_at(pid: int, directory: Path) -> bool:
    """Return whether the process works in the directory or writes to a file there."""
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
