"""Starts a local process that cannot outlive the agent."""

import ctypes
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from executor import descriptors
from executor.drivers.local.isolation import Confined, Isolation
from executor.modes import insist
from executor.runs import RunFiles

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl

ADDRESS_FACTOR = 4
ADDRESS_SLACK = 8 * 1024**3


class StartFailedError(Exception):
    """The process could not be started.

    `reason` is Kubernetes' word for this kind of failure. The text is for the session's user.
    """

    def __init__(self, reason: str, message: str):
        self.reason = reason
        super().__init__(message)


def die_with_parent(death_signal: signal.Signals) -> None:
    """Make the kernel send this process the signal when the thread that started it ends."""
    _prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


class Started:
    """A process that was started: the leader of its run, with the number `pid`.

    `keeper` is the number of the first process of its namespace, if it has one.
    """

    def __init__(self, process: subprocess.Popen[bytes], inside: tuple[int, int] | None):
        self._process = process
        self._code: int | None = None
        self.keeper: int | None
        self.keeper, self.pid = inside or (None, process.pid)
        if self.keeper is not None:
            # It made the namespace and has ended, so this process has adopted what is in there.
            process.wait()

    def ended(self, *, gone: bool) -> int | None:
        """Return the exit code, negative for a signal, once it has ended and its run is `gone`."""
        if self.keeper is None:
            return self._process.wait() if gone else None
        if self._code is None:
            # The keeper cannot end before, as every process inside must be waited for.
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        if self._code is None or not gone:
            return None
        os.waitpid(self.keeper, 0)
        return self._code


def spawn(
    command: Sequence[str],
    environ: Mapping[str, str],
    files: RunFiles,
    memory: int | None,
    isolation: Isolation | None,
) -> Started:
    """Run the command in its own session and in its run's directory; it writes to its output file.

    Call this from a thread that lives as long as the agent. Raises `StartFailedError`.

    The last steps run in the forked child, where only the forking thread exists, and a lock that
    another thread held is never released. They are safe because they take no lock: they make only
    foreign calls and system calls, and import nothing. A wrapper program would be one more thing to
    install, and a wrapper in Python would cost ten times the fork.
    """
    if not command:
        raise StartFailedError("StartError", "the session has no command")
    with ExitStack() as open_until_started:
        confined, output = _made(files, isolation, open_until_started)
        try:
            process = subprocess.Popen(
                list(command),
                cwd=files.work,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # A new user id must be set before the last steps, because it clears the
                # parent-death signal.
                user=confined.user,
                group=confined.user,
                extra_groups=None if confined.user is None else [],
                preexec_fn=_last_steps(os.getpid(), _address_space(memory), confined),  # noqa: PLW1509
            )
        except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
            if confined.enclosure is not None:
                confined.enclosure.give_up()
            raise _explained(error, command[0]) from error
        return Started(process, confined.enclosure.inside() if confined.enclosure else None)


def _made(
    files: RunFiles, isolation: Isolation | None, open_until_started: ExitStack
) -> tuple[Confined, int]:
    """Make the run's directories. Return its confinement and the descriptor of its output file.

    Raises `StartFailedError`.
    """
    try:
        return insist(files.output, partial(_places, files, isolation, open_until_started))
    except OSError as error:
        raise StartFailedError("StartError", f"cannot create its files: {error}") from error


def _places(
    files: RunFiles, isolation: Isolation | None, open_until_started: ExitStack
) -> tuple[Confined, int]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    files.make_places()
    confined = Confined()
    if isolation is not None:
        confined = open_until_started.enter_context(isolation.confined(files))
    output = os.open(files.output, flags, 0o600)
    open_until_started.callback(os.close, output)
    return confined, output


def _last_steps(
    agent: int, address_space: tuple[int, int] | None, confined: Confined
) -> Callable[[], None]:
    files = descriptors.limit_of_runs()

    def steps() -> None:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != agent:
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        if address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, address_space)
        confined.apply()

    return steps


def _address_space(memory: int | None) -> tuple[int, int] | None:
    """Return a generous limit that stops a runaway between two measurements of its memory.

    It counts reserved memory, not used memory. Runtimes with garbage collection reserve many times
    what they need, so a tight limit would break honest programs. The real limit is enforced by
    measuring.
    """
    if memory is None:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    # The limit must fit into a signed number.
    bound = min(memory * ADDRESS_FACTOR + ADDRESS_SLACK, sys.maxsize)
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    return bound, bound


def _explained(error: Exception, program: str) -> StartFailedError:
    if isinstance(error, FileNotFoundError):
        where = "" if "/" in program else " in PATH"
        text = f"{program!r} was not found{where}; a script's interpreter may be what is missing"
        return StartFailedError("StartError", text)
    if isinstance(error, PermissionError):
        return StartFailedError("ContainerCannotRun", f"{program!r} may not be executed: {error}")
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        text = f"{program!r} is neither a program nor a script that names its interpreter"
        return StartFailedError("ContainerCannotRun", text)
    return StartFailedError("StartError", f"{program!r} could not be started: {error}")
