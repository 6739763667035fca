"""The main job with real processes: sessions run, fail, come back, and say why."""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from reprise_client import ApiError, Attempt, Client, Failure, Session

from tests.acceptance.running import (
    ROOT,
    Standalone,
    ended,
    processes_of,
    reached,
    retry_waits,
    submit,
)
from tests.waiting import until

pytestmark = pytest.mark.slow

KINDS = ("python", "text")
FLAKY = """
echo "attempt $REPRISE_ATTEMPT"
env | grep ^REPRISE_ | sort
if [ "$REPRISE_ATTEMPT" -lt 2 ]; then exit 75; fi
"""
STUBBORN = """
trap 'echo "asked to end"' TERM
echo ready
while :; do sleep 0.05; done
"""


def _statuses(attempts: list[Attempt]) -> list[str]:
    return [each.status for each in attempts]


def _log(client: Client, session_id: str) -> str:
    return client.logs(session_id).decode()


def _await_log(client: Client, session_id: str, text: str) -> None:
    until(lambda: text in _log(client, session_id), f"{text!r} in the log")


def test_fails_then_succeeds_after_its_delays(client: Client) -> None:
    policy = {"max_retries": 3, "retry_delay": 0.4, "backoff": "exponential"}
    attempts = ended(client, submit(client, FLAKY, policy=policy))
    assert _statuses(attempts) == ["ERROR", "ERROR", "TERMINATED"]
    assert [(each.cause, each.exit_code) for each in attempts] == [
        *[("kernel_nonzero_exit", 75)] * 2,
        (None, 0),
    ]
    for delay, (failed, child) in zip((0.4, 0.8), pairwise(attempts), strict=True):
        decision = client.decision(failed.id)
        assert decision.delay == delay
        assert decision.due_at is not None
        assert decision.next_session_id == child.id
        assert failed.finished_at is not None
        assert child.created_at is not None
        assert child.started_at is not None
        assert decision.due_at - failed.finished_at >= timedelta(seconds=delay)
        assert child.created_at >= decision.due_at, "a child came before it was due"
        assert child.started_at - decision.due_at < timedelta(seconds=10), "no hint brought it"


def test_each_attempt_knows_who_it_is_and_keeps_its_log(client: Client) -> None:
    first = submit(client, FLAKY, policy={"max_retries": 3}, job_set="nightly")
    attempts = ended(client, first)
    environs = []
    for number, attempt in enumerate(attempts):
        heading, *lines = _log(client, attempt.id).splitlines()
        assert heading == f"attempt {number}"
        environs.append(dict(line.split("=", 1) for line in lines))
    for number, environ in enumerate(environs):
        assert environ.pop("REPRISE_TERMINATION_LOG")
        assert environ == {
            "REPRISE_SESSION_ID": attempts[number].id,
            "REPRISE_ROOT_SESSION_ID": first,
            "REPRISE_PARENT_SESSION_ID": attempts[number - 1].id if number else "",
            "REPRISE_ATTEMPT": str(number),
            "REPRISE_PREVIOUS_CAUSE": "kernel_nonzero_exit" if number else "",
            "REPRISE_PREVIOUS_EXIT_CODE": "75" if number else "",
            "REPRISE_CHECKPOINT": "",
            "REPRISE_STEP": "",
            "REPRISE_PROJECT": "default/default",
            "REPRISE_QUEUE": "default",
            "REPRISE_JOB_SET": "nightly",
        }


def test_a_chain_that_is_exhausted_says_so(client: Client) -> None:
    attempts = ended(client, submit(client, "exit 3", policy={"max_retries": 2}))
    assert _statuses(attempts) == ["ERROR"] * 3
    sessions = [client.session(each.id) for each in attempts]
    assert [s.retry_state.state for s in sessions] == ["retried", "retried", "exhausted"]
    assert [s.retry_state.attempt for s in sessions] == [0, 1, 2]
    assert {s.retry_state.max_attempts for s in sessions} == {3}
    assert [s.retry_counters.get("inline/failure", 0) for s in sessions] == [0, 1, 2]
    last = client.decision(attempts[-1].id)
    assert (last.action, last.reason, last.due_at) == ("fail", "max_retries", None)
    assert last.explanation
    types = [event.type for event in client.events(attempts[-1].id)]
    assert types[0] == "session.submitted"
    assert types[-1] == "session.retry_exhausted"


def test_without_a_policy_nothing_is_retried(client: Client) -> None:
    session = client.session_create(image="any", command=["sh", "-c", "exit 3"])
    assert _statuses(ended(client, session.id)) == ["ERROR"]
    assert client.session(session.id).retry_state.state == "not_retried"
    assert client.decision(session.id).reason == "no_policy"


