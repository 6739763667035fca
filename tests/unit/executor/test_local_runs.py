"""Tests of one session under the local driver, from lease to final report."""

import json
import sys
from typing import Any

import pytest

from tests.executor_fake import FakeServer
from tests.unit.executor.conftest import AgentProcess, alive, processes_of, shell
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("agent")


def test_a_success_is_reported_with_its_output(server: FakeServer) -> None:
    session = shell(server, "echo out; echo err >&2", image="python:3.11")
    server.wait_settled(session)
    assert session.statuses == ["PREPARING", "RUNNING", "TERMINATED"]
    assert [report["seq"] for report in session.reports] == [1, 2, 3]
    assert session.log == b"out\nerr\n"
    assert session.final["exit_code"] == 0
    assert session.reports[0]["message"] == "image python:3.11 is ignored by the local driver"
    assert session.reports[1]["node"] == session.termination["node"] != ""


def test_a_plain_session_starts_without_a_caveat(server: FakeServer) -> None:
    session = server.submit("true")
    server.wait_settled(session)
    assert session.reports[0]["message"] == ""


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("exit 7", 7, "exit code 7"),
        ("exit 137", 137, "exit code 137"),
        ("kill -9 $$", 137, "ended by SIGKILL"),
        ("kill -TERM $$", 143, "ended by SIGTERM"),
    ],
)
def test_the_exit_code_is_what_a_shell_would_say(
    server: FakeServer, script: str, code: int, message: str
) -> None:
    session = shell(server, script)
    server.wait_settled(session)
    assert session.final["status"] == "ERROR"
    assert session.final["exit_code"] == session.termination["exit_code"] == code
    assert session.final["message"] == message
    assert session.termination["reason"] == ""
    assert session.termination["lease_expired"] is False


@pytest.mark.parametrize(
    ("command", "reason", "text"),
    [
        (["no-such-program"], "StartError", "'no-such-program' was not found in PATH"),
        (["/no/such/file"], "StartError", "'/no/such/file' was not found"),
        ([], "StartError", "no command"),
        (["sh", "nul\0byte"], "StartError", "null byte"),
        (["/etc/passwd"], "ContainerCannotRun", "may not be executed"),
    ],
)
def test_a_run_that_cannot_start_says_why(
    server: FakeServer, command: list[str], reason: str, text: str
) -> None:
    session = server.submit(*command)
    server.wait_settled(session)
    assert session.statuses == ["PREPARING", "ERROR"]
    assert session.termination["reason"] == reason
    assert text in session.termination["pod_message"]
    assert session.final["exit_code"] is None


def test_the_environment_is_scrubbed_and_the_lease_wins(
    server: FakeServer, agent: AgentProcess
) -> None:
    agent.kill()
    agent.start(DATABASE_URL="postgres://secret", LANG="C.UTF-8", REPRISE_FAILPOINT="none")
    session = server.submit(
        sys.executable,
        "-c",
        "import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))",
        environ={"REPRISE_ATTEMPT": "2"},
        ports=["http", {"name": "side-car"}],
    )
    session.spec["environ"] = {"MINE": "1", "REPRISE_ATTEMPT": "99", "REPRISE_SESSION_ID": "x"}
    server.wait_settled(session)
    directory, environ = json.loads(session.log)
    run = agent.state / "runs" / f"{session.id}-1"
    assert environ["MINE"] == "1"
    assert environ["REPRISE_ATTEMPT"] == "2"
    assert environ["REPRISE_SESSION_ID"] == session.id
    assert environ["REPRISE_TERMINATION_LOG"] == str(run / "termination-log")
    assert environ["HOME"] == directory == str(run / "work")
    assert environ["TMPDIR"] == str(run / "tmp")
    assert environ["LANG"] == "C.UTF-8"
    assert "DATABASE_URL" not in environ
    assert "REPRISE_FAILPOINT" not in environ
    ports = {environ["REPRISE_PORT_HTTP"], environ["REPRISE_PORT_SIDE_CAR"]}
    assert len(ports) == 2
    assert all(1024 <= int(port) <= 65535 for port in ports)


