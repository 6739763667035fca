"""The `reprise` command as people and scripts use it, against a running server."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reprise_client import Client

from tests.acceptance.running import (
    ROOT,
    Program,
    Standalone,
    clean_environ,
    ended,
    reached,
    retry_waits,
    submit,
)
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

REPRISE = str(Path(sys.executable).with_name("reprise"))
FLAKY = 'echo "attempt $REPRISE_ATTEMPT"; test "$REPRISE_ATTEMPT" -gt 1 || exit 75'
UNKNOWN = "00000000-0000-7000-8000-000000000000"
RETRIES = ("--retries", "3", "--retry-delay", "0.2")

Run = subprocess.CompletedProcess[str]
Reprise = Callable[..., Run]


@pytest.fixture
def config(standalone: Standalone, tmp_path: Path) -> Path:
    """The configuration that `reprise login` writes."""
    path = tmp_path / "config.yaml"
    credentials = standalone.data_dir / "credentials.json"
    done = _reprise(path, "login", "--credentials", str(credentials))
    assert done.returncode == 0, done.stderr
    return path


def _reprise(config: Path, *arguments: str, **environ: str) -> Run:
    return subprocess.run(
        [REPRISE, *arguments],
        env=clean_environ(REPRISE_CONFIG=str(config), **environ),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.fixture
def reprise(config: Path) -> Reprise:
    return lambda *arguments: _reprise(config, *arguments)


def _json(reprise: Reprise, *arguments: str) -> Any:
    done = reprise(*arguments[:2], "-o", "json", *arguments[2:])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_login_keeps_the_token_private(config: Path, reprise: Reprise) -> None:
    assert config.stat().st_mode & 0o077 == 0
    done = reprise("context", "show")
    assert "http://127.0.0.1:" in done.stdout
    assert done.returncode == 0


def test_run_shows_each_attempt_once_and_ends_with_the_last_exit_code(reprise: Reprise) -> None:
    done = reprise("run", "any", *RETRIES, "--", "sh", "-c", FLAKY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "attempt 0\nattempt 1\nattempt 2\n"
    headings = re.findall(r"^--- (attempt \d)(.*), session", done.stderr, re.MULTILINE)
    assert [attempt for attempt, _ in headings] == ["attempt 1", "attempt 2", "attempt 3"]
    # The last one may have succeeded by then: nothing binds it any more.
    used = [f"; {number} of 3 retries for failures used" for number in range(3)]
    assert all(budget in {each, ""} for (_, budget), each in zip(headings, used, strict=True))
    assert done.stderr.count("attempt 1 failed") == 1
    assert done.stderr.count("attempt 3 succeeded") == 1


def test_a_secret_comes_to_the_run_and_stays_nowhere(
    config: Path, standalone: Standalone, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text("okapi-0f3b\n")
    words = "zebra-7d1c|okapi-0f3b"
    options = ["--secret-env", "TOKEN", "--secret-env", f"KEY=@{file}", "--retries", "1"]
    # The first attempt fails: a retry has them, too.
    script = (
        'printf %s "$TOKEN|$KEY" | sha256sum | head -c 64; test "$REPRISE_ATTEMPT" -gt 0 || exit 75'
    )
    arguments = ["run", "any", "--retry-delay", "0.2", *options, "--", "sh", "-c", script]
    done = _reprise(config, *arguments, TOKEN="zebra-7d1c")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(hashlib.sha256(words.encode()).hexdigest()) == 2
    kept = [path for path in standalone.data_dir.rglob("*") if path.is_file()]
    # The agent's journal and state, all logs, and the database with all that it ever wrote.
    assert len(kept) > 100
    for secret in (b"zebra-7d1c", b"okapi-0f3b"):
        assert [path for path in kept if path.exists() and secret in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [("MISSING", "no variable MISSING"), ("A=hunter2", "NAME or NAME=@FILE"), ("A=@/no", "/no")],
)
def test_a_secret_on_the_command_line_is_refused(
    reprise: Reprise, given: str, message: str
) -> None:
    done = reprise("run", "any", "--secret-env", given, "--", "true")
    assert done.returncode == 2
    assert message in re.sub(r"[\s│]+", " ", done.stderr)
    assert "hunter2" not in done.stderr


def test_run_of_a_failure_ends_with_its_code(reprise: Reprise) -> None:
    done = reprise(
        "run", "any", "--retries", "1", "--retry-delay", "0.2", "--", "sh", "-c", "exit 42"
    )
    assert done.returncode == 42
    assert "used up" in done.stderr


def test_ctrl_c_cancels_what_runs(config: Path, client: Client) -> None:
    command = [
        REPRISE,
        "run",
        "any",
        "--name",
        "interrupted",
        "--",
        "sh",
        "-c",
        "echo on; sleep 300",
    ]
    program = Program(command, REPRISE_CONFIG=str(config))
    until(lambda: "on\n" in program.stdout, "its log is followed")
    program.signal(signal.SIGINT, group=True)
    assert program.reap() == 130
    (session,) = client.sessions(search="interrupted")
    assert session.status == "CANCELLED"


def test_a_session_seen_from_all_sides(reprise: Reprise) -> None:
    created = _json(reprise, "session", "create", "any", *RETRIES, "--", "sh", "-c", FLAKY)
    first = created["id"]
    waited = reprise("session", "wait", first)
    assert waited.returncode == 0
    for number in (1, 2):
        assert waited.stderr.count(f"attempt {number} failed") == 1

    attempts = _json(reprise, "session", "attempts", first)
    assert [each["attempt"] for each in attempts] == [0, 1, 2]
    assert [each["status"] for each in attempts] == ["ERROR", "ERROR", "TERMINATED"]
    second = attempts[1]["id"]
    info = _json(reprise, "session", "info", second)
    assert (info["parent_session_id"], info["retry_count"]) == (first, 1)
    shown = reprise("session", "info", second).stdout
    assert "attempt 2; 1 of 3 retries for failures used" in shown
    assert first in shown

    explained = _json(reprise, "session", "explain", second)
    assert (explained["action"], explained["cause"]) == ("retry", "kernel_nonzero_exit")
    assert explained["trace"]
    assert "kernel_nonzero_exit" in reprise("session", "explain", second).stdout
    assert reprise("session", "logs", second).stdout == "attempt 1\n"
    everything = reprise("session", "logs", first, "--all-attempts").stdout
    assert everything == "attempt 0\nattempt 1\nattempt 2\n"
    listed = [each["id"] for each in _json(reprise, "session", "list", "--limit", "0")]
    assert {each["id"] for each in attempts} <= set(listed)


def test_a_waiting_retry_is_announced_and_cancelled(reprise: Reprise, client: Client) -> None:
    session = submit(client, "exit 1", policy={"max_retries": 1, "retry_delay": 600})
    retry_waits(client, session)
    shown = reprise("session", "info", session).stdout
    assert re.search(r"attempt 2 in (9 min|10 min)", shown)
    timed_out = reprise("session", "wait", session, "--timeout", "0.5")
    assert timed_out.returncode == 124
    assert _one_line(timed_out.stderr.splitlines()[-1:])
    assert reprise("session", "cancel", session).returncode == 0
    assert "was cancelled" in reprise("session", "info", session).stdout


def test_the_priority_of_what_waits_is_changed(reprise: Reprise, client: Client) -> None:
    first = submit(client, "true", resources={"cpu": "9000"}, job_set="huge")
    second = submit(client, "true", resources={"cpu": "9000"}, job_set="huge")
    assert _json(reprise, "session", "priority", first, "--to", "-5")["priority"] == -5
    several = ("session", "priority", "--all", "--job-set", "huge", "--to", "7")
    assert reprise(*several, "--dry-run").returncode == 0
    assert client.session(first).priority == -5
    assert {each["outcome"] for each in _json(reprise, *several)} == {"updated"}
    assert [client.session(each).priority for each in (first, second)] == [7, 7]
    assert reprise("session", "cancel", "--all", "--job-set", "huge").returncode == 0
    assert reprise("session", "priority", first, "--to", "1").returncode == 5


def test_what_runs_is_preempted_by_filter(reprise: Reprise, client: Client) -> None:
    policy = {"max_retries": 0, "max_preemption_retries": 1}
    script = 'test "$REPRISE_ATTEMPT" -gt 0 || exec sleep 300'
    session = submit(client, script, policy=policy, job_set="long")
    reached(client, session, "RUNNING")
    several = ("session", "preempt", "--all", "--job-set", "long", "--reason", "a demo")
    assert reprise(*several, "--dry-run").returncode == 0
    assert client.session(session).status == "RUNNING"
    (made,) = _json(reprise, *several)
    assert (made["session_id"], made["outcome"]) == (session, "preempted")
    first, second = ended(client, session)
    assert (first.status, second.status) == ("ERROR", "TERMINATED")
    assert "a demo" in client.session(session).status_message
    assert reprise(*several).returncode == 5


def test_retry_by_hand(reprise: Reprise, client: Client) -> None:
    session = submit(client, 'test "$REPRISE_ATTEMPT" -gt 0')
    ended(client, session)
    child = _json(reprise, "session", "retry", session)["id"]
    assert reprise("session", "wait", child).returncode == 0
    refused = reprise("session", "retry", session)
    assert refused.returncode == 5
    assert _one_line(refused.stderr.splitlines())


def test_follow_a_log_that_grows(config: Path, client: Client, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    script = f"echo one; until [ -e '{go_on}' ]; do sleep 0.05; done; echo two"
    session = submit(client, script)
    reached(client, session, "RUNNING")
    program = Program([REPRISE, "session", "logs", "-f", session], REPRISE_CONFIG=str(config))
    until(lambda: program.stdout == "one\n", "the first line is shown")
    go_on.touch()
    assert program.reap() == 0
    assert program.stdout == "one\ntwo\n"


def _one_line(lines: list[str]) -> bool:
    return len(lines) == 1 and lines[0].startswith("reprise: ")


@pytest.mark.parametrize(
    "command", ["info", "attempts", "logs", "explain", "wait", "cancel", "retry"]
)
def test_an_unknown_id_is_one_line(reprise: Reprise, command: str) -> None:
    done = reprise("session", command, UNKNOWN)
    assert done.returncode == 3
    assert _one_line(done.stderr.splitlines()), done.stderr
    assert done.stdout == ""


def test_a_wrong_id_is_one_line(reprise: Reprise) -> None:
    done = reprise("session", "info", "nonsense")
    assert done.returncode == 2
    assert _one_line(done.stderr.splitlines()), done.stderr


def test_a_bad_field_is_named(reprise: Reprise) -> None:
    done = reprise("run", "any", "--retries", "1000001", "--", "true")
    assert done.returncode == 5
    assert _one_line(done.stderr.splitlines()), done.stderr
    assert "max_retries" in done.stderr


def test_a_dead_server_is_one_line(tmp_path: Path) -> None:
    environ = {"REPRISE_URL": "http://127.0.0.1:1", "REPRISE_TOKEN": "t"}
    for arguments in (["session", "list"], ["run", "any", "--", "true"]):
        done = subprocess.run(
            [REPRISE, *arguments],
            env=clean_environ(REPRISE_CONFIG=str(tmp_path / "none"), **environ),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 6
        assert _one_line(done.stderr.splitlines()), done.stderr


def test_a_wrong_token_is_one_line(standalone: Standalone, tmp_path: Path) -> None:
    url = standalone.credentials["url"]
    done = _reprise(tmp_path / "none", "login", url, "--token", "wrong")
    assert done.returncode == 4
    assert _one_line(done.stderr.splitlines()), done.stderr
    assert not os.path.lexists(tmp_path / "none")
