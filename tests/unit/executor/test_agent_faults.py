"""The agent when something around it goes wrong."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.executor_fake import Body, FakeServer, FakeSession
from tests.unit.executor.conftest import (
    ROOT,
    STUBBORN,
    AgentProcess,
    alive,
    processes_of,
    refuse,
    shell,
)
from tests.waiting import PATIENCE_SECONDS, until

PR_SET_CHILD_SUBREAPER = 36


def once(outcome: str, status: str) -> Callable[[FakeSession, Body], str | None]:
    """The given outcome for the first report of that status, the right one for all others."""
    left = [outcome]
    return lambda _, report: left.pop() if left and report["status"] == status else None


@contextmanager
def reaping_orphans() -> Iterator[None]:
    """Orphans of this process's children become its own."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.parametrize("status", ["PREPARING", "RUNNING", "TERMINATED"])
def test_a_busy_report_is_sent_again(server: FakeServer, agent: AgentProcess, status: str) -> None:
    server.outcome = once("busy", status)
    session = server.submit("true")
    server.wait_settled(session)
    assert session.statuses[0] == "PREPARING"
    assert session.statuses[-1] == "TERMINATED"


def test_an_agent_takes_the_descriptors_that_it_may_have(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    """Its runs get what it was started with."""
    idle_agent.wrapper = ["prlimit", "--nofile=300:4000"]
    idle_agent.start()
    session = shell(server, "ulimit -Sn; ulimit -Hn")
    server.wait_settled(session)
    assert session.log == b"300\n4000\n"
    limits = Path(f"/proc/{idle_agent.process.pid}/limits").read_text().splitlines()
    (files,) = [each.split()[3:5] for each in limits if each.startswith("Max open files")]
    assert files == ["4000", "4000"]


@pytest.mark.parametrize("outcome", ["stale", "invalid"])
def test_a_lease_whose_acceptance_is_refused_is_not_started(
    server: FakeServer, agent: AgentProcess, outcome: str
) -> None:
    server.lease_ttl = 1.5  # so that calls are held for half a second only
    server.outcome = once(outcome, "PREPARING")
    session = shell(server, "touch started; ls; echo ran in $PWD")
    server.wait_settled(session)
    assert session.leases == 2
    assert f"{session.id}-2" in session.log.decode()
    until(lambda: list((agent.state / "runs").iterdir()) == [])


def test_an_invalid_report_does_not_block_the_next(server: FakeServer, agent: AgentProcess) -> None:
    server.outcome = once("invalid", "RUNNING")
    session = server.submit("true")
    server.wait_settled(session)
    assert session.statuses == ["PREPARING", "TERMINATED"]
    until(lambda: "refused report 2" in agent.log.read_text())


def test_a_report_that_breaks_its_batch_is_given_up_alone(
    server: FakeServer, agent: AgentProcess
) -> None:
    server.refusal = lambda verb, body: (
        413
        if verb == "reports" and any(report["status"] == "RUNNING" for report in body["reports"])
        else None
    )
    sessions = [server.submit("true") for _ in range(5)]
    server.wait_settled(*sessions)
    assert all(session.statuses == ["PREPARING", "TERMINATED"] for session in sessions)


def ended_while_away(server: FakeServer, agent: AgentProcess) -> FakeSession:
    """Stop the server while a session runs. Return the session, which has then ended."""
    session = shell(server, "while ! test -e go; do sleep 0.02; done; echo done; exit 4")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    server.stop()
    (agent.state / "runs" / f"{session.id}-1" / "work" / "go").touch()
    until(lambda: "ERROR exit code 4" in agent.log.read_text())
    return session


def test_ends_that_the_server_missed_arrive_when_it_is_back(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = ended_while_away(server, agent)
    server.start()
    server.wait_settled(session)
    assert session.final["exit_code"] == 4
    assert session.log == b"done\n"


def test_reports_survive_the_agent_and_an_absent_server(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = ended_while_away(server, agent)
    agent.kill()
    agent.start()
    server.start()
    server.wait_settled(session)
    assert session.settled == "reported"
    assert session.final["exit_code"] == 4
    assert session.log == b"done\n"


@pytest.mark.parametrize("status", [500, 404])
def test_an_end_is_reported_although_its_output_is_refused(
    server: FakeServer, agent: AgentProcess, status: int
) -> None:
    server.refusal = refuse("logs", status, 1000)
    session = shell(server, "echo lost")
    server.wait_settled(session)
    assert session.settled == "reported"
    assert session.log == b""


def test_output_is_sent_in_smaller_pieces_where_large_ones_are_refused(
    server: FakeServer, agent: AgentProcess
) -> None:
    server.refusal = lambda verb, body: (
        413 if verb == "logs" and len(body["chunks"][0]["data"]) > 20_000 else None
    )
    session = server.submit(sys.executable, "-c", "print('x' * 50_000)")
    server.wait_settled(session)
    assert len(session.log) == 50_001


def test_a_killed_agent_takes_its_runs_along_and_the_next_one_says_so(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "setsid sleep 1000 & echo $! $$; sleep 1000")
    server.wait_for(lambda: session.log.endswith(b"\n"))
    detached, child = map(int, session.log.split())
    agent.kill()
    until(lambda: not alive(child))
    assert alive(detached)
    agent.start()
    server.wait_settled(session)
    assert session.settled == "reported"
    assert session.termination["lease_expired"] is True
    assert session.final["message"] == "the agent was killed; its runs ended with it"
    assert not alive(detached)


def test_processes_without_the_runs_environment_are_killed_at_the_start_too(
    server: FakeServer, agent: AgentProcess
) -> None:
    """The run's shell dies with the agent, and with it the sure sign of whose its group is."""
    session = shell(server, "env -i sleep 1000 & echo $! $$; sleep 1000")
    server.wait_for(lambda: session.log.endswith(b"\n"))
    stripped, child = map(int, session.log.split())
    with reaping_orphans():
        agent.kill()
        # As the init process does.
        os.waitpid(child, 0)
    assert alive(stripped)
    agent.start()
    server.wait_settled(session)
    try:
        assert not alive(stripped)
    finally:
        with suppress(ProcessLookupError):
            os.kill(stripped, signal.SIGKILL)


def test_only_the_runs_own_processes_are_killed_at_the_start(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "echo up; sleep 1000")
    server.wait_for(lambda: session.log == b"up\n")
    agent.kill()
    # Another executor's run of the same session on this machine, and no relative of ours.
    environ = {"REPRISE_SESSION_ID": session.id, "REPRISE_TERMINATION_LOG": "/elsewhere"}
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, **environ}) as stranger:
        agent.start()
        server.wait_settled(session)
        assert stranger.poll() is None
        stranger.kill()


def test_a_clean_stop_ends_runs_and_reports_them(server: FakeServer, agent: AgentProcess) -> None:
    polite = shell(server, "trap 'exit 6' TERM; echo up; while :; do sleep 0.02; done")
    stubborn = shell(server, STUBBORN, termination_grace_period=60)
    server.wait_for(lambda: bool(polite.log and stubborn.log))
    began = time.monotonic()
    assert agent.stop() == 0
    assert time.monotonic() - began < 30
    assert polite.final["exit_code"] == 6
    assert stubborn.final["exit_code"] == 137
    assert all(session.termination["lease_expired"] for session in (polite, stubborn))
    assert processes_of(agent.state) == []


def test_a_clean_stop_without_a_server_keeps_the_reports(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "trap 'echo bye; exit 6' TERM; echo up; while :; do sleep 0.02; done")
    server.wait_for(lambda: session.log == b"up\n")
    server.stop()
    began = time.monotonic()
    assert agent.stop() == 0
    assert time.monotonic() - began < 30
    server.start()
    agent.start()
    server.wait_settled(session)
    assert session.settled == "reported"
    assert session.final["exit_code"] == 6
    assert session.log.endswith(b"bye\n")


def test_leases_not_yet_accepted_go_back_at_a_stop(server: FakeServer, agent: AgentProcess) -> None:
    server.refusal = refuse("reports", 503, 1000)
    session = server.submit("true")
    server.wait_for(lambda: any(verb == "reports" for verb, _ in server.calls))
    assert agent.stop() == 0
    assert session.returned == "the executor is stopping"
    assert session.reports == []


def test_a_second_signal_ends_the_agent_at_once(server: FakeServer, agent: AgentProcess) -> None:
    session = shell(server, STUBBORN, termination_grace_period=60)
    server.wait_for(lambda: session.log.endswith(b"\n"))
    agent.process.send_signal(signal.SIGTERM)
    until(lambda: "stopping session" in agent.log.read_text())
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait() == 130
    assert processes_of(agent.state) == []


def test_an_agent_that_cannot_renew_fences_itself(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    server.lease_ttl, server.lease_grace = 4.0, 24.0
    idle_agent.start()
    session = shell(server, STUBBORN, termination_grace_period=60)
    cancelled = shell(server, STUBBORN, termination_grace_period=60)
    server.wait_for(lambda: all(each.log.endswith(b"\n") for each in (session, cancelled)))
    server.stop_session(cancelled, "cancelled", 60)
    server.wait_for(lambda: "TERMINATING" in cancelled.statuses)
    server.stop()
    began = time.monotonic()
    until(lambda: processes_of(idle_agent.state) == [])
    assert time.monotonic() - began < server.lease_ttl + server.lease_grace / 2
    server.start()
    server.wait_settled(session, cancelled)
    for each in (session, cancelled):
        assert each.settled == "reported"
        assert each.termination["lease_expired"] is True
        assert each.final["exit_code"] == 137


def test_an_agent_that_was_taken_over_kills_its_runs_and_ends(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, STUBBORN, termination_grace_period=60)
    server.wait_for(lambda: session.log.endswith(b"\n"))
    server.take_over()
    assert agent.wait() == 3
    assert processes_of(agent.state) == []
    assert "a newer agent of this executor exists (incarnation 2)" in agent.log.read_text()


def test_output_that_was_refused_comes_from_an_agent_that_was_taken_over(
    server: FakeServer, agent: AgentProcess
) -> None:
    """Its run has succeeded, which was told without it; nobody else has it."""
    server.refusal = lambda verb, _: 503 if verb == "logs" else None
    session = shell(server, "echo said")
    server.wait_settled(session)
    assert (session.final["status"], session.log) == ("TERMINATED", b"")
    server.take_over()
    until(lambda: "a newer agent of this executor exists" in agent.log.read_text())
    server.refusal = lambda _verb, _body: None
    assert agent.wait() == 3
    assert session.log == b"said\n"
    assert "ended sessions is not sent yet" not in agent.log.read_text()


def test_a_new_state_directory_goes_on_after_the_servers_incarnation(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    server.incarnation = 41
    idle_agent.start()
    session = server.submit("true")
    server.wait_settled(session)
    assert server.incarnation == 42
    assert (idle_agent.state / "incarnation").read_text() == "42\n"


def test_each_start_has_a_greater_incarnation(server: FakeServer, agent: AgentProcess) -> None:
    for expected in (1, 2, 3):
        server.wait_for(partial(server.has_heard_of, expected))
        agent.kill()
        agent.start()


def test_two_agents_do_not_share_a_state_directory(server: FakeServer, agent: AgentProcess) -> None:
    server.wait_for(lambda: server.incarnation == 1)
    second = subprocess.run(
        agent.command(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert "another agent is using the state directory" in line
    assert server.incarnation == 1


def test_a_run_without_a_place_for_its_files_goes_back_and_harms_no_other(
    server: FakeServer, agent: AgentProcess
) -> None:
    running = shell(server, "echo up; until [ -e go ]; do sleep 0.02; done; exit 3")
    server.wait_for(lambda: running.log == b"up\n")
    runs = agent.state / "runs"
    elsewhere = agent.state / "elsewhere"
    runs.rename(elsewhere)
    refused = shell(server, "exit 0")
    server.wait_for(lambda: refused.returned is not None)
    assert refused.returned is not None
    assert refused.returned.startswith("cannot create its files")
    elsewhere.rename(runs)
    (work,) = runs.glob("*/work")
    (work / "go").touch()
    server.wait_settled(running)
    assert running.final["exit_code"] == 3


def test_more_leases_than_asked_for_go_back(server: FakeServer, idle_agent: AgentProcess) -> None:
    server.room = 2
    first = shell(server, "sleep 1000")
    second = shell(server, "sleep 1000")
    idle_agent.start("--max-sessions", "1")
    server.wait_for(lambda: first.returned is not None or second.returned is not None)
    assert second.returned == "no room: 1 sessions at once are the limit here"
    server.wait_for(lambda: "RUNNING" in first.statuses)


def test_reports_go_on_while_a_return_is_refused(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    server.room = 2
    server.refusal = lambda verb, _body: 500 if verb == "return" else None
    first, second = shell(server, "exit 3"), shell(server, "exit 3")
    idle_agent.start("--max-sessions", "1")
    server.wait_for(lambda: any(verb == "return" for verb, _ in server.calls))
    server.wait_settled(first)
    assert first.final["exit_code"] == 3
    assert second.returned is None
    server.refusal = lambda _verb, _body: None
    server.wait_for(lambda: second.returned is not None)


def test_runs_that_are_let_go_take_room_until_they_are_gone(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    stubborn = shell(server, "trap '' TERM; echo up; while :; do sleep 0.1; done")
    idle_agent.start("--max-sessions", "1")
    server.wait_for(lambda: stubborn.log == b"up\n")
    server.room = 2
    server.stop_session(stubborn, "unknown", 10)
    offered = shell(server, "true")
    server.wait_for(lambda: offered.returned is not None)
    # It is not the fault of the session, nor counted as one.
    (returned,) = [
        each
        for verb, body in server.calls
        if verb == "return"
        for each in body["returns"]
        if each["session_id"] == offered.id
    ][:1]
    assert returned["own_trouble"] is True
    server.wait_for(lambda: 0 in limits(server))
    server.room = None
    server.wait_for(lambda: limits(server)[-1] == 1)


def limits(server: FakeServer) -> list[int]:
    """Return the number of sessions for which each lease call asked."""
    return [body["limits"]["max_sessions"] for verb, body in server.calls if verb == "lease"]


def test_every_lease_call_names_what_is_held(server: FakeServer, agent: AgentProcess) -> None:
    session = shell(server, "echo up; sleep 1000", resources={"cpu": "500m", "memory": "1Mi"})
    server.wait_for(lambda: session.log == b"up\n")
    server.stop_session(session, "cancelled", 0)
    server.wait_settled(session)
    calls = [body for verb, body in server.calls if verb == "lease"]
    held = next(body for body in calls if body["runs"])
    assert held["runs"] == [{"session_id": session.id, "fencing_token": 1}]
    assert held["limits"] == {"max_sessions": 8}
    (node,) = held["nodes"]
    assert float(node["free"]["cpu"]) == float(node["allocatable"]["cpu"]) - 0.5


def test_an_agent_dies_with_its_parent(server: FakeServer, idle_agent: AgentProcess) -> None:
    start = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
    parent = subprocess.Popen(
        [sys.executable, "-c", start, *idle_agent.command("--die-with-parent")],
        cwd=ROOT,
        env={**os.environ, "REPRISE_ISOLATE_RUNS": "off"},
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with parent:
        session = shell(server, "setsid sleep 1000 & echo $!; sleep 1000")
        server.wait_for(lambda: session.log.endswith(b"\n"))
        parent.kill()
    server.wait_settled(session)
    assert session.termination["lease_expired"] is True
    assert processes_of(idle_agent.state) == []


def test_an_agent_refuses_another_parent_than_it_was_told(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    idle_agent.start("--die-with-parent", "1")
    assert idle_agent.wait() == 1
    assert "the parent process is gone" in idle_agent.log.read_text()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--token-file", "/no/such/file"], "cannot read the token"),
        (["--max-sessions", "0"], "must be at least 1"),
        (["--driver", "moon"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_is_refused(
    idle_agent: AgentProcess, options: list[str], text: str
) -> None:
    idle_agent.start(*options)
    assert idle_agent.wait() == 2
    assert text in idle_agent.log.read_text()
