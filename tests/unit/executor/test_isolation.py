"""Tests of what isolated runs can do, by real attempts: by Landlock, by a user for each run, and by
both."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor_fake import FakeServer, FakeSession
from tests.unit.executor.conftest import ROOT, AgentProcess, alive
from tests.unit.executor.isolated_agent import (
    KERNEL,
    ORDINARY,
    OTHER_WORLDS,
    WORLDS,
    IsolatedAgent,
    World,
    agent_pid,
    as_root,
    number_of,
    of_landlock,
    sleeping,
)
from tests.waiting import PATIENCE_SECONDS, until


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
    script = "echo precious > file; chmod 644 file; echo ready; exec sleep 1000"
    session = server.submit("sh", "-c", script, environ={"REPRISE_SECRET": "precious"})
    server.wait_for(lambda: session.log.endswith(b"\n"))
    return session


def attempts(agent: IsolatedAgent, victim: FakeSession) -> dict[str, str]:
    """Return the commands that must fail in a run, each for a shell."""
    number, other = agent_pid(agent), agent.state / "runs" / f"{victim.id}-1"
    beside = number_of(agent, victim)
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
        "another run's environment": f"cat /proc/{beside}/environ",
        "to kill another run": f"kill -9 {beside}",
        "the agent's environment": f"cat /proc/{number}/environ",
        "the agent's memory": f"head -c 1 /proc/{number}/mem",
        "to kill the agent": f"kill -9 {number}",
        "a setuid program's rights": "grep -q NoNewPrivs:.0 /proc/self/status",
    }


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
    assert alive(number_of(isolated, victim))


@pytest.mark.parametrize("isolated", OTHER_WORLDS, indirect=True)
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
    setsid sleep 1234567 &
    echo last words > "$REPRISE_TERMINATION_LOG"
    exit 7
    """
    session = server.submit("sh", "-c", script)
    server.wait_settled(session)
    assert session.log.split() == [b"1", b"2", b"3", b"4", b"5"]
    assert session.final["exit_code"] == 7
    assert session.termination["message"] == "last words\n"
    assert not sleeping("1234567")
    until(lambda: list((isolated.state / "runs").iterdir()) == [])


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


def refusal(place: Path, kernel: int, user: int, namespaces: bool = True, **environ: str) -> str:
    """Return the reason why an agent does not start."""
    agent = IsolatedAgent("http://127.0.0.1:9", place, World(kernel, user, namespaces))
    done = subprocess.run(
        agent.command(), cwd=ROOT, env={**os.environ, **environ}, capture_output=True,
        text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("kernel", "gap"),
    [
        (0, "read the agent's files and other runs', empty the agent's files, kill the agent"),
        pytest.param(2, "empty the agent's files, kill the agent", marks=of_landlock),
        pytest.param(4, "a run could kill the agent", marks=of_landlock),
    ],
)
def test_impossible_isolation_is_refused(place: Path, kernel: int, gap: str) -> None:
    message = refusal(place, kernel, ORDINARY, namespaces=False)
    assert gap in message
    assert "Linux 6.12 or newer, or allow user namespaces" in message
    assert "--isolate-runs partly" in message


@of_landlock
def test_partial_isolation_is_enough_where_configured(server: FakeServer, place: Path) -> None:
    agent = IsolatedAgent(server.url, place, World(4, ORDINARY, namespaces=False))
    agent.start("partly")
    try:
        script = "cat ../../../id || echo closed; kill -0 $(cut -d' ' -f4 /proc/$$/stat) && echo on"
        session = server.submit("sh", "-c", script)
        server.wait_settled(session)
    finally:
        agent.kill()
    assert session.log.endswith(b"closed\non\n")
    said = agent.log.read_text()
    assert "no namespaces (Operation not permitted) a run can kill the agent" in said


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
    agent = IsolatedAgent("http://127.0.0.1:9", place, World(0, ORDINARY))
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
    agent = IsolatedAgent(server.url, place, World(KERNEL, ORDINARY))
    for name in ("data", "results", "hidden"):
        (place / name).mkdir()
        (place / name / "file").write_text(f"{name}\n")
        (place / name).chmod(0o777)
    shutil.chown(place / "results", ORDINARY)
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
