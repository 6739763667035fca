"""Killed between any two steps: at each failpoint of server and agent, and nothing is lost.

Each test lets a process die at its failpoint and fails if it does not, so that all of them
together visit every one.
"""

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from reprise_client import ApiError, Attempt, RepriseError

from executor import failpoints as agents
from sessions_app import failpoints as servers
from tests.acceptance.running import (
    ROOT,
    Standalone,
    clean_environ,
    ended,
    reached,
    submit,
    until,
)
from tests.receiver import receiving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("failpoints"),  # one server for all, whose next life is the next test's
]

POLICY = {"max_retries": 1, "max_preemption_retries": 5}

Story = Iterator[None]
"""Prepares; at its first `yield` the failpoint is armed, at its second one the process has died
and lives again; then it asks again, as a client does that got no answer, and judges."""


class Lives:
    """A standalone whose lives each have one failpoint, off until it is armed."""

    def __init__(self, directory: Path):
        self.server = Standalone(directory / "data")
        self.diary = directory / "diary"
        self._once = directory / "once"
        self._failpoint = ""

    def begin(self, failpoint: str, *, armed: bool = False) -> None:
        """A life with this failpoint; nothing happens if it lives already."""
        if self._failpoint == failpoint and not armed:
            return
        if self._failpoint:
            self.server.kill()
        self._failpoint = failpoint
        self._once.touch()
        if armed:
            self.arm()
        self.server.start(REPRISE_FAILPOINT=failpoint, REPRISE_FAILPOINT_ONCE=str(self._once))

    def arm(self) -> None:
        self._once.unlink()

    @property
    def fired(self) -> bool:
        return self._once.exists()

    def await_server_death(self) -> None:
        """The server has died at its failpoint; its agent dies with it."""
        self.server.await_death()
        assert self.server.program.process.returncode == -signal.SIGKILL
        assert self.fired
        self._failpoint = ""

    def await_agent_death(self) -> None:
        """The agent has died at its failpoint; the server starts another one."""
        until(lambda: self.fired, "the agent has died")

    def flaky(self) -> str:
        """A script that keeps a diary of all that ever ran, and fails at its first attempt."""
        return f"""
            echo "$REPRISE_SESSION_ID" >> '{self.diary}'; echo "attempt $REPRISE_ATTEMPT"
            test "$REPRISE_ATTEMPT" -gt 0
        """

    def ran(self, attempt: Attempt) -> int:
        return self.diary.read_text().split().count(attempt.id) if self.diary.exists() else 0

    def judge(self, session_id: str) -> None:
        """The chain ended in success, no attempt was lost, none ran twice."""
        *before, last = ended(self.server.client, session_id)
        assert (last.status, self.ran(last)) == ("TERMINATED", 1)
        for attempt in before:
            assert attempt.status == "ERROR"
            lost = attempt.cause == "agent_transient"
            assert lost or attempt.cause == "kernel_nonzero_exit"
            assert self.ran(attempt) in ({0, 1} if lost else {1})
        assert sum(a.cause == "kernel_nonzero_exit" for a in before) <= 1


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    lives = Lives(tmp_path_factory.mktemp("lives"))
    with lives.server:
        yield lives
        lives.begin("none")
        assert lives.server.violations() == []


# Stories


def _flaky(lives: Lives) -> Story:
    """Who got no answer submits again, under the same `creation_id`."""
    body: dict[str, Any] = {"policy": POLICY, "creation_id": str(uuid.uuid4())}
    yield
    with suppress(RepriseError):
        submit(lives.server.client, lives.flaky(), **body)
    yield
    lives.judge(submit(lives.server.client, lives.flaky(), **body))


def _refused(lives: Lives) -> Story:
    """A lease that the agent hands back until the session is given up."""
    body: dict[str, Any] = {"cluster_size": 2, "creation_id": str(uuid.uuid4())}
    yield
    with suppress(RepriseError):
        submit(lives.server.client, "true", **body)
    yield
    (attempt,) = ended(lives.server.client, submit(lives.server.client, "true", **body))
    assert (attempt.status, attempt.cause) == ("ERROR", "scheduler_timeout")


