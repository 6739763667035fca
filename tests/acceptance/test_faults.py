"""Tests of what must survive: whole processes are killed at the worst moment, and the next start
goes on alone."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from reprise_client import RepriseError

from tests.acceptance.running import Standalone, ended, processes_of, reached, retry_waits, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("killed"),  # one server for all
]

SWEEP_SECONDS = 20.0
HANGS_ONCE = 'echo "attempt $REPRISE_ATTEMPT"; test "$REPRISE_ATTEMPT" -gt 0 || exec sleep 300'


@pytest.fixture(scope="module")
def server(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Of these tests only; each leaves it running and sound."""
    data_dir = copy_database(prepared, tmp_path_factory.mktemp("faults") / "data")
    with Standalone(data_dir) as server:
        server.start()
        yield server
        server.stop()
        assert processes_of(server.data_dir) == []


@pytest.fixture(autouse=True)
def _sound(server: Standalone) -> Iterator[None]:
    yield
    assert server.violations() == []


def _kill_everything(server: Standalone) -> None:
    server.kill()
    until(lambda: not processes_of(server.data_dir), "what it started has died")


def test_a_run_of_a_killed_life_comes_back(server: Standalone) -> None:
    session = submit(server.client, HANGS_ONCE, policy={"max_retries": 1})
    until(lambda: server.client.logs(session), "its output is there")
    _kill_everything(server)
    server.start()
    attempts = ended(server.client, session)
    assert [(a.status, a.cause) for a in attempts] == [
        ("ERROR", "agent_transient"),
        ("TERMINATED", None),
    ]
    assert [server.client.logs(a.id) for a in attempts] == [b"attempt 0\n", b"attempt 1\n"]


def test_a_run_of_a_killed_life_spends_its_own_budget(server: Standalone) -> None:
    policy = {"max_retries": 0, "max_preemption_retries": 1}
    session = submit(server.client, HANGS_ONCE, policy=policy)
    reached(server.client, session, "RUNNING")
    _kill_everything(server)
    server.start()
    attempts = ended(server.client, session)
    assert [a.status for a in attempts] == ["ERROR", "TERMINATED"]
    assert server.client.session(attempts[1].id).retry_counters == {"inline/preemption": 1}


def test_an_end_that_nobody_heard_of_is_told_by_the_next_life(
    server: Standalone, tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    script = f"until [ -e '{go_on}' ]; do sleep 0.05; done; echo over"
    session = submit(server.client, script, policy={"max_retries": 3})
    reached(server.client, session, "RUNNING")
    journal = server.data_dir / "executor" / "reports" / "journal"
    server.program.signal(signal.SIGSTOP)  # it hears no more
    go_on.touch()
    until(lambda: b'"TERMINATED"' in _about(journal, session), "the report is on the disk")
    _kill_everything(server)
    server.start()
    (attempt,) = ended(server.client, session)
    assert (attempt.status, attempt.exit_code) == ("TERMINATED", 0)
    assert server.client.logs(session) == b"over\n"


def _about(journal: Path, session_id: str) -> bytes:
    lines = journal.read_bytes().splitlines()
    return b"\n".join(line for line in lines if session_id.encode() in line)


def test_a_retry_that_waits_happens_in_the_next_life(server: Standalone) -> None:
    """Its hint died with the broker in memory: the sweep brings it."""
    script = 'test "$REPRISE_ATTEMPT" -gt 0'
    began = time.monotonic()
    _kill_everything(server)
    server.start()
    delay = 3 + 2 * (time.monotonic() - began)  # the next life has begun before the retry is due
    session = submit(server.client, script, policy={"max_retries": 1, "retry_delay": delay})
    due = retry_waits(server.client, session).retry_state.due_at
    assert due is not None
    _kill_everything(server)
    server.start()
    assert server.client.session(session).retry_state.due_at == due
    attempts = ended(server.client, session)
    assert [a.status for a in attempts] == ["ERROR", "TERMINATED"]
    came = attempts[1].created_at
    assert came is not None
    assert timedelta(0) <= came - due <= timedelta(seconds=SWEEP_SECONDS)


def test_a_retry_that_came_due_while_nothing_ran_comes_at_the_start(server: Standalone) -> None:
    script = 'test "$REPRISE_ATTEMPT" -gt 0'
    session = submit(server.client, script, policy={"max_retries": 1, "retry_delay": 0.8})
    retry_waits(server.client, session)
    _kill_everything(server)
    server.start()
    attempts = ended(server.client, session)
    assert [a.status for a in attempts] == ["ERROR", "TERMINATED"]


def test_a_killed_agent_takes_its_runs_along_and_they_come_back(server: Standalone) -> None:
    session = submit(server.client, HANGS_ONCE, policy={"max_retries": 1})
    reached(server.client, session, "RUNNING")
    (run,) = (server.data_dir / "executor" / "runs").glob(f"{session}*")
    until(lambda: processes_of(run), "its process runs")
    agent = server.agent_pid()
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    until(lambda: not processes_of(run), "its process has died with its agent")
    attempts = ended(server.client, session)
    assert [(a.status, a.cause) for a in attempts] == [
        ("ERROR", "agent_transient"),
        ("TERMINATED", None),
    ]


def test_a_killed_postgresql_is_started_again(server: Standalone) -> None:
    policy = {"max_retries": 1, "retry_delay": 3}
    running = submit(server.client, "sleep 4; echo over")
    waiting = submit(server.client, 'test "$REPRISE_ATTEMPT" -gt 0', policy=policy)
    reached(server.client, running, "RUNNING")
    retry_waits(server.client, waiting)
    pid = int((server.data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    until(lambda: _answers(server), "the database answers")
    assert [a.status for a in ended(server.client, running)] == ["TERMINATED"]
    assert server.client.logs(running) == b"over\n"
    assert [a.status for a in ended(server.client, waiting)] == ["ERROR", "TERMINATED"]
    # Worker, beat and listener work again, not only the web server.
    again = submit(server.client, 'test "$REPRISE_ATTEMPT" -gt 1', policy={"max_retries": 2})
    assert len(ended(server.client, again)) == 3


def _answers(server: Standalone) -> bool:
    try:
        return bool(server.client.whoami())
    except RepriseError:
        return False
