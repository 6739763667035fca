"""What a run can try against the agent and another run. It prints the names of what it could do.

A run executes this file: `attacks.py AGENT VICTIM STATE OTHER NEW`. AGENT and VICTIM are process
numbers, STATE is the agent's directory, OTHER the one of another run, NEW a name for a new file. It
uses Python's own library only. No attempt but those that end a process changes anything that stays.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
PIDFD_SEND_SIGNAL, PIDFD_GETFD = 424, 438
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.ptrace.restype = ctypes.c_long
BY_NUMBER = {
    "x86_64": {"ioprio_set": 251, "keyctl": 250, "kcmp": 312},
    "aarch64": {"ioprio_set": 30, "keyctl": 219, "kcmp": 272},
}[platform.machine()]


def call(number: int, *arguments: object) -> None:
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    checked(_libc.syscall(ctypes.c_long(number), *given))


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def ptrace(request: int, pid: int) -> None:
    checked(_libc.ptrace(request, pid, None, None))
    os.waitpid(pid, 0)
    _libc.ptrace(17, pid, None, None)


def read_memory(pid: int) -> None:
    buffer = ctypes.create_string_buffer(8)
    iovec = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    first = int(Path(f"/proc/{pid}/maps").read_text().partition("-")[0], 16)
    remote = (ctypes.c_void_p * 2)(first, 8)
    checked(_libc.process_vm_readv(pid, iovec, 1, remote, 1, 0))


def limit_as_32_bit(pid: int) -> None:
    """`prlimit64` through the entry of i386, which has other numbers."""
    if platform.machine() != "x86_64":
        raise OSError
    limits = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)  # below 4 GB
    limits.write((0).to_bytes(8, "little") * 2)
    place = ctypes.addressof(ctypes.c_char.from_buffer(limits))
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(
        b"\x53"  # push rbx
         b"\xb8" + (340).to_bytes(4, "little")  # eax: the call
        + b"\xbb" + pid.to_bytes(4, "little")  # ebx: whose
        + b"\xb9" + resource.RLIMIT_CORE.to_bytes(4, "little")  # ecx: which
        + b"\xba" + place.to_bytes(4, "little")  # edx: the new one
        + b"\x31\xf6\xcd\x80\x5b\xc3"  # esi: none; int 0x80; pop rbx; ret
    )  # fmt: skip
    entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    if (result := entry()) < 0:
        raise OSError(-result, os.strerror(-result))


def through_pidfd(pid: int, act: Callable[[int], object]) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        act(descriptor)
    finally:
        os.close(descriptor)


def end_of(pid: int) -> None:
    """Seeing another process end tells nothing that /proc does not; taking its status would."""
    through_pidfd(pid, lambda fd: os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG))


def watch(path: Path) -> None:
    watcher = _libc.inotify_init1(0)
    checked(_libc.inotify_add_watch(watcher, os.fsencode(path), 0xFFF))
    os.close(watcher)


def on_files(state: Path, other: Path, new: str) -> dict[str, Callable[[], object]]:
    mine, file = Path(new), other / "work" / "file"
    mine.write_text("mine")
    return {
        "modes of the state": lambda: state.chmod(0o700),
        "modes of its runs": lambda: (state / "runs").chmod(0o700),
        "modes of a record": lambda: (state / "id").chmod(0o600),
        "modes of the token": lambda: (state.parent / "token").chmod(0o600),
        "modes of another run": lambda: (other / "work").chmod(0o700),
        "modes of another run's file": lambda: file.chmod(0o644),
        "modes of its own record": lambda: Path("../run.json").chmod(0o600),
        "modes by the way up": lambda: Path("../../../id").chmod(0o600),
        "owner": lambda: os.chown(state / "id", os.getuid(), os.getgid()),
        "owner of a link": lambda: os.lchown(file, os.getuid(), os.getgid()),
        "times": lambda: os.utime(state / "id"),
        "times of another run": lambda: os.utime(file, (0, 0)),
        "attributes": lambda: os.setxattr(state, "user.mine", b"1"),
        "attributes of another run": lambda: os.setxattr(file, "user.mine", b"1"),
        "to rename": lambda: (state / "id").rename(state / "other"),
        "to rename away": lambda: file.rename(mine),
        "to rename over": lambda: mine.rename(file),
        "to remove": (state / "boot").unlink,
        "to remove a directory": (other / "tmp").rmdir,
        "to make a directory": (state / "mine").mkdir,
        "to link": lambda: os.link(state / "id", "linked"),
        "to make a link": lambda: (state / "link").symlink_to("/etc"),
        "to make a fifo": lambda: os.mkfifo(state / "fifo"),
        "to bind a socket": lambda: bind(state / "socket"),
        "to list": lambda: list(state.iterdir()),
        "to list another run": lambda: list((other / "work").iterdir()),
        "to open": lambda: os.open(state / "id", os.O_RDONLY),
        "to truncate": lambda: os.truncate(file, 0),
        "to lock": lambda: lock(state / "lock"),
    }


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def lock(path: Path) -> None:
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def on_processes(pid: int) -> dict[str, Callable[[], object]]:
    names = BY_NUMBER
    return {
        "signal 0": lambda: os.kill(pid, 0),
        "to stop it": lambda: os.kill(pid, signal.SIGSTOP),
        "to kill it": lambda: os.kill(pid, signal.SIGKILL),
        "to kill its group": lambda: os.killpg(os.getpgid(pid), signal.SIGKILL),
        "a signal by pidfd": lambda: through_pidfd(
            pid, lambda fd: call(PIDFD_SEND_SIGNAL, fd, int(signal.SIGCONT), None, 0)
        ),
        "a descriptor by pidfd": lambda: through_pidfd(pid, lambda fd: call(PIDFD_GETFD, fd, 0, 0)),
        "its end": lambda: end_of(pid),
        "ptrace": lambda: ptrace(PTRACE_ATTACH, pid),
        "ptrace, seized": lambda: ptrace(PTRACE_SEIZE, pid),
        "process_vm_readv": lambda: read_memory(pid),
        "its memory": lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY)),
        "its environment": lambda: Path(f"/proc/{pid}/environ").read_bytes(),
        "its descriptors": Path(f"/proc/{pid}/fd/0").readlink,
        "its root": lambda: list(Path(f"/proc/{pid}/root").iterdir()),
        "its directory": Path(f"/proc/{pid}/cwd").readlink,
        "its namespaces": Path(f"/proc/{pid}/ns/mnt").readlink,
        "its value for the OOM killer": lambda: write(f"/proc/{pid}/oom_score_adj", "1000"),
        "its core dumps": lambda: write(f"/proc/{pid}/coredump_filter", "ff"),
        "kcmp": lambda: call(names["kcmp"], pid, os.getpid(), 1, 0, 0),
        "a limit": lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)),
        "a limit, as 32 bits": lambda: limit_as_32_bit(pid),
        "to limit its CPU time": lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)),
        "its processors": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "its scheduling": lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        "its priority": lambda: same_priority(os.PRIO_PROCESS, pid),
        "its group's priority": lambda: same_priority(os.PRIO_PGRP, os.getpgid(pid)),
        "its priority on disk": lambda: call(names["ioprio_set"], 1, pid, 2 << 13 | 7),
    }


def on_the_user() -> dict[str, Callable[[], object]]:
    """What reaches all processes of a user, and its keys. These are refused, or stay in here."""
    return {
        "its keys": lambda: call(BY_NUMBER["keyctl"], 0, -4, 1),
        "its session's keys": lambda: call(BY_NUMBER["keyctl"], 0, -3, 0),
    }


def same_priority(kind: int, number: int) -> None:
    """Whoever may set this may also set a lower one."""
    os.setpriority(kind, number, os.getpriority(kind, number))


def write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)


def main() -> None:
    agent, victim, state, other, new = sys.argv[1:]
    if min(int(agent), int(victim)) < 10:
        sys.exit("these are processes of the system, not an agent's")
    attempts = {
        f"file: {name}": each for name, each in on_files(Path(state), Path(other), new).items()
    }
    for whom, pid in (("agent", agent), ("run", victim)):
        attempts |= {f"{whom}: {name}": each for name, each in on_processes(int(pid)).items()}
    attempts |= {f"user: {name}": each for name, each in on_the_user().items()}
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, ValueError):
            continue
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
    sys.stdout.write("that was all\n")


if __name__ == "__main__":
    main()
