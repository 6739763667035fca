"""Several web processes behind one address: what one of them holds, the others reach."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from reprise_client import Client

from tests.acceptance.running import Standalone, ended, processes_of, submit
from tests.acceptance.test_command_executors import agent
from tests.prepared import copy_database
from tests.streaming import EventReader
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("web processes"),  # one server for all
]

PROCESSES = 2
HELD_SECONDS = 10
"""For which a call for work may be held at most."""
TWICE = {"REPRISE_SIMULATE": '{"exit_codes": [1, 1, 0], "seconds": 0.01}'}
CHAINS, ATTEMPTS = 150, 3
SWEEP_SECONDS = 15
"""Seconds between two sweeps, which find retries whose messages were lost."""


@pytest.fixture(scope="module")
def server(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    data_dir = copy_database(prepared, tmp_path_factory.mktemp("webs") / "data")
    options = ("--port", "0", "--web-processes", str(PROCESSES))
    with Standalone(data_dir, options=options) as server:
        server.start(REPRISE_LOGIN_FAILURES="2")
        yield server
        assert server.violations() == []
        server.stop()
        assert processes_of(data_dir) == []


def webs(server: Standalone) -> list[int]:
    """The web processes."""
    found = processes_of(server.data_dir)
    return sorted(each.pid for each in found if b"\0web_process\0" in each.command)


@contextmanager
def answered_by(server: Standalone, pid: int) -> Iterator[Client]:
    """A new client, whose calls this process answers: the others stand still meanwhile."""
    others = [each for each in webs(server) if each != pid]
    for each in others:
        os.kill(each, signal.SIGSTOP)
    access = server.credentials
    try:
        with Client(access["url"], access["token"], access["project"]) as client:
            yield client
    finally:
        for each in others:
            os.kill(each, signal.SIGCONT)


def scraped(server: Standalone, pattern: str) -> float:
    """The sum of all figures whose line in the metrics matches."""
    access = server.credentials
    headers = {"Authorization": f"Bearer {access['token']}"}
    text = httpx.get(f"{access['url']}/metrics", headers=headers, timeout=PATIENCE_SECONDS).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if re.match(pattern, line))


def test_all_processes_answer_and_count_together(server: Standalone) -> None:
    calls = r'reprise_http_requests_total\{.*route="api/v2/sessions/"'
    first, second = webs(server)
    before = scraped(server, calls)
    for pid, times in ((first, 3), (second, 4)):
        with answered_by(server, pid) as client:
            for _ in range(times):
                assert list(client.sessions()) == []
    for pid in (first, second):
        with answered_by(server, pid):
            assert scraped(server, calls) == before + 7


def test_a_load_while_one_of_them_is_killed(server: Standalone, tmp_path: Path) -> None:
    """Nothing is lost or doubled, and no retry waits for a sweep because of where it was told."""
    token = server.client.executor_create("many", projects=["default/default"]).token
    assert token
    program = agent(server, "many", token, tmp_path / "state")
    access, before = server.credentials, webs(server)
    ids: list[str] = []

    def one(_: int) -> str:
        with Client(access["url"], access["token"], access["project"]) as client:
            return submit(client, "true", environ=TWICE, policy={"max_retries": 2})

    try:
        until(lambda: server.client.executor("many").health == "alive", "its agent has called in")
        server.client.executor_cordon("local", "runs nothing here")
        with ThreadPoolExecutor(8) as threads:
            ids += threads.map(one, range(CHAINS // 2))
        os.kill(before[0], signal.SIGKILL)
        until(lambda: set(webs(server)) - set(before), "another one is there")
        until(lambda: len(webs(server)) == PROCESSES, "both are")
        assert "the web process 1 ended with code -9" in server.program.stderr
        with ThreadPoolExecutor(8) as threads:
            ids += threads.map(one, range(CHAINS // 2))
        late = []
        for each in ids:
            attempts = ended(server.client, each)
            assert [a.status for a in attempts] == ["ERROR", "ERROR", "TERMINATED"]
            for parent, child in pairwise(attempts):
                assert parent.finished_at
                assert child.created_at
                late.append((child.created_at - parent.finished_at).total_seconds())
        # Each is due after 0.2 s. Some messages die with the process.
        assert sorted(late)[len(late) // 2] < SWEEP_SECONDS / 3
        dispatches = r'reprise_task_runs_total\{.*task="sessions_app.tasks.dispatch_due_retries"'
        assert scraped(server, dispatches) > 0
    finally:
        server.client.executor_uncordon("local")
        program.kill()


def _held(server: Standalone, name: str, token: str) -> "Future[Any]":
    """A lease call of an executor, which waits for work."""
    url = f"{server.credentials['url']}/api/v2/executors/{name}/lease/"
    body = {
        "incarnation": 1,
        "limits": {"max_sessions": 5},
        "nodes": [{"name": "n", "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"}}],
        "wait_s": HELD_SECONDS,
    }
    found: Future[Any] = Future()

    def call() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            found.set_result(
                httpx.post(url, json=body, headers=headers, timeout=PATIENCE_SECONDS).json()
            )
        except BaseException as error:  # noqa: BLE001  # whoever waits for it sees it
            found.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return found


def test_work_wakes_a_call_that_another_process_holds(server: Standalone) -> None:
    first, second = webs(server)
    server.client.domain_create("far")
    server.client.project_create("far", "away")
    # On a busy machine the call may be over before there is work.
    assert any(_woken(server, first, second, f"slow-{number}") for number in range(6))


def _woken(server: Standalone, first: int, second: int, name: str) -> bool:
    """Whether a call that one process holds gets work, before its time, that another one took."""
    held = r'reprise_http_held\{kind="lease"\}'
    token = server.client.executor_create(name, projects=["far/away"]).token
    assert token
    with answered_by(server, first):
        before = scraped(server, held)
        began = time.monotonic()
        call = _held(server, name, token)
        until(lambda: scraped(server, held) > before or call.done(), "it is held")
    with answered_by(server, second) as client:
        session = submit(client, "true", project="far/away")
    leased = [each["session_id"] for each in call.result(PATIENCE_SECONDS)["leases"]]
    took = time.monotonic() - began
    server.client.cancel(session)
    return leased == [session] and took < HELD_SECONDS - 1


def test_a_stream_tells_what_another_process_did(server: Standalone) -> None:
    first, second = webs(server)
    access = server.credentials
    session = submit(server.client, "true", resources={"example.com/none": "1"})
    with answered_by(server, first):
        url = f"{access['url']}/api/v2/sessions/{session}/events/"
        reader = EventReader(url, access["token"])
        assert reader.begun.wait(PATIENCE_SECONDS)
    with answered_by(server, second) as client:
        client.cancel(session)
    reader.wait(lambda each: any("cancelled" in t.data["type"] for t in each.events))
    reader.leave()


def _log_in(server: Standalone, pid: int, password: str) -> int:
    access = server.credentials
    url = f"{access['url']}/login/"
    with answered_by(server, pid), httpx.Client(timeout=PATIENCE_SECONDS) as browser:
        page = browser.get(url).text
        field = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert field
        sent = {"username": access["username"], "password": password}
        return browser.post(url, data={**sent, "csrfmiddlewaretoken": field[1]}).status_code


def test_wrong_passwords_are_counted_together(server: Standalone) -> None:
    first, second = webs(server)
    assert _log_in(server, first, "wrong") == 200
    assert _log_in(server, second, "wrong") in {403, 429}
    assert _log_in(server, first, server.credentials["password"]) in {403, 429}


def test_the_port_is_free_after_a_kill(prepared: Path, tmp_path: Path) -> None:
    data_dir = copy_database(prepared, tmp_path / "data")
    with Standalone(data_dir, options=("--port", "0", "--web-processes", "2")) as server:
        server.start()
        port = server.credentials["url"].rpartition(":")[2]
        server.program.signal(signal.SIGKILL)
        server.program.reap()
        until(lambda: not webs(server), "its web processes have died")
    with Standalone(data_dir, options=("--port", port, "--web-processes", "2")) as server:
        server.start()
        session = submit(server.client, "true")
        assert [each.status for each in ended(server.client, session)] == ["TERMINATED"]
        server.stop(signal.SIGINT, group=True)
        assert "Traceback" not in server.program.stderr
        assert processes_of(data_dir) == []


def _connections(server: Standalone, pid: int) -> int:
    """How many connections to the server's port a process has."""
    port = f":{int(server.credentials['url'].rpartition(':')[2]):04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
    theirs = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == "01"}
    held = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()]
    return sum(name in theirs for name in held)


def test_connections_are_spread_over_the_processes(server: Standalone) -> None:
    """An agent has a handful, and keeps them."""
    before = {pid: _connections(server, pid) for pid in webs(server)}
    with ExitStack() as stack:
        for _ in range(12):
            client = stack.enter_context(httpx.Client(timeout=PATIENCE_SECONDS))
            assert client.get(f"{server.credentials['url']}/healthz").status_code == 200
        after = {pid: _connections(server, pid) for pid in before}
        assert sum(after.values()) >= 12
        assert abs(max(after.values()) - min(after.values())) <= 6, (before, after)
