"""Namespaces: a run gets processes and mounts of its own, without the help of root.

There, all mounts but the run's own are read-only, so no file outside can get other modes, times or
owners. And no process outside has a number that a call could name. Calls of the kernel that libc
lacks are made by their numbers, which are the same on every architecture.
"""

import ctypes
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_NEW_USER, _NEW_MOUNTS, _NEW_PROCESSES, _NEW_IPC = 0x10000000, 0x20000, 0x20000000, 0x8000000
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_TREE_CLONE = 1
_FROM_DESCRIPTOR = 0x4
_READ_ONLY = 1
_PRIVATE = 1 << 18
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def adopt_orphans() -> None:
    """Make this process, and the program that it becomes, the parent of orphans below it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Keeper:
    """What keeps the namespaces of runs alive: for each, a first process that does nothing.

    It reads from a pipe that nobody writes to, and ends when this process does, however that ends.
    With it, the kernel ends every process of its namespace.
    """

    def __init__(self) -> None:
        self._program = shutil.which("cat", path=os.defpath)
        self._read, self._held = os.pipe()

    @contextmanager
    def enclosure(self, work: Path, writable: Sequence[Path]) -> Iterator["Enclosure"]:
        """Yield a way into new namespaces: there one works in `work` and writes to `writable`."""
        reads, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            yield Enclosure(self, work, writable, reads, told)
        finally:
            os.close(reads)
            os.close(told)

    def start(self) -> int:
        """Return the number of a new one. The caller ignores SIGCHLD, so it reaps its orphans.

        Raises `OSError`.
        """
        if self._program is None:
            raise FileNotFoundError("cat")
        return os.posix_spawn(
            self._program,
            ["cat"],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self._read, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )


@dataclass(frozen=True)
class Enclosure:
    """How a run's first process gets into namespaces of its own.

    `told` carries the numbers of the keeper and of the run's first process to `reads`.
    """

    keeper: Keeper
    work: Path
    writable: Sequence[Path]
    reads: int
    told: int

    def enter(self) -> None:
        """Continue as a child in new namespaces; the process itself ends.

        It takes no lock, so it is safe after a fork. Raises `OSError`.
        """
        _unshare()
        os.chdir("/")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        keeper = self.keeper.start()
        # A process that ignores it would take the exit code of the run along.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            leader = os.fork()
        except OSError:
            os.kill(keeper, signal.SIGKILL)
            raise
        if leader:
            os.write(self.told, b"%d %d" % (keeper, leader))
            os._exit(0)
        os.setsid()
        _close_mounts(self.writable)
        # Not where the process was: there the way up leads to mounts that may be written.
        os.chdir(self.work)

    def inside(self) -> tuple[int, int] | None:
        """Return the numbers of the keeper and of the run's first process; None before `enter`."""
        with suppress(BlockingIOError):
            keeper, leader = map(int, os.read(self.reads, 64).split())
            return keeper, leader
        return None

    def give_up(self) -> None:
        """End what has entered, if anything has, and wait for it."""
        if (entered := self.inside()) is not None:
            keeper, leader = entered
            os.kill(keeper, signal.SIGKILL)
            os.waitpid(leader, 0)
            os.waitpid(keeper, 0)


def _unshare() -> None:
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_PROCESSES | _NEW_IPC))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    # A namespace inside would give the run rights that kernels guard less well. Where it cannot be
    # forbidden, they still reach nothing outside.
    with suppress(OSError):
        _write("/proc/sys/user/max_user_namespaces", "0")


def _close_mounts(writable: Sequence[Path]) -> None:
    """Make all mounts read-only but these, and let /proc show this namespace's processes."""
    trees = []
    for path in writable:
        with suppress(FileNotFoundError):
            flags = _TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
            trees.append((_syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags), path))
    _checked(_libc.mount(b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None))
    closed = _MountAttributes(attr_set=_READ_ONLY, propagation=_PRIVATE)
    size = ctypes.sizeof(closed)
    _syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, ctypes.byref(closed), size)
    for tree, path in trees:
        _syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _FROM_DESCRIPTOR)
        os.close(tree)


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode("ascii"))
    finally:
        os.close(file)


def _syscall(number: int, *arguments: object) -> int:
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(int(_libc.syscall(ctypes.c_long(number), *given)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
