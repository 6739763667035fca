"""Isolates local runs from the agent, from each other and from the rest of the machine.

It uses Landlock, and a separate user for each run if the agent is root. If it is not, each run gets
namespaces, where the kernel allows that. Whether all this works is tried at the start, instead of
trusting what the kernel says that it supports.
"""

import logging
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reprise_client.wire import LeaseKey

from executor.config import Isolating
from executor.drivers.local import landlock, seccomp
from executor.drivers.local.namespaces import Enclosure, Keeper, adopt_orphans
from executor.environment import OFF, ON
from executor.runs import RunFiles

log = logging.getLogger(__name__)

SYSTEM = ("/usr", "/bin", "/sbin", "/etc", "/opt", "/proc", "/dev")
PROC = Path("/proc")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
RESOLVER = Path("/etc/resolv.conf")
WALK = 0o711
NOBODYS_NUMBER = 2**22 + 1
"""More than the kernel gives to processes."""

_CANNOT = (
    "read the agent's files and other runs'",
    "empty the agent's files",
    "kill the agent",
    "read the agent's environment",
    "limit the agent so that the kernel kills it",
    "change modes, owners and times of the agent's files and other runs'",
    "lower the priority of the agent and of other runs",
    "not work in its own directory",
    "not be started",
)
"""The faults of an isolation: forbidden things a run can do, or necessary ones it cannot.

The probe returns one bit for each.
"""
_SURVIVED = 0b001100000
"""The agent works on: it takes back what is its own."""
_BROKEN = 0b110000000
_UNRESTRICTED = (
    "isolate_runs is off: whoever may submit sessions acts as this machine's user %s and reads and"
    " writes what that user may, the agent's token among it"
)


class IsolationError(Exception):
    """Runs cannot be isolated as asked. The text says why, and what to do."""


@dataclass(frozen=True)
class Confined:
    """What a process gets before it becomes a run's: a user, Landlock rules, namespaces, if any.

    An isolated one gets the filter of calls.
    """

    user: int | None = None
    rules: int | None = None
    calls: seccomp.Filter | None = None
    enclosure: Enclosure | None = None

    def apply(self) -> None:
        """Put this process under all of it; its user was set before. Raises `OSError`."""
        if self.enclosure is not None:
            self.enclosure.enter()
            if self.rules is not None:
                # This /proc is another one, which the rules do not know yet.
                landlock.allow(self.rules, PROC, landlock.READ)
        else:
            # Without a namespace only the run itself can tell its orphans from those of others.
            adopt_orphans()
        if self.calls is not None:
            landlock.forbid_new_rights()
            self.calls.apply()
        if self.rules is not None:
            landlock.restrict(self.rules)