def _cancel(lives: Lives) -> Story:
    session = submit(lives.server.client, "exec sleep 300", policy=POLICY)
    reached(lives.server.client, session, "RUNNING")
    yield
    with suppress(RepriseError):
        lives.server.client.cancel(session)
    yield
    lives.server.client.cancel(session)
    last = ended(lives.server.client, session)[-1]
    assert lives.server.client.session(last.id).retry_state.state == "cancelled"


def _preempt(lives: Lives) -> Story:
    """Whoever got no answer asks again; the attempt after the one that was preempted succeeds."""
    script = f"{lives.flaky().rstrip()} || exec sleep 300"
    session = submit(lives.server.client, script, policy=POLICY)
    reached(lives.server.client, session, "RUNNING")
    yield
    with suppress(RepriseError):
        lives.server.client.preempt(session)
    yield
    with suppress(RepriseError):  # refused if it was lost with the server
        lives.server.client.preempt(session)
    assert ended(lives.server.client, session)[-1].status == "TERMINATED"


def _manual_retry(lives: Lives) -> Story:
    session = submit(lives.server.client, lives.flaky())
    ended(lives.server.client, session)
    yield
    with suppress(RepriseError):
        lives.server.client.retry(session)
    yield
    with suppress(RepriseError):  # refused if the first call came through after all
        lives.server.client.retry(session)
    lives.judge(session)
    last = lives.server.client.attempts(session)[-1]
    assert lives.server.client.session(last.id).retry_counters == {"manual": 1}


def _held(lives: Lives) -> Story:
    """A retry that is held while its project is paused, and goes on when it is not."""
    client = lives.server.client
    client.retry_settings_update(project="default/default", mode="paused")
    session = submit(client, lives.flaky(), policy=POLICY)
    until(lambda: client.session(session).retry_state.state == "held", "it is held")
    yield
    with suppress(RepriseError):
        client.retry_settings_update(project="default/default", mode="on")
    yield
    lives.server.client.retry_settings_update(project="default/default", mode="on")
    lives.judge(session)


def _settled_beside(lives: Lives, name: str) -> None:
    """Settle as a call of its own."""
    script = f"{lives.flaky().rstrip()} || exec sleep 300"
    session = submit(lives.server.client, script, policy=POLICY)
    reached(lives.server.client, session, "RUNNING")
    settle = f"""
        from uuid import UUID
        from retry.evidence import Termination
        from sessions_app.services.settle import End, sessions_settle
        sessions_settle({{UUID("{session}"): End(Termination(exit_code=1))}})
    """
    _run_beside(lives, settle, failpoint=name)
    _run_beside(lives, settle)
    _run_beside(lives, "from sessions_app.tasks import sweep_retries; sweep_retries()")
    lives.judge(session)


def _expired_beside(lives: Lives, name: str) -> None:
    """A lease that nobody accepts, because the agent has been stopped in its tracks."""
    client = lives.server.client
    ended(client, submit(client, "true"))  # the agent has called in
    agent = until(lives.server.agent_pid, "an agent runs")
    with _stopped(agent):
        session = submit(client, lives.flaky(), policy=POLICY)
        grant = """
            from scheduler.models import Executor
            from scheduler.services.leases import lease_round
            executor = Executor.objects.get()
            lease_round(executor.name, executor.incarnation)
        """
        _run_beside(lives, grant)
        reached(client, session, "SCHEDULED")
        with _stopped(lives.server.program.process.pid):  # whose sweep might be the first
            with psycopg.connect(lives.server.database_url) as connection:
                connection.execute(
                    "UPDATE scheduler_lease SET granted_at = granted_at - interval '1 hour'"
                )
            expire = "from scheduler.services.expire import leases_expire; leases_expire()"
            _run_beside(lives, expire, failpoint=name)
            _run_beside(lives, expire)
    lives.judge(session)
    assert "session.lease_expired" in [event.type for event in client.events(session)]