def test_cancel_ends_a_run_that_listens(client: Client) -> None:
    session = submit(client, "echo ready; exec sleep 300", policy={"max_retries": 3})
    _await_log(client, session, "ready")
    client.cancel(session)
    assert _statuses(ended(client, session)) == ["CANCELLED"]
    assert client.session(session).retry_state.state == "cancelled"
    assert client.decision(session).reason == "never_retried"
    again = client.cancel(session)
    assert again.status == "CANCELLED"


def test_cancel_kills_a_run_that_does_not_after_its_grace(
    client: Client, standalone: Standalone
) -> None:
    session = submit(client, STUBBORN, policy={"max_retries": 3}, termination_grace_period=1.5)
    _await_log(client, session, "ready")
    began = time.monotonic()
    client.cancel(session)
    assert _statuses(ended(client, session)) == ["CANCELLED"]
    assert time.monotonic() - began >= 1.4
    assert "asked to end" in _log(client, session)
    assert not _processes_of_session(standalone, session)


def _processes_of_session(standalone: Standalone, session_id: str) -> bool:
    runs = (standalone.data_dir / "executor" / "runs").glob(f"{session_id}*")
    return any(processes_of(run) for run in runs)


def test_cancel_ends_a_retry_that_waits(client: Client) -> None:
    policy = {"max_retries": 3, "retry_delay": 600}
    session = submit(client, "exit 1", policy=policy)
    retry_waits(client, session)
    cancelled = client.cancel(session)
    assert (cancelled.status, cancelled.retry_state.state) == ("ERROR", "cancelled")
    assert cancelled.chain_over
    assert len(client.attempts(session)) == 1


def test_cancel_at_about_the_time_of_dispatch(client: Client) -> None:
    """The chain ends in either order: it is cancelled while it waits, or as a cancelled child."""
    with ThreadPoolExecutor(12) as pool:
        sessions = list(pool.map(lambda step: _cancelled_near_due(client, step), range(-4, 8)))
    chains = [ended(client, session) for session in sessions]
    for chain in chains:
        assert len(chain) <= 2
        assert chain[-1].status == ("ERROR" if len(chain) == 1 else "CANCELLED")
    assert {len(chain) for chain in chains} == {1, 2}, "cancels did not meet both sides"


def _cancelled_near_due(client: Client, step: int) -> str:
    """A session, cancelled by so many tenths of a second from when its retry is due: the first one
    at once, and the last one when its child is there, however slow this machine is."""
    script = 'test "$REPRISE_ATTEMPT" -eq 0 && exit 1; sleep 300'
    session = submit(client, script, policy={"max_retries": 50, "retry_delay": 5})
    due = retry_waits(client, session).retry_state.due_at
    assert due is not None
    if step == 7:
        until(lambda: client.session(session).successor_id, "its child is there")
    elif step > -4:
        moment = due + timedelta(milliseconds=100 * step)
        threading.Event().wait(max(0.0, (moment - datetime.now(UTC)).total_seconds()))
    client.cancel(session)
    return session


def test_a_run_past_its_batch_timeout_is_ended(client: Client) -> None:
    policy = {"max_retries": 1, "eligible_causes": ["deadline_exceeded"]}
    began = time.monotonic()
    session = submit(
        client, STUBBORN, policy=policy, batch_timeout=0.5, termination_grace_period=0.5
    )
    attempts = ended(client, session)
    assert [(a.status, a.cause) for a in attempts] == [("ERROR", "deadline_exceeded")] * 2
    assert time.monotonic() - began >= 2.0


def test_a_run_over_its_memory_is_killed(client: Client) -> None:
    script = "exec python3 -c 'import time; held = b\"x\" * (300 << 20); time.sleep(300)'"
    session = submit(client, script, resources={"memory": "64Mi"})
    (attempt,) = ended(client, session)
    assert (attempt.status, attempt.cause) == ("ERROR", "oom_killed")
    assert "memory" in (client.session(session).status_message or "")


def test_the_last_message_of_a_session_is_kept(client: Client) -> None:
    script = 'printf "the network went away" > "$REPRISE_TERMINATION_LOG"; exit 1'
    session = submit(client, script)
    ended(client, session)
    assert client.decision(session).termination["message"] == "the network went away"


def test_a_plain_failure_leaves_the_preemption_budget_alone(client: Client) -> None:
    policy = {"max_retries": 1, "max_preemption_retries": 5}
    attempts = ended(client, submit(client, "exit 1", policy=policy))
    assert len(attempts) == 2
    last = client.session(attempts[-1].id)
    assert last.retry_counters == {"inline/failure": 1}
    used = {budget.name: (budget.used, budget.limit) for budget in last.retry_state.budgets}
    assert used == {"inline/failure": (1, 1), "inline/preemption": (0, 5)}


