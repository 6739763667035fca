"""Starting one local process that cannot outlive the agent."""

import ctypes
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from executor import descriptors
from executor.drivers.local.isolation import Confined, Isolation
from executor.runs import RunFiles

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl

ADDRESS_FACTOR = 4
ADDRESS_SLACK = 8 * 1024**3


class StartFailedError(Exception):
    """`reason` is Kubernetes' word for this kind of failure; the text is for the session's user."""

    def __init__(self, reason: str, message: str):
        self.reason = reason
        super().__init__(message)


def die_with_parent(death_signal: signal.Signals) -> None:
    """This process gets the signal when the thread that started it ends."""
    _prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


def spawn(
    command: Sequence[str],
    environ: Mapping[str, str],
    files: RunFiles,
    memory: int | None,
    isolation: Isolation | None,
) -> subprocess.Popen[bytes]:
    """Runs the command in its own session, in its run's directory, writing to its output file.

    To be called from a thread that lives as long as the agent. Raises `StartFailedError`.

    The last steps run in the forked child, where only the forking thread exists and a lock that
    another held is never released. They are safe there as they take none: foreign calls, system
    calls, no import. A wrapper program instead would be one more thing to install, and Python as
    the wrapper costs ten times the fork.
    """
    if not command:
        raise StartFailedError("StartError", "the session has no command")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with ExitStack() as open_until_started:
        try:
            files.make_places()
            confined = Confined()
            if isolation is not None:
                confined = open_until_started.enter_context(isolation.confined(files))
            output = os.open(files.output, flags, 0o600)
        except OSError as error:
            raise StartFailedError("StartError", f"no place for its files: {error}") from error
        open_until_started.callback(os.close, output)
        try:
            return subprocess.Popen(
                list(command),
                cwd=files.work,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # Before the last steps: the kernel forgets the parent-death signal with it.
                user=confined.user,
                group=confined.user,
                extra_groups=None if confined.user is None else [],
                preexec_fn=_last_steps(os.getpid(), _address_space(memory), confined),  # noqa: PLW1509
            )
        except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
            raise _explained(error, command[0]) from error


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
    """A far bound that stops a runaway between two looks at what it really uses.

    It counts what is reserved, not what is used, and garbage-collected runtimes reserve many
    times what they need: a tight bound would break honest programs. The limit itself is kept by
    measuring.
    """
    if memory is None:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    # No bound can be larger than what fits into a signed number.
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