def _verified_beside(lives: Lives, name: str) -> None:
    """A pod that cannot start; its agent, stopped in its tracks, does not even know of it."""
    client = lives.server.client
    ended(client, submit(client, "true"))  # the agent has called in
    agent = until(lives.server.agent_pid, "an agent runs")
    waiting = {"state": {"waiting": {"reason": "ErrImageNeverPull"}}}
    pod = {"status": {"phase": "Pending", "containerStatuses": [waiting]}}
    with _stopped(agent):
        session = submit(client, lives.flaky(), policy=POLICY)
        report = {"session_id": session, "seq": 1, "status": "PREPARING", "pod": pod}
        show = f"""
            from scheduler.models import Executor, Lease
            from scheduler.services.leases import lease_round
            from scheduler.services.reports import reports_apply
            at = Executor.objects.get()
            lease_round(at.name, at.incarnation)
            token = Lease.objects.get(session="{session}").fencing_token
            reports_apply(at.name, at.incarnation, [{{**{report!r}, "fencing_token": token}}])
        """
        _run_beside(lives, show)
        with _stopped(lives.server.program.process.pid):  # whose sweep might be the first
            with psycopg.connect(lives.server.database_url) as connection:
                connection.execute("UPDATE scheduler_executor SET last_seen_at = now() + '1 h'")
                connection.execute("UPDATE scheduler_lease SET verify_at = now()")
            verify = "from scheduler.services.verify import starts_verify; starts_verify()"
            _run_beside(lives, verify, failpoint=name)
            _run_beside(lives, verify)
    first, second = ended(client, session)
    assert (first.cause, second.status, lives.ran(second)) == (
        "image_pull_failure", "TERMINATED", 1,
    )  # fmt: skip
    told = [event.type for event in client.events(session)]
    assert told.count("session.start_failed") == 1


def _drained_beside(lives: Lives, name: str) -> None:
    """Whoever drains is killed, before anything is kept or before a run is asked to stop; then the
    server's own sweep goes on."""
    client = lives.server.client
    script = f"{lives.flaky().rstrip()} || exec sleep 300"
    session = submit(client, script, policy=POLICY)
    reached(client, session, "RUNNING")
    drain = """
        from scheduler.services.drain import executor_drain
        executor_drain("local", by="root", reason="new kernel")
    """
    _run_beside(lives, drain, failpoint=name)
    if name == "drain.before_commit":
        assert not client.executor("local").cordoned
        _run_beside(lives, drain)
    until(lambda: client.session(session).final, "it was stopped")
    client.executor_uncordon("local")
    first, second = ended(client, session)
    assert (first.cause, second.status, lives.ran(second)) == ("preempted", "TERMINATED", 1)


def _archived_beside(lives: Lives, name: str) -> None:
    """A chain that ended long ago, as this is told; its events go in the same way."""
    client = lives.server.client
    session = submit(client, lives.flaky(), policy=POLICY)
    ended(client, session)
    before = client.session(session)
    archive = """
        from django.db import connection
        from sessions_app.locks import database_now
        from sessions_app.services.retention import chains_archive, chains_ended
        from scheduler.services.executors import leases_sweep_orphans
        leases_sweep_orphans()
        chains_archive(chains_ended(database_now()), database_now())
    """
    forget = """
        from sessions_app.locks import database_now
        from sessions_app.services.retention import chains_forget
        chains_forget(database_now(), 2**62)
    """
    if name.startswith("archive"):
        _run_beside(lives, archive, failpoint=name)
        _run_beside(lives, archive)
        assert client.session(session) == before
    else:
        _run_beside(lives, archive)
        _run_beside(lives, forget, failpoint=name)
        _run_beside(lives, forget)
        with pytest.raises(ApiError, match="Not found"):
            client.session(session)


