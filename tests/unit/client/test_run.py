import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import TOKEN, FakeServer, Reply
from tests.waiting import PATIENCE_SECONDS


def at(attempt: int, rest: str = "") -> str:
    return f"GET /sessions/{IDS[attempt]}/{rest}"


def script_chain(server: FakeServer) -> None:
    """Attempt 1 fails with code 3, attempt 2 succeeds."""
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    server.on(
        at(0),
        answers.session("PENDING"),
        answers.session(),
        answers.failed(0, due_at="2026-03-02T14:01:07Z"),
        answers.failed(0, due_at="2026-03-02T14:01:07Z"),
        answers.failed(0, due_at="2026-03-02T14:01:07Z"),
        answers.failed(0, due_at="2026-03-02T14:01:07Z"),
        answers.retried(0),
    )
    server.on(at(0, "retry-decision/"), answers.decision(session_id=IDS[0], used=0))
    server.on(at(0, "logs/"), answers.log(b"no luck\n"))
    server.on(at(1), answers.session(attempt=1), answers.succeeded(1))
    server.on(at(1, "logs/"), answers.log(b"done"))


def test_run_follows_every_attempt(command: Command, server: FakeServer) -> None:
    script_chain(server)
    result = command("run", "busybox", "--retries", "3", "--policy", "ml", "--", "sh", "-c", "x")
    assert result.exit_code == 0
    assert result.stdout == "no luck\ndone"
    output = result.stderr.splitlines()
    assert output[0] == f"--- attempt 1; 0 of 3 retries for failures used, session {IDS[0]}"
    assert output[1] == "attempt 1 failed: kernel_nonzero_exit, exit code 3, on node-a"
    assert output[2].startswith("attempt 2 is due since ")
    assert output[2].endswith("because kernel_nonzero_exit; pays inline/failure 1 of 3")
    assert output[3] == f"--- attempt 2; 1 of 3 retries for failures used, session {IDS[1]}"
    assert output[-1] == "attempt 2 succeeded"
    body = server.calls[0].body
    assert body["command"] == ["sh", "-c", "x"]
    assert body["retry_policies"] == ["ml"]
    assert body["retry_policy"] == {"max_retries": 3}


def test_run_exits_as_the_last_attempt_did(command: Command, server: FakeServer) -> None:
    end = answers.failed(0, exit_code=42, state="not_retried", reason="no_policy")
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    server.on(at(0), end)
    server.on(at(0, "logs/"), answers.log(b""))
    result = command("run", "busybox", "false")
    assert result.exit_code == 42
    assert "no retry, because nobody asked for retries" in result.stderr


def test_a_session_that_never_ran_says_why(command: Command, server: FakeServer) -> None:
    end = answers.failed(0, exit_code=None, state="not_retried", reason="no_policy")
    end |= {
        "started_at": None,
        "retry_cause": "image_pull_failure",
        "status_message": "container main: its image busybox cannot be pulled.",
    }
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    server.on(at(0), end)
    server.on(at(0, "logs/"), answers.log(b""))
    output = command("run", "busybox", "false").stderr.splitlines()
    assert output[1] == "attempt 1 failed: image_pull_failure, on node-a"
    assert output[2] == "container main: its image busybox cannot be pulled."


def test_run_detached_prints_the_id(command: Command, server: FakeServer) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    result = command("run", "-d", "busybox")
    assert (result.exit_code, result.stdout) == (0, f"{IDS[0]}\n")
    assert len(server.calls) == 1


def environment(server: FakeServer, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "REPRISE_URL": server.url,
        "REPRISE_TOKEN": TOKEN,
        "REPRISE_CONFIG": str(tmp_path / "none.yaml"),
    }


START = [sys.executable, "-c", "from reprise_client.cli.main import main; main()"]


def test_an_interrupt_cancels_the_chain_and_waits_for_it(
    server: FakeServer, tmp_path: Path
) -> None:
    cancelled = answers.session("CANCELLED", retry_state={"state": "cancelled"})
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    server.on(at(0), answers.session())
    server.on(at(0, "logs/"), answers.log(b"working\n"))
    server.on(f"POST /sessions/{IDS[0]}/cancel/", answers.session())
    with subprocess.Popen(
        [*START, "run", "busybox", "--", "sleep", "60"],
        env=environment(server, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        server.await_call("GET", f"/sessions/{IDS[0]}/logs/")
        process.send_signal(signal.SIGINT)
        server.await_call("POST", f"/sessions/{IDS[0]}/cancel/")
        server.on(at(0), cancelled)
        _, printed = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "Cancelling" in printed
    assert "attempt 1 was cancelled" in printed
    assert "Traceback" not in printed


def test_a_second_interrupt_leaves(server: FakeServer, tmp_path: Path) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    server.on(at(0), answers.session("PENDING"))
    server.on(f"POST /sessions/{IDS[0]}/cancel/", answers.session("PENDING"))
    with subprocess.Popen(
        [*START, "run", "busybox"],
        env=environment(server, tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        server.await_call("GET", f"/sessions/{IDS[0]}/")
        process.send_signal(signal.SIGINT)
        server.await_call("POST", f"/sessions/{IDS[0]}/cancel/")
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in printed


@pytest.mark.parametrize("module", ["django", "celery", "rest_framework"])
def test_nothing_of_the_server_is_imported(module: str) -> None:
    check = f"import sys, reprise_client.cli.main; sys.exit({module!r} in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", check], check=False, timeout=PATIENCE_SECONDS
        ).returncode
        == 0
    )


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">/dev/full", 1, "reprise: cannot write the answer: No space left on device\n"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
    ],
)
def test_a_standard_output_of_no_use_is_no_traceback(
    server: FakeServer, tmp_path: Path, redirection: str, code: int, message: str
) -> None:
    server.on("GET /sessions/", answers.page(answers.session()))
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *START, "session", "list"],
        env=environment(server, tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (code, message)


def test_letters_that_the_terminal_lacks_are_replaced(server: FakeServer, tmp_path: Path) -> None:
    server.on("GET /sessions/", answers.page({**answers.session(), "name": "größe"}))
    environ = {**environment(server, tmp_path), "PYTHONIOENCODING": "ascii"}
    command = [*START, "session", "list"]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr??e" in done.stdout


def test_run_wants_an_image_before_the_dashes(command: Command, server: FakeServer) -> None:
    result = command("run", "--", "true")
    assert result.exit_code == 2
    assert "IMAGE" in result.stderr
    assert server.calls == []