def test_nothing_of_a_run_outlives_it(server: FakeServer, agent: AgentProcess) -> None:
    in_group = "sleep 1000 & echo $!;"
    detached = "setsid sleep 1000 & echo $!;"
    orphaned = "(setsid sh -c 'sleep 1000 & echo $!') ;"
    session = shell(server, in_group + detached + orphaned + "exit 3")
    server.wait_settled(session)
    pids = [int(line) for line in session.log.split()]
    assert session.final["exit_code"] == 3
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)
    assert processes_of(agent.state) == []


def test_output_comes_in_pieces_while_the_session_runs(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "echo first; while ! test -e go; do sleep 0.02; done; echo last")
    server.wait_for(lambda: session.log == b"first\n")
    assert session.settled is None
    (agent.state / "runs" / f"{session.id}-1" / "work" / "go").touch()
    server.wait_settled(session)
    assert session.log == b"first\nlast\n"


def test_large_output_is_complete_before_the_end_is_reported(server: FakeServer) -> None:
    complete_at_end: list[bool] = []
    server.outcome = lambda session, report: (
        complete_at_end.append(len(session.log) == 3_000_000)
        if report["status"] == "TERMINATED"
        else None
    )
    session = server.submit(sys.executable, "-c", "print('x' * 2_999_999)")
    server.wait_settled(session)
    assert complete_at_end == [True]
    assert session.log == b"x" * 2_999_999 + b"\n"


def test_output_past_the_cap_is_not_sent(server: FakeServer) -> None:
    server.log_cap = 1000
    session = server.submit(sys.executable, "-c", "print('x' * 2_000_000)")
    server.wait_settled(session)
    assert len(session.log) == 1000
    assert session.log_pieces == 1


def test_an_output_past_the_cap_still_tells_why_its_run_failed(
    server: FakeServer, agent: AgentProcess
) -> None:
    """What nobody will read takes no room on the disk, but for its end."""
    server.log_cap = 1000
    script = "head -c 9000000 /dev/zero | tr '\\0' x; echo; echo 'ValueError: no such column';"
    session = shell(server, f"{script} while ! test -e go; do sleep 0.05; done; exit 1")
    directory = agent.state / "runs" / f"{session.id}-1"
    output = directory / "output"
    until(lambda: output.exists() and output.stat().st_size > 9_000_000)
    until(lambda: output.stat().st_blocks * 512 < 2_000_000)
    (directory / "work" / "go").touch()
    server.wait_settled(session)
    assert session.final["log_tail"].endswith("ValueError: no such column\n")
    assert len(session.log) == 1000


def test_a_long_output_keeps_its_end(server: FakeServer) -> None:
    server.log_cap, server.log_tail = 100_000, 50_000
    script = "for n in range(40_000): print(f'line {n:094}')"
    session = server.submit(sys.executable, "-c", script)
    server.wait_settled(session)
    whole = b"".join(b"line %094d\n" % n for n in range(40_000))
    beginning, _, end = session.log.partition(b"\n==== ")
    marker, _, end = end.partition(b" ====\n")
    assert beginning == whole[:100_000]
    assert whole.endswith(end)
    assert end.startswith(b"line ")
    assert len(end) > 49_000
    missing = len(whole) - len(beginning) - len(end)
    assert marker == b"%d bytes of the output are missing here" % missing
    assert len(session.log) <= 150_000


def test_an_output_that_just_fits_has_no_gap(server: FakeServer) -> None:
    server.log_cap, server.log_tail = 100_000, 50_000
    session = server.submit(sys.executable, "-c", "print('x' * 149_000)")
    server.wait_settled(session)
    assert session.log == b"x" * 149_000 + b"\n"


def test_the_termination_log_becomes_the_message(server: FakeServer) -> None:
    script = 'head -c 5000 /dev/zero | tr "\\0" a > "$REPRISE_TERMINATION_LOG";'
    session = shell(server, script + 'printf "end\\377" >> "$REPRISE_TERMINATION_LOG"; exit 1')
    server.wait_settled(session)
    assert session.termination["message"] == "a" * 4092 + "end\N{REPLACEMENT CHARACTER}"


def test_a_termination_log_that_is_no_file_is_not_read(server: FakeServer) -> None:
    session = shell(server, 'mkfifo "$REPRISE_TERMINATION_LOG"; exit 1')
    server.wait_settled(session)
    assert session.termination["message"] == ""


