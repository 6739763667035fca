"""Tests of attacks by a run on the agent and on other runs of the same user, by real attempts."""

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from random import randrange

import pytest

from tests.executor_fake import FakeServer, FakeSession
from tests.unit.executor.conftest import AgentProcess, alive
from tests.unit.executor.isolated_agent import (
    HOLDING,
    OTHER_WORLDS,
    WORLDS,
    IsolatedAgent,
    agent_pid,
    number_of,
    sleeping,
)
from tests.waiting import until

ATTACKS = Path(__file__).with_name("attacks.py").read_text()
PYTHON = "/usr/bin/python3"
WAIT = "while ! test -e end; do sleep .1; done"
# What no kernel prevents for processes of one user that share their namespaces.
METADATA = {
    "modes of the state",
    "modes of its runs",
    "modes of a record",
    "modes of the token",
    "modes of another run",
    "modes of another run's file",
    "modes of its own record",
    "modes by the way up",
    "owner",
    "owner of a link",
    "times",
    "times of another run",
    "attributes",
    "attributes of another run",
}
PRIORITIES = {
    "its processors",
    "its scheduling",
    "its priority",
    "its group's priority",
    "its priority on disk",
}
# A process of a run that hides as well as it can: it is nobody's child, has its own session, no
# environment and no directory, and cannot be looked at.
DAEMON = """
import ctypes, os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 3)
        os.execve("/usr/bin/python3", ["python3", "-c", sys.argv[2], sys.argv[1]], {})
    os._exit(0)
os.wait()
"""
HIDDEN = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
if os.fork() == 0:
    os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
time.sleep(1000)
"""
CLOSING = """
import os, sys
state, other = sys.argv[1:]
for _ in range(200):
    for path in (f"{other}/output", f"{other}/run.json", other, f"{state}/id",
                 f"{state}/reports/journal", f"{state}/reports", f"{state}/runs", state):
        try:
            os.chmod(path, 0)
        except OSError:
            pass