def test_a_manual_retry_goes_on_where_budgets_end(client: Client) -> None:
    script = 'test "$REPRISE_ATTEMPT" -ge 2'
    attempts = ended(client, submit(client, script, policy={"max_retries": 1}))
    assert client.session(attempts[-1].id).retry_state.state == "exhausted"
    child = client.retry(attempts[-1].id)
    chain = ended(client, child.id)
    assert _statuses(chain) == ["ERROR", "ERROR", "TERMINATED"]
    assert client.session(child.id).retry_counters == {"inline/failure": 1, "manual": 1}
    assert client.decision(attempts[-1].id).dispatched_by == client.whoami().username


def test_a_log_is_followed_while_it_grows(client: Client, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    script = f"echo one; until [ -e '{go_on}' ]; do sleep 0.05; done; echo two >&2; echo three"
    pieces = client.follow_logs(submit(client, script))
    assert next(pieces) == "one\n"
    go_on.touch()
    assert "".join(pieces) == "two\nthree\n"


def test_output_of_megabytes_arrives_whole(client: Client) -> None:
    session = submit(client, "seq 1 300000")
    ended(client, session)
    expected = "".join(f"{n}\n" for n in range(1, 300_001)).encode()
    assert client.logs(session) == expected
    assert client.logs(session, tail=2) == b"299999\n300000\n"


def test_thirty_sessions_at_once_share_the_slots(client: Client, tmp_path: Path) -> None:
    """All of them end, each once, and at no moment do more run than the executor has slots."""
    script = f"""
        cd '{tmp_path}'; echo x >> ran; mkdir "on-$REPRISE_SESSION_ID"
        ls -d on-* | wc -l >> counts; sleep 0.1; rmdir "on-$REPRISE_SESSION_ID"
    """
    with ThreadPoolExecutor(10) as pool:
        sessions = list(pool.map(lambda _: submit(client, script), range(30)))
    for session in sessions:
        assert _statuses(ended(client, session)) == ["TERMINATED"]
    assert len((tmp_path / "ran").read_text().split()) == 30
    counts = [int(text) for text in (tmp_path / "counts").read_text().split()]
    assert 2 <= max(counts) <= 8


def test_an_idle_server_starts_a_session_at_once(client: Client) -> None:
    assert _any_below(1.0, lambda: _until_running(client))


def _any_below(seconds: float, measure: Callable[[], float]) -> bool:
    """The best of some: what else the machine does is not the server's fault."""
    return any(measure() < seconds for _ in range(12))


def _until_running(client: Client) -> float:
    session = submit(client, "sleep 300", termination_grace_period=0)
    began = time.monotonic()
    reached(client, session, "RUNNING")
    took = time.monotonic() - began
    client.cancel(session)
    ended(client, session)
    return took


def test_a_short_delay_is_kept_short(client: Client) -> None:
    policy = {"max_retries": 1, "retry_delay": 0.5}
    assert _any_below(2.0, lambda: _pause_before_retry(client, policy))


def _pause_before_retry(client: Client, policy: dict[str, Any]) -> float:
    failed, child = ended(client, submit(client, "exit 1", policy=policy))
    assert failed.finished_at is not None
    assert child.started_at is not None
    pause = (child.started_at - failed.finished_at).total_seconds()
    assert pause >= policy["retry_delay"]
    return pause


@pytest.fixture(autouse=True)
def _leave_nothing_running(client: Client) -> Iterator[None]:
    """Cancel what a failed test leaves, so that it does not take the slots of the next ones."""
    yield
    for session in _live(client):
        try:
            client.cancel(session.id)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:  # it has ended by itself
                raise


def _live(client: Client) -> list[Session]:
    return [each for each in client.sessions(tip=True) if not each.chain_over]


def test_a_python_program_that_fails_is_counted_under_its_title(client: Client) -> None:
    """The program and the title are those of docs/failures.md."""
    text = (ROOT / "docs/failures.md").read_text()
    program, title = (re.findall(rf"```{kind}\n(.*?)\n```", text, re.DOTALL)[0] for kind in KINDS)
    policy = {"max_retries": 1, "retry_delay": 0.1, "jitter": "none"}
    command = [sys.executable, "-c", program]
    session = client.session_create(image="any", command=command, retry_policy=policy)
    attempts = ended(client, session.id)
    keys = {client.session(each.id).failure_signature for each in attempts}
    assert len(attempts) == 2
    (key,) = keys
    assert key is not None
    failure = until(lambda: _counted(client, key, 2), "it is counted")
    assert (failure.title, failure.chains, failure.recovered_chains) == (title, 1, 0)
    assert failure.example == attempts[-1].id
    assert key in {each.key for each in client.failures()}


def _counted(client: Client, key: str, sessions: int) -> Failure | None:
    found = [each for each in client.failures() if each.key == key and each.sessions >= sessions]
    return found[0] if found else None
