"""A standalone server as a child process, and what tests need to talk to it and to judge it."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, Any, Protocol, Self

from reprise_client import Attempt, Client, Session
from reprise_client.errors import RepriseError

from reprise.standalone.postgres import EmbeddedPostgres
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]
SHOWN_CHARACTERS = 4_000
# Everything is loaded once: a check is a fork, not a start.
_CHECKS = """
import django, json, os, sys
django.setup()
from reprise.standalone.configuration import use_database
from tests.invariants import check_all
for url in sys.stdin:
    child = os.fork()
    if not child:
        use_database(url.strip())
        print(json.dumps(check_all()), flush=True)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def given_seconds() -> float:
    """A clock that stands still while the host gives all of this machine's processors to others.

    For what is held to a time: a virtual machine that is robbed of its processors is no fault of
    the server's. The eighth figure of ``cpu`` in proc(5) is what was stolen, in ticks.
    """
    stolen = int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - stolen / (os.cpu_count() or 1)


def clean_environ(**more: str) -> dict[str, str]:
    """This process's environment without what would point Reprise at another place."""
    ours = ("DATABASE_URL", "BROKER_URL")
    kept = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith("REPRISE_")}
    return {**kept, "PYTHONFAULTHANDLER": "1", **more}


class Started(Protocol):
    """What `subprocess.Popen` offers for a process that has been started."""

    @property
    def pid(self) -> int: ...

    @property
    def args(self) -> Any: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


Starts = Callable[[IO[bytes], IO[bytes]], Started]
"""Starts a process with these files for its output and its errors."""