print("closed")
"""


@pytest.fixture
def isolated(
    server: FakeServer, place: Path, request: pytest.FixtureRequest
) -> Iterator[IsolatedAgent]:
    agent = IsolatedAgent(server.url, place, request.param)
    agent.start()
    yield agent
    agent.kill()


@pytest.fixture
def victim(server: FakeServer, isolated: IsolatedAgent) -> FakeSession:
    """A run beside which others are. It ends when a file is there."""
    script = (
        "echo precious > file; chmod 644 file; echo ready; while ! test -e end; do sleep .1; done"
    )
    session = server.submit("sh", "-c", f"{script}; echo last; exit 5")
    server.wait_for(lambda: session.log.endswith(b"ready\n"))
    return session


def place_of(agent: IsolatedAgent, session: FakeSession) -> Path:
    (place,) = (agent.state / "runs").glob(f"{session.id}-*")
    return place


def attack(server: FakeServer, agent: IsolatedAgent, victim: FakeSession) -> set[str]:
    """Return what a run could do."""
    numbers = (str(agent_pid(agent)), str(number_of(agent, victim)))
    places = (str(agent.state), str(place_of(agent, victim)), "new")
    session = server.submit(PYTHON, "-c", ATTACKS, *numbers, *places)
    server.wait_settled(session)
    *could, end = session.log.decode().splitlines()
    assert end == "that was all"
    return set(could)


def finish(server: FakeServer, agent: IsolatedAgent, victim: FakeSession) -> None:
    (place_of(agent, victim) / "work" / "end").touch()
    server.wait_settled(victim)
    assert victim.final["exit_code"] == 5
    assert victim.log == b"ready\nlast\n"


@pytest.mark.parametrize("isolated", HOLDING, indirect=True)
def test_no_attack_reaches_the_agent_or_another_run(
    server: FakeServer, isolated: IsolatedAgent, victim: FakeSession
) -> None:
    could = attack(server, isolated, victim)
    if isolated._world.user == 0 and not isolated._world.kernel:
        could -= {"file: to open"}  # the agent's id, which every user may read; it is no secret
    assert could == set()
    assert alive(agent_pid(isolated))
    finish(server, isolated, victim)


@pytest.mark.parametrize("isolated", [WORLDS["no namespaces"]], indirect=True)
def test_without_namespaces_it_says_what_a_run_can_do(
    server: FakeServer, isolated: IsolatedAgent, victim: FakeSession
) -> None:
    of_processes = {f"{whom}: {each}" for whom in ("agent", "run") for each in PRIORITIES}
    # The agent's group has processes of another user, if root runs the tests.
    could = attack(server, isolated, victim) - {"agent: its group's priority"}
    of_processes -= {"agent: its group's priority"}
    assert could == {f"file: {each}" for each in METADATA} | of_processes
    finish(server, isolated, victim)
    said = isolated.log.read_text()
    assert (
        "no namespaces (Operation not permitted) a run can change modes, owners and times" in said
    )
    assert "lower the priority of the agent and of other runs" in said
    assert "can outlive an agent that is killed" in said


@pytest.mark.parametrize("isolated", [WORLDS["no namespaces"]], indirect=True)
def test_an_agent_whose_files_are_closed_takes_them_back(
    server: FakeServer, isolated: IsolatedAgent, victim: FakeSession
) -> None:
    places = (str(isolated.state), str(place_of(isolated, victim)))
    for _ in range(3):
        closing = server.submit(PYTHON, "-c", CLOSING, *places)
        server.wait_settled(closing)
        assert closing.log == b"closed\n"
    after = server.submit("sh", "-c", "echo after")
    server.wait_settled(after)
    assert after.log == b"after\n"
    until(lambda: stat.S_IMODE(isolated.state.stat().st_mode) == 0o700)
    finish(server, isolated, victim)
    assert "the mode of" in isolated.log.read_text()


@pytest.mark.parametrize("isolated", [WORLDS["no namespaces"]], indirect=True)
def test_an_agent_starts_with_files_that_were_closed(
    server: FakeServer, isolated: IsolatedAgent, victim: FakeSession
) -> None:
    isolated.kill()
    for path in sorted(isolated.state.rglob("*"), reverse=True):
        if "work" not in path.parts and not path.is_symlink():
            path.chmod(0)
    isolated.state.chmod(0)
    isolated.start()
    server.wait_settled(victim)
    after = server.submit("sh", "-c", "echo after")
    server.wait_settled(after)
    assert after.log == b"after\n"


@pytest.mark.parametrize("isolated", OTHER_WORLDS, indirect=True)
def test_a_daemon_ends_with_its_run(
    server: FakeServer, isolated: IsolatedAgent, victim: FakeSession
) -> None:
    """And no other run with it, whatever end that has."""
    seconds = f"1000.{randrange(10**12)}"
    start = f"{PYTHON} -c '{DAEMON}' {seconds} '{HIDDEN}'"
    hidden = server.submit("sh", "-c", f"{start}; {WAIT}; exit 3")
    until(lambda: sleeping(seconds))
    ends = [server.submit("sh", "-c", f"true & exit {code}") for code in range(20, 30)]
    for code, each in enumerate(ends, 20):
        server.wait_settled(each)
        assert each.final["exit_code"] == code
    assert sleeping(seconds)
    (place_of(isolated, hidden) / "work" / "end").touch()
    server.wait_settled(hidden)
    assert hidden.final["exit_code"] == 3
    assert not sleeping(seconds)
    assert not zombies(agent_pid(isolated))
    finish(server, isolated, victim)


def test_a_daemon_ends_with_its_run_without_isolation(
    server: FakeServer, agent: AgentProcess
) -> None:
    seconds = f"1000.{randrange(10**12)}"
    session = server.submit(PYTHON, "-c", DAEMON, seconds, HIDDEN)
    server.wait_settled(session)
    assert session.final["exit_code"] == 0
    assert not sleeping(seconds)


@pytest.mark.parametrize("isolated", OTHER_WORLDS, indirect=True)
def test_runs_of_a_killed_agent_are_ended(server: FakeServer, isolated: IsolatedAgent) -> None:
    seconds = f"1000.{randrange(10**12)}"
    start = f"{PYTHON} -c '{DAEMON}' {seconds} '{HIDDEN}'"
    session = server.submit("sh", "-c", f"{start}; exec sleep {seconds}")
    until(lambda: len(sleeping(seconds)) == 2)
    isolated.kill()
    if isolated._world.user and isolated._world.namespaces:
        until(lambda: not sleeping(seconds))  # without another agent
    isolated.start()
    server.wait_settled(session)
    left = sleeping(seconds)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert bool(left) == (not isolated._world.namespaces)


def zombies(parent: int) -> list[str]:
    """Return the dead children of a process that it has not waited for."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [each for each in children if not alive(int(each))]