class Isolation:
    """The limits of runs. Raises `IsolationError` if they cannot be held as `asked`."""

    def __init__(self, asked: Isolating, state_dir: Path, token_file: Path | None):
        self._readable = _readable(asked.readable)
        self._writable = asked.writable
        self._abi = landlock.abi()
        self._calls = seccomp.Filter()
        self._users = asked.users if os.geteuid() == 0 else None
        self._keeper = Keeper() if self._users is None else None
        self._no_namespaces = ""
        self._taken: dict[LeaseKey, int] = {}
        self._next = 0
        _refuse_inside(self._readable, [state_dir, *([token_file] if token_file else [])])
        runs = state_dir / "runs"
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._users is not None:
            _open_way(runs)
            if token_file is not None:
                _refuse_open(token_file)
        adopt_orphans()
        found, problem = _probe(self, runs)
        if found & _BROKEN and self._keeper is not None:
            self._keeper, self._no_namespaces = None, problem
            found, problem = _probe(self, runs)
        self._check_faults(found, asked.mode)

    @contextmanager
    def confined(self, files: RunFiles) -> Iterator[Confined]:
        """Yield what to put the run of these files under.

        Its files exist by then and belong to it.
        """
        user = self._taken.get(files.key)
        for place in (files.output, files.termination_log):
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        if user is not None:
            files.path.chmod(WALK)
            for place in (files.work, files.tmp, files.output, files.termination_log):
                os.chown(place, user, user, follow_symlinks=False)
        with ExitStack() as held:
            rules = enclosure = None
            if self._abi:
                rules = held.enter_context(landlock.ruleset(self._abi, self._allowed(files)))
            if self._keeper is not None:
                writable = (*self._writable, files.work, files.tmp, files.termination_log)
                enclosure = held.enter_context(self._keeper.enclosure(files.work, writable))
            yield Confined(user, rules, self._calls, enclosure)

    def user_for(self, key: LeaseKey) -> int | None:
        """Return the user that only this run has until its release; None for the agent's own.

        Users are given out in turn, so each was unused for as long as possible.
        """
        if self._users is None or key in self._taken:
            return self._taken.get(key)
        taken = set(self._taken.values())
        while (user := self._users[self._next % len(self._users)]) in taken:
            self._next += 1
        self._next += 1
        self._taken[key] = user
        return user

    def release(self, files: RunFiles) -> None:
        """Close the run's directory, as its last process has ended.

        The next run with the same user must not read it.
        """
        if self._users is not None:
            with suppress(OSError):
                files.path.chmod(0o700)
        self._taken.pop(files.key, None)

    def _allowed(self, files: RunFiles) -> dict[Path, int]:
        own = (files.work, files.tmp, files.output, files.termination_log)
        return {
            **dict.fromkeys(self._readable, landlock.READ | landlock.IOCTL_DEV),
            **dict.fromkeys(map(Path, DEVICES), landlock.READ_FILE | landlock.WRITE_FILE),
            **dict.fromkeys((*self._writable, *own), landlock.EVERYTHING),
        }

    def _check_faults(self, found: int, mode: str) -> None:
        kernel = f"Landlock version {self._abi}" if self._abi else "no Landlock"
        if self._users is None and self._keeper is None:
            kernel += f" and no namespaces ({self._no_namespaces})"
        can = ", ".join(text for bit, text in enumerate(_CANNOT) if found >> bit & 1)
        if found & _BROKEN:
            raise IsolationError(
                f"isolate_runs: with users {self._users} and {kernel} a run could {can}: give"
                " --run-users that this machine has, or --isolate-runs off"
                if self._users
                else f"isolate_runs: with {kernel} a run could {can}: use --isolate-runs off"
            )
        if found & ~_SURVIVED and mode == ON:
            raise IsolationError(
                f"isolate_runs: with {kernel} a run could {can}. Use Linux 6.12 or newer,"
                " or allow user namespaces, or start the agent as root, which gives each run a user"
                " of its own. Or choose partial isolation with --isolate-runs partly, or none with"
                " off"
            )
        if found:
            log.warning("isolate_runs: with %s a run can %s", kernel, can)
        if self._users is None and self._keeper is None:
            log.warning(
                "isolate_runs: without namespaces, what a run leaves behind can outlive an agent"
                " that is killed"
            )
        if not self._abi:
            log.warning(
                "isolate_runs: without Landlock a run may use every file that all users may use"
            )
        own = " and a user for each run" if self._users else " and namespaces"
        log.info("runs are isolated by %s%s", kernel, own if self._users or self._keeper else "")


def isolation(asked: Isolating, state_dir: Path, token_file: Path | None) -> Isolation | None:
    """Return what isolates runs; None, after a warning, if isolation is off."""
    if asked.mode != OFF:
        return Isolation(asked, state_dir, token_file)
    log.warning(_UNRESTRICTED, os.geteuid())
    return None


def _readable(named: Sequence[Path]) -> tuple[Path, ...]:
    system = [Path(each) for each in SYSTEM]
    interpreter = [Path(sys.prefix), Path(sys.base_prefix)]
    return (*system, *Path("/").glob("lib*"), *interpreter, *_resolver(), *named)


def _resolver() -> list[Path]:
    """Return the directory of the resolver's configuration if it is outside of /etc.

    It is the directory because the file may be replaced while a run lives.
    """
    target = RESOLVER.resolve()
    inside = target.is_relative_to("/etc") or not target.exists()
    return [] if inside or len(target.parents) < 3 else [target.parent]