def _sent_beside(lives: Lives, name: str) -> None:
    """Whoever sends is killed; the next one sends each event, at most one of them again."""
    client = lives.server.client
    session = submit(client, lives.flaky(), policy=POLICY)
    ended(client, session)
    make = """
        from sessions_app.models import Project, WebhookEndpoint
        from sessions_app.services.webhooks import webhook_create
        WebhookEndpoint.objects.all().delete()
        hook = webhook_create(project=Project.objects.get(), url="{url}", event_types=[],
            description="", by="root")
        WebhookEndpoint.objects.update(epoch=0, xid="0", event_id=0)
    """
    send = """
        from sessions_app.models import WebhookDelivery, WebhookSender
        from sessions_app.locks import database_now
        from sessions_app.services.webhook_outbox import log_read, log_read_behind
        from sessions_app.webhook_run import webhooks_run
        WebhookSender.objects.all().delete()
        WebhookDelivery.objects.filter(due_at__isnull=False).update(due_at=database_now())
        log_read()
        while log_read_behind():
            pass
        webhooks_run()
    """
    # The server's own worker may not come first.
    with receiving() as receiver, _stopped(lives.server.program.process.pid):
        _run_beside(
            lives,
            textwrap.dedent(make).format(url=receiver.url) + textwrap.dedent(send),
            failpoint=name,
        )
        _run_beside(lives, send)
        _run_beside(
            lives, "from sessions_app.models import *; WebhookEndpoint.objects.all().delete()"
        )
    told = [got.event["seq"] for got in receiver.got if got.event["session_id"] == session]
    assert list(dict.fromkeys(told)) == list(range(1, len(set(told)) + 1))
    assert len(set(told)) == len(list(client.events(session)))


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _run_beside(lives: Lives, code: str, *, failpoint: str | None = None) -> None:
    """Run it in a process that is to die at the failpoint, if one is named."""
    environ = clean_environ(
        DATABASE_URL=lives.server.database_url,
        DJANGO_SETTINGS_MODULE="reprise.settings",
        REPRISE_WEBHOOK_ALLOWED_NETWORKS="127.0.0.0/8",
        REPRISE_WEBHOOK_ALLOW_HTTP="1",
        **({"REPRISE_FAILPOINT": failpoint} if failpoint else {}),
    )
    program = f"import django; django.setup()\n{textwrap.dedent(code)}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if failpoint else 0), done.stderr


STORIES: dict[str, Callable[[Lives], Story]] = {
    "cancel": _cancel,
    "preempt": _preempt,
    "manual_retry": _manual_retry,
    "resume": _held,
    "return": _refused,
}
BESIDE: dict[str, Callable[[Lives, str], None]] = {
    "settle": _settled_beside,
    "expire": _expired_beside,
    "verify": _verified_beside,
    "drain": _drained_beside,
    "archive": _archived_beside,
    "forget": _archived_beside,
    "webhook_read": _sent_beside,
    "webhook_claim": _sent_beside,
    "webhook_record": _sent_beside,
    "webhook": _sent_beside,
}
"""Steps that die in a process beside the server: it calls them never, or without being asked."""

IN_SERVER = sorted(n for n in servers.NAMES if n.partition(".")[0] not in BESIDE)
IN_PROCESS_BESIDE = sorted(servers.NAMES - set(IN_SERVER))
AT_AGENT_START = ("incarnation_write", "journal_rewrite")


@pytest.mark.parametrize("name", IN_SERVER)
def test_the_server_dies_at(lives: Lives, name: str) -> None:
    lives.begin(name)
    story = STORIES.get(name.partition(".")[0], _flaky)(lives)
    next(story)
    lives.arm()
    next(story)
    lives.await_server_death()
    # The life after this death is already that of the next test.
    lives.begin(IN_SERVER[(IN_SERVER.index(name) + 1) % len(IN_SERVER)])
    assert list(story) == []


@pytest.mark.parametrize("name", IN_PROCESS_BESIDE)
def test_a_process_beside_the_server_dies_at(lives: Lives, name: str) -> None:
    lives.begin("none")
    BESIDE[name.partition(".")[0]](lives, name)


@pytest.mark.parametrize("name", agents.NAMES)
def test_the_agent_dies_at(lives: Lives, name: str) -> None:
    at_start = name.endswith(AT_AGENT_START)
    lives.begin(name, armed=at_start)
    story = (_refused if "return" in name else _flaky)(lives)
    next(story)
    if not at_start:
        lives.arm()
    next(story)
    lives.await_agent_death()
    assert list(story) == []
