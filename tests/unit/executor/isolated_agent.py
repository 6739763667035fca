"""Agents that isolate their runs, on this kernel and as on others."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from executor.drivers.local import landlock
from tests.executor_fake import FakeSession
from tests.unit.executor.conftest import ROOT, AgentProcess, alive

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
PACKAGES = os.pathsep.join(
    [str(ROOT), str(ROOT / "client"), *(each for each in sys.path if "packages" in each)]
)
KERNEL = landlock.abi()
ORDINARY = NOBODY if IS_ROOT else os.geteuid()
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
of_landlock = pytest.mark.skipif(
    KERNEL < 6, reason=f"this kernel's Landlock is of version {KERNEL}, and 6 is needed"
)
# An agent on another kernel: only the version of Landlock is not real. Namespaces are really
# refused, as containers do it.
START = """
import ctypes, platform, struct, sys
from executor.drivers.local import landlock
kernel, namespaces = int(sys.argv.pop(1)), sys.argv.pop(1) == "True"
landlock.abi = lambda: kernel
if not namespaces:
    unshare = {"x86_64": 272, "aarch64": 97}[platform.machine()]
    code = struct.pack("HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 0, 1, unshare, 6, 0, 0, 0x50001,
        6, 0, 0, 0x7FFF0000)
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))
    prctl = ctypes.CDLL(None).prctl
    assert prctl(38, 1, 0, 0, 0) == prctl(22, 2, ctypes.byref(Program(4, code)), 0, 0) == 0
from executor.__main__ import main
main()
"""


@dataclass(frozen=True)
class World:
    """The user of the agent, the Landlock that it finds, and whether it may make namespaces."""

    kernel: int
    user: int
    namespaces: bool = True


WORLDS = {
    "a user for each": pytest.param(World(0, 0), marks=as_root),
    "both": pytest.param(World(KERNEL, 0), marks=(as_root, of_landlock)),
    "namespaces": pytest.param(World(KERNEL, ORDINARY), marks=of_landlock),
    "an older Landlock": pytest.param(World(1, ORDINARY), marks=of_landlock),
    "no namespaces": pytest.param(World(KERNEL, ORDINARY, False), marks=of_landlock),
}
OTHER_WORLDS = list(WORLDS.values())[1:]
HOLDING = list(WORLDS.values())[:-1]


class IsolatedAgent(AgentProcess):
    """An agent that isolates its runs, in a directory of its user's."""

    def __init__(self, url: str, directory: Path, world: World):
        super().__init__(url, directory)
        (directory / "token").chmod(0o600)
        self._world = world
        if world.user != os.geteuid():
            for each in (directory, directory / "token"):
                os.chown(each, world.user, world.user)

    def command(self, *options: str) -> list[str]:
        # Tests that run beside this one end what its users have, if they have the same.
        first = 100_000_000 + os.getpid() * 100
        users = ("--run-users", f"{first}-{first + 99}")
        arguments = super().command("--isolate-runs", *(options or ("on", *users)))[3:]
        python = ordinary_python() if self._world.user else [sys.executable]
        world = (str(self._world.kernel), str(self._world.namespaces))
        return [*python, "-c", START, *world, *arguments]


def ordinary_python() -> list[str]:
    """Return a command with which an ordinary user runs Python with this environment's packages."""
    if not IS_ROOT:
        return [sys.executable]
    # The environment's own interpreter may lie in a home that others cannot enter.
    for program in (sys.executable, "/usr/bin/python3.11"):
        command = [*AS_NOBODY, "env", f"PYTHONPATH={PACKAGES}", program]
        if subprocess.run([*command, "-c", "import httpx"], capture_output=True).returncode == 0:
            return command
    pytest.skip("user nobody can run no Python 3.11 here: install one outside of root's home")


def number_of(agent: IsolatedAgent, session: FakeSession) -> int:
    """Return the number of the session's process for this test; it may have another inside."""
    record = agent.state / "runs" / f"{session.id}-1" / "run.json"
    return int(json.loads(record.read_bytes())["process"]["pid"])


def agent_pid(agent: IsolatedAgent) -> int:
    """`setpriv` and `env` have become it."""
    return agent.process.pid


def sleeping(seconds: str) -> list[int]:
    """Return the living processes that sleep for so long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(path.parent.name))
    return [pid for pid in found if alive(pid)]
