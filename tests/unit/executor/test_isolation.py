"""Tests of what isolated runs can do, by real attempts: by Landlock, by a user for each run, and by
both."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from executor.drivers.local import landlock
from tests.executor_fake import FakeServer, FakeSession
from tests.unit.executor.conftest import ROOT, AgentProcess, alive
from tests.waiting import PATIENCE_SECONDS, until

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
PACKAGES = os.pathsep.join(
    [str(ROOT), str(ROOT / "client"), *(each for each in sys.path if "packages" in each)]
)
KERNEL = landlock.abi()
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
of_landlock = pytest.mark.skipif(
    KERNEL < 6, reason=f"this kernel's Landlock is of version {KERNEL}, and 6 is needed"
)
# An agent on another kernel: what it finds there is the only thing that is not real.
START = """
import sys
from executor.drivers.local import landlock
kernel = int(sys.argv.pop(1))
landlock.abi = lambda: kernel
from executor.__main__ import main
main()
"""


@dataclass(frozen=True)
class World:
    """The user of the agent, and the Landlock that it finds."""

    kernel: int
    user: int


WORLDS = {
    "a user for each": pytest.param(World(0, 0), marks=as_root),
    "both": pytest.param(World(KERNEL, 0), marks=(as_root, of_landlock)),
    "Landlock": pytest.param(World(KERNEL, NOBODY if IS_ROOT else os.geteuid()), marks=of_landlock),
}
TWO_WORLDS = [WORLDS["both"], WORLDS["Landlock"]]


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
        return [*python, "-c", START, str(self._world.kernel), *arguments]


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


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory into which every user can walk; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="reprise-isolation-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


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
    """A run beside which others are."""
    script = "echo precious > file; chmod 644 file; echo $$; exec sleep 1000"
    session = server.submit("sh", "-c", script, environ={"REPRISE_SECRET": "precious"})
    server.wait_for(lambda: session.log.endswith(b"\n"))
    return session


def attempts(agent: IsolatedAgent, victim: FakeSession) -> dict[str, str]:
    """Return the commands that must fail in a run, each for a shell."""
    number, other = agent_pid(agent), agent.state / "runs" / f"{victim.id}-1"
    file = other / "work" / "file"
    return {
        "the token": f"cat {agent.state.parent}/token",
        "the agent's files": f"cat {agent.state}/id",
        "a new file": f"echo x > {agent.state}/new",
        "its incarnation": f"echo 99 > {agent.state}/incarnation",
        "the run's own record": "echo '{}' > ../run.json",
        "another run's file": f"cat {file}",
        "another run's output": f"cat {other}/output",
        "to write there": f"echo x > {file}",
        "another run's environment": f"cat /proc/{int(victim.log)}/environ",
        "to kill another run": f"kill -9 {int(victim.log)}",
        "the agent's environment": f"cat /proc/{number}/environ",
        "the agent's memory": f"head -c 1 /proc/{number}/mem",
        "to kill the agent": f"kill -9 {number}",
        "a setuid program's rights": "grep -q NoNewPrivs:.0 /proc/self/status",
    }


def agent_pid(agent: IsolatedAgent) -> int:
    """`setpriv` and `env` have become it."""
    return agent.process.pid


@pytest.mark.parametrize("isolated", WORLDS.values(), ids=WORLDS.keys(), indirect=True)
def test_a_run_reaches_nobody(
    server: FakeServer, isolated: IsolatedAgent, victim: FakeSession
) -> None:
    tried = attempts(isolated, victim)
    if isolated._world.user == 0 and not isolated._world.kernel:
        del tried["the agent's files"]  # its id, which every user may read; no secret is in it
    script = "".join(
        f'({each}) > /dev/null 2>&1 && echo "{what}"\n' for what, each in tried.items()
    )
    session = server.submit("sh", "-c", script + "echo that was all; exit 3")
    server.wait_settled(session)
    assert session.log == b"that was all\n"
    assert session.final["exit_code"] == 3
    assert alive(agent_pid(isolated))
    assert alive(int(victim.log))


@pytest.mark.parametrize("isolated", TWO_WORLDS, indirect=True)
def test_a_run_works_as_usual(server: FakeServer, isolated: IsolatedAgent) -> None:
    script = """
    set -e
    echo 1 > file && mkdir -p a/b && mv file a/b/moved && cat a/b/moved
    echo 2 > "$TMPDIR/file" && cat "$TMPDIR/file" && mv "$TMPDIR/file" .
    echo 3 >> /dev/stderr
    echo nothing > /dev/null
    printf '#!/bin/sh\\necho 4\\n' > script && chmod +x script && ./script
    sh -c 'sleep 1000' & kill $! && echo 5
    test "$HOME" = "$(pwd)" && head -c 1 /etc/passwd > /dev/null && ls /usr /proc/self > /dev/null
    setsid sleep 1000 & echo $! > pid
    echo last words > "$REPRISE_TERMINATION_LOG"
    cat pid
    exit 7
    """
    session = server.submit("sh", "-c", script)
    server.wait_settled(session)
    *printed, left = session.log.decode().split()
    assert printed == ["1", "2", "3", "4", "5"]
    assert session.final["exit_code"] == 7
    assert session.termination["message"] == "last words\n"
    assert not alive(int(left))
    until(lambda: list((isolated.state / "runs").iterdir()) == [])


@pytest.mark.parametrize("isolated", TWO_WORLDS, indirect=True)
def test_runs_of_a_killed_agent_are_ended(server: FakeServer, isolated: IsolatedAgent) -> None:
    # A process without a mark and outside of the run's group and directory.
    hidden = "cd /; env -i setsid sh -c 'echo $$; exec sleep 1000' &"
    session = server.submit("sh", "-c", f"{hidden} sleep 0.2; exec setsid sleep 1000")
    server.wait_for(lambda: session.log.endswith(b"\n"))
    isolated.kill()
    isolated.start()
    server.wait_settled(session)
    if isolated._world.user == 0:
        assert not alive(int(session.log))
    else:
        os.kill(int(session.log), signal.SIGKILL)


@as_root
def test_no_two_runs_have_one_user(server: FakeServer, place: Path) -> None:
    agent = IsolatedAgent(server.url, place, World(0, 0))
    agent.start("on", "--run-users", "71000-71007")
    try:
        sessions = [server.submit("sh", "-c", "id -u; sleep 0.5") for _ in range(12)]
        for session in sessions:
            server.wait_settled(session)
    finally:
        agent.kill()
    first = [int(session.log) for session in sessions[:8]]
    assert sorted(first) == list(range(71000, 71008))
    assert all(session.final["status"] == "TERMINATED" for session in sessions)


def refusal(place: Path, kernel: int, user: int, *options: str, **environ: str) -> str:
    """Return the reason why an agent does not start."""
    agent = IsolatedAgent("http://127.0.0.1:9", place, World(kernel, user))
    done = subprocess.run(
        agent.command(*options), cwd=ROOT, env={**os.environ, **environ}, capture_output=True,
        text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def ordinary_user() -> int:
    return NOBODY if IS_ROOT else os.geteuid()


@pytest.mark.parametrize(
    ("kernel", "gap"),
    [
        (0, "read the agent's files and other runs', empty the agent's files, kill the agent"),
        pytest.param(2, "empty the agent's files, kill the agent", marks=of_landlock),
        pytest.param(4, "a run could kill the agent", marks=of_landlock),
    ],
)
def test_impossible_isolation_is_refused(place: Path, kernel: int, gap: str) -> None:
    message = refusal(place, kernel, ordinary_user())
    assert gap in message
    assert "Linux 6.12" in message
    assert "--isolate-runs partly" in message


@of_landlock
def test_partial_isolation_is_enough_where_configured(server: FakeServer, place: Path) -> None:
    agent = IsolatedAgent(server.url, place, World(4, ordinary_user()))
    agent.start("partly")
    try:
        script = "cat ../../../id || echo closed; kill -0 $(cut -d' ' -f4 /proc/$$/stat) && echo on"
        session = server.submit("sh", "-c", script)
        server.wait_settled(session)
    finally:
        agent.kill()
    assert session.log.endswith(b"closed\non\n")
    assert "with Landlock version 4 a run can kill the agent" in agent.log.read_text()


def test_without_isolation_it_says_what_that_means(idle_agent: AgentProcess) -> None:
    idle_agent.start()
    until(lambda: "whoever may submit sessions acts as" in idle_agent.log.read_text())


@pytest.mark.parametrize("where", ["state", "token"])
def test_a_secret_where_runs_may_read_is_refused(place: Path, where: str) -> None:
    named = place / where
    problem = refusal(place, KERNEL, os.geteuid(), REPRISE_LOCAL_PATHS=f"/data:{named}")
    assert f"runs may read {named}" in problem
    assert "REPRISE_LOCAL_PATHS" in problem


def test_it_can_be_asked_before(place: Path) -> None:
    """Without a token, which there may not be yet, and in plain words."""
    agent = IsolatedAgent("http://127.0.0.1:9", place, World(0, ordinary_user()))
    for mode, code in (("on", 1), ("partly", 0)):
        agent.start(mode, "--check-isolation", "--token-file", "/nonexistent")
        assert agent.wait() == code
    assert "\nisolate_runs: with no Landlock a run could read" in f"\n{agent.log.read_text()}"


@as_root
def test_a_token_that_everybody_may_read_is_refused(place: Path) -> None:
    agent = IsolatedAgent("http://127.0.0.1:9", place, World(KERNEL, 0))
    (place / "token").chmod(0o644)
    agent.start()
    assert agent.wait() == 1
    assert "every user may read" in agent.log.read_text()


@as_root
def test_a_way_that_is_closed_is_refused(place: Path) -> None:
    place.chmod(0o700)
    assert f"cannot enter {place}" in refusal(place, KERNEL, 0)


@of_landlock
def test_named_paths_may_be_read_or_written(server: FakeServer, place: Path) -> None:
    agent = IsolatedAgent(server.url, place, World(KERNEL, ordinary_user()))
    for name in ("data", "results", "hidden"):
        (place / name).mkdir()
        (place / name / "file").write_text(f"{name}\n")
        (place / name).chmod(0o777)
    shutil.chown(place / "results", ordinary_user())
    agent.start(
        REPRISE_LOCAL_PATHS=str(place / "data"), REPRISE_LOCAL_WRITABLE=str(place / "results")
    )
    script = f"""
    cd {place}
    cat data/file results/file hidden/file
    echo new > data/new; echo new > results/new && cat results/new
    """
    try:
        session = server.submit("sh", "-c", script)
        server.wait_settled(session)
    finally:
        agent.kill()
    kept = [line for line in session.log.decode().splitlines() if ":" not in line]
    assert kept == ["data", "results", "new"]
