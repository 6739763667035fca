"""Operators make room, with real agents: a session is preempted, an executor is drained."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from reprise_client import Client, Session

from tests.acceptance.running import Program, Standalone, ended, reached, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("preemption"),  # one server for all
]

SLEEPS_ONCE = 'test "$REPRISE_ATTEMPT" -gt 0 || exec sleep 300'
LEAVES_BY_ITSELF = """
    test "$REPRISE_ATTEMPT" -gt 0 && exit
    trap 'exit 3' TERM
    echo ready
    while :; do sleep 0.1; done
"""
RUNS = 100
SIMULATED = json.dumps({"exit_codes": 0, "seconds": [300, 0.1]})


@pytest.fixture(scope="module")
def server(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    data_dir = copy_database(prepared, tmp_path_factory.mktemp("preemption") / "data")
    with Standalone(data_dir) as standalone:
        standalone.start()
        yield standalone
        assert standalone.violations() == []


def test_a_preempted_session_comes_back(server: Standalone) -> None:
    client = server.client
    policy = {"max_retries": 0, "max_preemption_retries": 3, "retry_delay": 2}
    session = submit(client, SLEEPS_ONCE, policy=policy)
    reached(client, session, "RUNNING")
    asked = client.preempt(session, reason="make room")
    assert asked.status_message == "preempted by admin: make room"
    first, second = ended(client, session)
    assert (first.status, first.cause) == ("ERROR", "preempted")
    assert second.status == "TERMINATED"
    decision = client.decision(session)
    assert decision.paid_by == "inline/preemption"
    assert asked.preempt_requested_at is not None
    assert decision.decided_at is not None
    # On a busy machine the run may need longer than that to stop.
    soonest = asked.preempt_requested_at + timedelta(seconds=2)
    assert decision.due_at == max(soonest, decision.decided_at)
    assert client.session(session).status_message == asked.status_message


def test_its_output_during_a_stop_is_no_failure(server: Standalone) -> None:
    client = server.client
    session = submit(client, LEAVES_BY_ITSELF, policy={"max_preemption_retries": 1})
    until(lambda: b"ready" in client.logs(session), "it listens")
    client.preempt(session)
    first, second = ended(client, session)
    assert (first.cause, first.exit_code, second.status) == ("preempted", 3, "TERMINATED")


def test_an_executor_is_drained_and_no_run_is_lost_or_doubled(
    server: Standalone, tmp_path: Path
) -> None:
    client = server.client
    _manage(server, "create_project", "default/simulated")
    with _simulated(server, tmp_path, "old"):
        body = {
            "project": "default/simulated",
            "command": ["true"],
            "job_set": "drained",
            "environ": {"REPRISE_SIMULATE": SIMULATED},
            "termination_grace_period": 1,
            "retry_policy": {"max_preemption_retries": 1, "retry_delay": 0.2},
        }
        made = client.sessions_create([body] * RUNS)
        roots = {each.session_id for each in made if each.session_id}
        until(lambda: _statuses(client)["RUNNING"] == RUNS, "all run on the old one")
        drained = client.executor_drain("old", reason="new kernel")
        assert (drained.asked, drained.returned, drained.kept) == (RUNS, 0, 0)
        with _simulated(server, tmp_path, "new"):
            until(lambda: _statuses(client)["TERMINATED"] == RUNS, "all have come back")
        until(lambda: client.executor("old").lease_count == 0, "the old one has nothing left")
    tips = list(_attempts(client, tip=True))
    assert {each.root_session_id for each in tips} == roots
    assert {(each.retry_count, each.executor) for each in tips} == {(1, "new")}
    (message,) = {each.status_message for each in _attempts(client, executor="old")}
    assert message == "preempted by admin: executor old: new kernel"
    assert _started(tmp_path, "old") == _started(tmp_path, "new") == Counter(roots)


def _attempts(client: Client, **filters: Any) -> Iterator[Session]:
    return client.sessions(project="default/simulated", job_set="drained", **filters)


def _started(directory: Path, name: str) -> Counter[str]:
    """Return how often the executor started a run of each chain, as its own log says."""
    parsed = [json.loads(line) for line in (directory / f"{name}.runs").read_text().splitlines()]
    return Counter(each[3] for each in parsed if each[0] == "started")


def _statuses(client: Client) -> Counter[str]:
    return Counter(each.status for each in _attempts(client, tip=True, page_size=500))


def _manage(server: Standalone, *arguments: str) -> None:
    environ = {
        "DATABASE_URL": server.database_url,
        "DJANGO_SETTINGS_MODULE": "reprise.settings",
    }
    program = Program([sys.executable, "manage.py", *arguments], **environ)
    assert program.reap() == 0, program.stderr


@contextmanager
def _simulated(server: Standalone, directory: Path, name: str) -> Iterator[None]:
    """An agent with the simulated driver, for the project that the local one does not serve."""
    token = directory / f"{name}.token"
    project = ("--project", "default/simulated")
    _manage(server, "create_executor", name, *project, "--token-file", str(token))
    agent = Program(
        [
            *(sys.executable, "-m", "executor", "--name", name, "--driver", "simulated"),
            *("--url", server.credentials["url"], "--token-file", str(token)),
            *("--state-dir", str(directory / name), "--max-sessions", str(2 * RUNS)),
            *("--run-log", str(directory / f"{name}.runs")),
        ]
    )
    try:
        yield
    finally:
        agent.kill()