class Program:
    """A process in a process group of its own, with its output kept."""

    def __init__(self, starts: Starts | Sequence[str], **environ: str):
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `reap`
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        start = starts if callable(starts) else _new(starts, environ)
        self.process = start(self._out, self._err)
        self._printed: tuple[str, str] | None = None

    @property
    def printed(self) -> tuple[str, str]:
        """Return its standard output and its standard error so far."""
        return self._printed or (_read(self._out.fileno()), _read(self._err.fileno()))

    @property
    def stdout(self) -> str:
        return self.printed[0]

    @property
    def stderr(self) -> str:
        return self.printed[1]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        if not self.alive:
            return
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def reap(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code, once it has ended by itself; fails with its stacks if it does not."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise AssertionError(f"has not ended within {seconds:g} s: {self.stderr}") from None
        if self._printed is None:
            self._printed = self.printed
            self._out.close()
            self._err.close()
        return code

    def kill(self) -> None:
        """End it and its whole group at once. A test that fails shows the end of its log."""
        self.signal(signal.SIGKILL, group=True)
        self.reap()
        sys.stdout.write(f"{self.process.args!r}\n{self.stderr[-SHOWN_CHARACTERS:]}\n")


def _new(command: Sequence[str], environ: dict[str, str]) -> Starts:
    def start(out: IO[bytes], err: IO[bytes]) -> Started:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=clean_environ(**environ),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    return start


def _read(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


class Standalone:
    """`reprise-server standalone` on one data directory; has one life after the other.

    `server` is how to run it, such as with somebody else's interpreter. One process answers unless
    `options` want more: what is stopped and killed here is the same on every machine.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        server: Sequence[str] = (sys.executable, "manage.py"),
        options: Sequence[str] = ("--port", "0"),
    ):
        self.data_dir = data_dir
        self.command = [
            *(*server, "standalone", "--data-dir", str(data_dir)),
            *("--web-processes", "1", *options),
        ]
        self._program: Program | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._program is not None:
            self.kill()

    @property
    def program(self) -> Program:
        """Its present life, or the last one."""
        assert self._program is not None
        return self._program

    def spawn(self, **environ: str) -> Program:
        """Begin a life without waiting for anything."""
        self._program = Program(self.command, **environ)
        return self._program

    def start(self, **environ: str) -> float:
        """Begin a life and wait until it says that it is ready; the seconds that took."""
        began = given_seconds()
        program = self.spawn(**environ)
        until(lambda: "is ready at" in program.stdout or not program.alive, "ready")
        assert program.alive, program.stderr
        return given_seconds() - began

    def stop(self, number: signal.Signals = signal.SIGTERM, *, group: bool = False) -> float:
        """Ask it to stop and wait until it has; the seconds that took."""
        self._disconnect()
        began = given_seconds()
        self.program.signal(number, group=group)
        assert self.program.reap() == 0, self.program.stderr
        return given_seconds() - began

    def kill(self) -> None:
        """kill -9 of its whole process group, and of nothing else."""
        self._disconnect()
        self.program.kill()

    def await_death(self) -> None:
        """Wait until it has died of itself, and let nothing of its group survive."""
        pid = self.program.process.pid
        self._disconnect()
        self.program.reap()
        for process in processes_of(self.data_dir):
            if process.group == pid:
                os.kill(process.pid, signal.SIGKILL)

    @property
    def credentials(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data_dir / "credentials.json").read_text())
        return found

    @property
    def client(self) -> Client:
        """A cluster admin's client of the present life."""
        if self._client is None:
            credentials = self.credentials
            self._client = Client(credentials["url"], credentials["token"], credentials["project"])
        return self._client

    @property
    def database_url(self) -> str:
        return EmbeddedPostgres(self.data_dir).url

    def violations(self) -> list[str]:
        """Return all violations in the whole database. Ask when nothing moves."""
        return check_database(self.database_url)

    def agent_pid(self) -> int | None:
        """The local executor's process, if it runs."""
        found = [p.pid for p in processes_of(self.data_dir) if b"\0executor\0" in p.command]
        return found[0] if found else None

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class _Checker:
    """A process that checks databases, for as long as this one lives."""

    def __init__(self) -> None:
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115  # its end is this process's
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _CHECKS],
            cwd=ROOT,
            env=clean_environ(DJANGO_SETTINGS_MODULE="reprise.settings"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
        )
        atexit.register(self._process.communicate)
        self._lock = Lock()

    def check(self, url: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(f"{url}\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline()
            code = self._process.stdout.readline() if said.startswith("[") else said
        assert (said[:1], code) == ("[", "0\n"), _read(self._err.fileno())
        found: list[str] = json.loads(said)
        return found


_checker = cache(_Checker)


def check_database(url: str) -> list[str]:
    """The violations of all invariants in a database."""
    return _checker().check(url)


class Process:
    """A living process that has to do with a directory."""

    def __init__(self, pid: int, command: bytes):
        self.pid = pid
        self.command = command
        self.group = os.getpgid(pid)

    def __repr__(self) -> str:
        return f"{self.pid}: {self.command.replace(bytes(1), b' ').decode(errors='replace')}"


def processes_of(directory: Path) -> list[Process]:
    """Living processes that name the directory in their command or environment or work in it."""
    name = os.fsencode(directory)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            place = os.fsencode((entry / "cwd").readlink())
            if name in command or name in place or name in (entry / "environ").read_bytes():
                found.append(Process(int(entry.name), command))
        except (OSError, ValueError):
            continue  # it has just ended, or is somebody else's
    return found


def submit(
    client: Client, script: str, *, policy: dict[str, Any] | None = None, **fields: Any
) -> str:
    """Submit a shell script as a session; its id."""
    wanted = {"jitter": "none", "retry_delay": 0.2, **(policy or {})}
    session = client.session_create(
        image="any", command=["sh", "-c", script], retry_policy=wanted, **fields
    )
    return session.id


def ended(client: Client, session_id: str) -> list[Attempt]:
    """All attempts of a chain, once it is over."""
    client.wait(session_id, timeout=2 * PATIENCE_SECONDS)
    return client.attempts(session_id)


def reached(client: Client, session_id: str, status: str) -> Session:
    """The session, once it has this status."""
    return until(lambda: _with_status(client, session_id, status), f"it is {status}")


def _with_status(client: Client, session_id: str, status: str) -> Session | None:
    try:
        session = client.session(session_id)
    except RepriseError:
        return None
    return session if session.status == status else None


def retry_waits(client: Client, session_id: str) -> Session:
    """The session, once its retry is scheduled."""

    def waiting() -> Session | None:
        session = client.session(session_id)
        return session if session.retry_state.state == "scheduled" else None

    return until(waiting, "a retry waits")