def _refuse_inside(readable: Sequence[Path], secrets: Sequence[Path]) -> None:
    for secret in secrets:
        for path in readable:
            if secret.resolve().is_relative_to(path.resolve()):
                raise IsolationError(
                    f"isolate_runs: runs may read {path}, and {secret} is inside of it: choose"
                    " another directory for that, or take the path out of REPRISE_LOCAL_PATHS if it"
                    " is named there"
                )


def _open_way(runs: Path) -> None:
    """Let the users of runs walk to their directories. Raises `IsolationError`."""
    for ours in (runs, runs.parent):
        ours.chmod(WALK)
    for directory in runs.parent.parents:
        if not directory.stat().st_mode & 0o001:
            raise IsolationError(
                f"isolate_runs: the users of runs cannot enter {directory}: allow it"
                f" (chmod o+x {directory}), or choose another --state-dir"
            )


def _refuse_open(token_file: Path) -> None:
    with suppress(FileNotFoundError):
        if token_file.stat().st_mode & 0o006:
            raise IsolationError(
                f"isolate_runs: every user may read {token_file}: chmod o-rwx {token_file}"
            )


def _probe(isolation: Isolation, runs: Path) -> tuple[int, str]:
    """Return what a process confined like a run could do, as the bits of `_CANNOT`.

    If it cannot be started, the text says why.
    """
    place = Path(tempfile.mkdtemp(prefix="probe-", dir=runs))
    descriptor, name = tempfile.mkstemp(dir=place)
    os.close(descriptor)
    files = RunFiles(LeaseKey("probe", 0), place)
    answer, told = os.pipe()
    try:
        isolation.user_for(files.key)
        files.make_places()
        with isolation.confined(files) as confined:
            child = os.fork()
            if child == 0:
                _try(confined, files, Path(name), told)
            os.close(told)
            os.waitpid(child, 0)
            with os.fdopen(answer, "rb") as reader:
                found, _, problem = reader.read().decode().partition(" ")
            if confined.enclosure is not None:
                confined.enclosure.give_up()
        return int(found or _BROKEN), problem
    except OSError as error:
        raise IsolationError(f"isolate_runs: cannot test the isolation: {error}") from error
    finally:
        isolation.release(files)
        shutil.rmtree(place, ignore_errors=True)


def _try(confined: Confined, files: RunFiles, secret: Path, told: int) -> None:
    try:
        os.chdir(files.work)
        if confined.user is not None:
            os.setgroups([])
            os.setresgid(confined.user, confined.user, confined.user)
            os.setresuid(confined.user, confined.user, confined.user)
        confined.apply()
    except OSError as error:
        os.write(told, f"{_BROKEN} {error.strerror}".encode())
        os._exit(1)
    # In a namespace the parent has no number, so there is nobody that could be named.
    agent = os.getppid() or NOBODYS_NUMBER
    tries: tuple[Callable[[], object], ...] = (
        secret.read_bytes,
        lambda: os.truncate(secret, 0),
        lambda: os.kill(agent, 0),
        Path(f"/proc/{agent}/environ").read_bytes,
        lambda: resource.prlimit(agent, resource.RLIMIT_CORE, (0, 0)),
        lambda: secret.chmod(0o600),
        lambda: os.setpriority(os.PRIO_PROCESS, agent, os.getpriority(os.PRIO_PROCESS, agent)),
        lambda: not _works(files),
    )
    found = sum(1 << bit for bit, each in enumerate(tries) if _done(each))
    os.write(told, str(found).encode())
    os._exit(0)


def _done(attempt: Callable[[], object]) -> bool:
    try:
        return attempt() is not False
    except OSError:
        return False


def _works(files: RunFiles) -> bool:
    try:
        (files.work / "file").write_text("mine")
        with Path("/dev/null").open("w") as null:
            null.write("nothing")
        (PROC / "self" / "status").read_bytes()
    except OSError:
        return False
    return True
