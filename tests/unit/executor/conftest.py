"""A real agent process against the fake server."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.executor_fake import NAME, TOKEN, Body, FakeServer, FakeSession

ROOT = Path(__file__).parents[3]
STUBBORN = "trap '' TERM; sleep 1000 & echo $!; while :; do wait; done"


class AgentProcess:
    """One executor on one state directory, which can be started again and again."""

    def __init__(self, url: str, directory: Path, name: str = NAME):
        self.name = name
        self.state = directory / "state"
        self.log = directory / "agent.log"
        self._token = directory / "token"
        self._token.write_text(TOKEN)
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self.wrapper: list[str] = []
        """What becomes the agent, such as `prlimit` with its options."""

    def command(self, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "executor", "--name", self.name, "--url", self._url),
            *("--token-file", str(self._token), "--state-dir", str(self.state), *options),
        ]

    def start(self, *options: str, **environ: str) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.wrapper, *self.command(*options)],
                cwd=ROOT,
                stderr=log,
                # Those who want runs isolated say so: most tests look into their directories.
                env={
                    **os.environ,
                    "REPRISE_ISOLATE_RUNS": "off",
                    "REPRISE_LOG_LEVEL": "DEBUG",
                    **environ,
                },
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def wait(self, timeout: float = 60.0) -> int:
        return self.process.wait(timeout)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        if self._process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.stop()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory into which every user can walk; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="reprise-isolation-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def idle_agent(server: FakeServer, tmp_path: Path) -> Iterator[AgentProcess]:
    """Not started yet."""
    agent = AgentProcess(server.url, tmp_path)
    yield agent
    agent.kill()
    end_runs(agent.state)


@pytest.fixture
def agent(idle_agent: AgentProcess) -> AgentProcess:
    idle_agent.start()
    return idle_agent


def shell(server: FakeServer, script: str, **spec: Any) -> FakeSession:
    return server.submit("/bin/sh", "-c", script, **spec)


def refuse(verb: str, status: int, times: int) -> Callable[[str, Body], int | None]:
    left = [status] * times
    return lambda called, _: left.pop() if left and called == verb else None


def processes_of(directory: Path) -> list[int]:
    """The living processes whose environment names something in the directory."""
    mark = b"REPRISE_TERMINATION_LOG=" + os.fsencode(directory)
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _has(pid, mark)]


def end_runs(directory: Path) -> None:
    for pid in processes_of(directory):
        os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _has(pid: int, mark: bytes) -> bool:
    try:
        return alive(pid) and mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