def test_batch_timeout_ends_the_run_with_its_group(server: FakeServer) -> None:
    session = shell(
        server,
        "trap '' TERM; sleep 1000 & echo $!; while :; do wait; done",
        batch_timeout=0.3,
        termination_grace_period=0.2,
    )
    server.wait_settled(session)
    assert session.final["log_tail"] == session.log.decode()
    assert session.termination["reason"] == "DeadlineExceeded"
    assert "batch_timeout of 0.3 s" in session.termination["pod_message"]
    assert session.final["exit_code"] == 137
    assert not alive(int(session.log))


def test_a_cancelled_run_may_end_in_its_grace_period(server: FakeServer) -> None:
    session = shell(server, "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.02; done")
    server.wait_for(lambda: session.log == b"up\n")
    server.stop_session(session, "cancelled", 30)
    server.wait_settled(session)
    assert session.statuses == ["PREPARING", "RUNNING", "TERMINATING", "ERROR"]
    assert session.final["exit_code"] == 5
    assert session.log.endswith(b"bye\n")


def test_a_cancelled_run_that_does_not_end_is_killed(server: FakeServer) -> None:
    session = shell(server, "trap 'echo no' TERM; echo up; while :; do sleep 0.02; done")
    server.wait_for(lambda: session.log == b"up\n")
    server.stop_session(session, "cancelled", 0.3)
    server.wait_settled(session)
    assert session.final["exit_code"] == 137
    assert session.log.endswith(b"no\n")


def test_a_preempted_run_says_so_although_it_ended_well(server: FakeServer) -> None:
    session = shell(server, "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done")
    server.wait_for(lambda: session.log == b"up\n")
    server.stop_session(session, "preempted", 30)
    server.wait_settled(session)
    assert session.final["status"] == "ERROR"
    assert session.termination["reason"] == "Preempted"
    assert session.final["exit_code"] == 0


def test_a_run_that_the_server_let_go_of_dies_unreported(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "echo up; sleep 1000")
    server.wait_for(lambda: session.log == b"up\n")
    server.stop_session(session, "unknown", 0)
    server.wait_settled(session)
    assert session.settled == "missing"
    assert session.statuses == ["PREPARING", "RUNNING"]
    until(lambda: processes_of(agent.state) == [])


@pytest.mark.parametrize(
    "resources",
    [{"memory": "64Mi"}, {"limits": {"memory": "64Mi"}}, {"requests": {"memory": 67108864}}],
)
def test_a_run_over_its_memory_limit_is_killed(
    server: FakeServer, resources: dict[str, object]
) -> None:
    hog = "import time; data = b'x' * 200_000_000; time.sleep(1000)"
    session = server.submit(sys.executable, "-c", hog, resources=resources)
    server.wait_settled(session)
    assert session.termination["reason"] == "OOMKilled"
    assert session.final["exit_code"] == 137


def test_a_run_under_its_memory_limit_is_left_alone(server: FakeServer) -> None:
    script = "import time; data = b'x' * 20_000_000; time.sleep(0.6)"
    session = server.submit(sys.executable, "-c", script, resources={"memory": "256Mi"})
    server.wait_settled(session)
    assert session.final["status"] == "TERMINATED"


def test_a_limit_may_be_more_than_there_is_and_less_than_a_byte(server: FakeServer) -> None:
    most, none = (shell(server, "exit 0", resources={"memory": each}) for each in ("7Ei", "0"))
    least = shell(server, "sleep 30", resources={"memory": "1n"})
    server.wait_settled(most, none, least)
    assert [each.final["status"] for each in (most, none)] == ["TERMINATED"] * 2
    assert least.termination["reason"] == "OOMKilled"
    assert least.termination["pod_message"].endswith("the limit is 1")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"cluster_size": 2}, "one process"),
        ({"pod_spec": {"containers": []}}, "no pods"),
        ({"resources": {"memory": "lots"}}, "'lots' is not a quantity"),
    ],
)
def test_sessions_the_driver_cannot_run_are_handed_back(
    server: FakeServer, spec: dict[str, Any], reason: str
) -> None:
    session = server.submit("true", **spec)
    server.wait_for(lambda: session.returned is not None)
    assert session.returned is not None
    assert reason in session.returned
    assert session.reports == []


def test_the_directory_goes_when_all_was_handed_over(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "echo hello > file")
    server.wait_settled(session)
    until(lambda: list((agent.state / "runs").iterdir()) == [])
