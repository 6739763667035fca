"""Killed between any two steps: at each failpoint of server and agent, and nothing is lost.

Each test lets a process die at its failpoint and fails if it does not, so that all of them
together visit every one.
"""

import os
import signal
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
from sessions_app.db import failpoints as servers
from tests.acceptance.beside import Beside
from tests.acceptance.forks import Forked
from tests.acceptance.running import ended, reached, submit
from tests.prepared import copy_database
from tests.receiver import receiving
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("failpoints"),  # one server for all, whose next life is the next test's
]

POLICY = {"max_retries": 1, "max_preemption_retries": 5}
PRIORITY_CHANGED = "session.priority_changed"

Story = Iterator[None]
"""Prepares; at its first `yield` the failpoint is armed, at its second one the process has died
and lives again; then it asks again, as a client does that got no answer, and judges."""


class Lives:
    """A standalone that dies, or whose agent dies, at the failpoint that is armed."""

    def __init__(self, directory: Path):
        self.server = Forked(directory / "data")
        self.diary = directory / "diary"
        self._armed = directory / "armed"
        self.beside = Beside(self.server.database_url, directory)

    def begin(self) -> None:
        """Its next life."""
        self.server.start(REPRISE_FAILPOINT_FILE=str(self._armed))

    def arm(self, failpoint: str) -> None:
        """Of the server or of its agent."""
        draft = self._armed.with_suffix(".new")
        draft.write_text(failpoint)
        draft.rename(self._armed)

    @property
    def fired(self) -> bool:
        return not self._armed.exists()

    def await_server_death(self) -> None:
        """The server has died at its failpoint; its agent dies with it."""
        self.server.await_death()
        assert self.server.program.process.returncode == -signal.SIGKILL
        assert self.fired

    def await_agent_death(self) -> None:
        """The agent has died at its failpoint; the server starts another one."""
        until(lambda: self.fired, "the agent has died")

    def run_beside(self, code: str, *, failpoint: str | None = None) -> None:
        """Run it in a process that is to die at the failpoint, if one is named."""
        wanted = -signal.SIGKILL if failpoint else 0
        assert self.beside.run(code, failpoint=failpoint) == wanted, self.beside.errors

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
def lives(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    lives = Lives(tmp_path_factory.mktemp("lives"))
    copy_database(prepared, lives.server.data_dir)
    with lives.server, lives.beside:
        lives.begin()
        yield lives
        assert lives.server.violations() == []


# Stories


def _flaky(lives: Lives) -> Story:
    """A client without an answer submits again, under the same `creation_id`."""
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


def _schedule(lives: Lives) -> Story:
    """A time that comes again and again: no session of it is lost or doubled."""
    template = {"image": "any", "command": ["true"]}
    name = f"s-{uuid.uuid4().hex[:8]}"
    schedule = lives.server.client.schedule_create(name, template, every=1)
    yield
    yield
    client = lives.server.client
    made = until(lambda: client.schedule(schedule.id).recent, "it goes on after the death")
    client.schedule_delete(schedule.id)
    for run in made:
        assert ended(client, run.session_id)[-1].status == "TERMINATED"


def _dependants(lives: Lives) -> Story:
    """The step that releases or cancels what waited dies; each runs once all the same, or never."""
    client = lives.server.client
    go = lives.diary.with_name(f"go-{uuid.uuid4().hex}")
    first = submit(client, f"while ! test -e {go}; do sleep 0.1; done")
    later = submit(client, "true", depends_on=[first])
    never = submit(client, "true", depends_on=[{"session": first, "when": "failed"}])
    reached(client, first, "RUNNING")
    yield
    go.touch()
    yield
    assert ended(lives.server.client, later)[-1].status == "TERMINATED"
    assert ended(lives.server.client, never)[-1].cause == "dependency_failed"


def _watched(lives: Lives) -> Story:
    """The executor asks for suspicions: attempts on its node are counted again after the death."""
    lives.server.client.executor_change("local", avoid_suspects="retries")
    yield from _flaky(lives)
    lives.server.client.executor_change("local", avoid_suspects="off")


def _breaker(lives: Lives) -> Story:
    """A client without an answer opens a breaker again: there is one, and it closes."""
    signature = uuid.uuid4().hex[:12]
    yield
    with suppress(RepriseError):
        lives.server.client.breaker_open(signature, project="default/default")
    yield
    with suppress(RepriseError):  # refused if the first call came through after all
        lives.server.client.breaker_open(signature, project="default/default")
    (breaker,) = lives.server.client.breakers(signature=signature)
    assert breaker.state == "open"
    assert lives.server.client.breaker_close(breaker.id).state == "closed"


def _makes_room(lives: Lives) -> Story:
    """The executor makes room: its next look at what waits is the one that dies."""
    lives.server.client.executor_change("local", preemption="on")
    yield from _flaky(lives)
    lives.server.client.executor_change("local", preemption="off")


def _preempt(lives: Lives) -> Story:
    """A client without an answer asks again; the attempt after the preempted one succeeds."""
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


def _priority(lives: Lives) -> Story:
    """A client without an answer asks again: the session has the priority, and it is told once."""
    lives.server.client.executor_cordon("local", reason="it waits")
    session = submit(lives.server.client, lives.flaky() + "true")
    yield
    with suppress(RepriseError):
        lives.server.client.set_priority(session, 5)
    yield
    client = lives.server.client
    assert client.set_priority(session, 5).priority == 5
    told = [each.data for each in client.events(session) if each.type == PRIORITY_CHANGED]
    assert [(each["before"], each["priority"]) for each in told] == [(0, 5)]
    client.executor_uncordon("local")
    (ran,) = ended(client, session)
    assert (ran.status, lives.ran(ran)) == ("TERMINATED", 1)


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
        from retry.evidence.termination import Termination
        from sessions_app.services.chains.settle import End, sessions_settle
        sessions_settle({{UUID("{session}"): End(Termination(exit_code=1))}})
    """
    lives.run_beside(settle, failpoint=name)
    lives.run_beside(settle)
    lives.run_beside("from sessions_app.tasks import sweep_retries; sweep_retries()")
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
        lives.run_beside(grant)
        reached(client, session, "SCHEDULED")
        with _server_stopped(lives):  # whose sweep might be the first
            with psycopg.connect(lives.server.database_url) as connection:
                connection.execute(
                    "UPDATE scheduler_lease SET granted_at = granted_at - interval '1 hour'"
                )
            expire = "from scheduler.services.expire import leases_expire; leases_expire()"
            lives.run_beside(expire, failpoint=name)
            lives.run_beside(expire)
    lives.judge(session)
    assert "session.lease_expired" in [event.type for event in client.events(session)]


def _waited_beside(lives: Lives, name: str) -> None:
    """A session that fits nowhere has waited for too long; its retry may wait anew."""
    client = lives.server.client
    nowhere = {"nodeSelector": {"to": "nowhere"}}
    policy = {**POLICY, "max_retries": 1}
    session = submit(client, "true", policy=policy, pod_spec=nowhere, queue_timeout=600)
    with _server_stopped(lives):  # whose sweep might be the first
        with psycopg.connect(lives.server.database_url) as connection:
            connection.execute(
                "UPDATE sessions_app_session SET wait_deadline = wait_deadline - interval '1 hour'"
            )
        expire = "from scheduler.services.waits import waits_expire; waits_expire()"
        lives.run_beside(expire, failpoint=name)
        lives.run_beside(expire)
    until(lambda: client.session(session).retry_state.state == "retried", "it is retried")
    first, second = client.attempts(session)
    assert (first.status, first.cause, second.status) == ("ERROR", "scheduler_timeout", "PENDING")
    client.cancel(session)


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
        lives.run_beside(show)
        with _server_stopped(lives):  # whose sweep might be the first
            with psycopg.connect(lives.server.database_url) as connection:
                connection.execute("UPDATE scheduler_executor SET last_seen_at = now() + '1 h'")
                connection.execute("UPDATE scheduler_lease SET verify_at = now()")
            verify = "from scheduler.services.verify import starts_verify; starts_verify()"
            lives.run_beside(verify, failpoint=name)
            lives.run_beside(verify)
    first, second = ended(client, session)
    assert (first.cause, second.status, lives.ran(second)) == (
        "image_pull_failure", "TERMINATED", 1,
    )  # fmt: skip
    events = [event.type for event in client.events(session)]
    assert events.count("session.start_failed") == 1


def _drained_beside(lives: Lives, name: str) -> None:
    """The process that drains is killed, before anything is kept or before a run is asked to stop;
    then the server's own sweep goes on."""
    client = lives.server.client
    script = f"{lives.flaky().rstrip()} || exec sleep 300"
    session = submit(client, script, policy=POLICY)
    reached(client, session, "RUNNING")
    drain = """
        from scheduler.services.drain import executor_drain
        executor_drain("local", by="root", reason="new kernel")
    """
    lives.run_beside(drain, failpoint=name)
    if name == "drain.before_commit":
        assert not client.executor("local").cordoned
        lives.run_beside(drain)
    until(lambda: client.session(session).final, "it was stopped")
    client.executor_uncordon("local")
    first, second = ended(client, session)
    assert (first.cause, second.status, lives.ran(second)) == ("preempted", "TERMINATED", 1)


def _made_room_beside(lives: Lives, name: str) -> None:
    """The sweep that makes room is killed with its plan, or right after it; the plan is carried
    out once, the taker runs in the room, and its victim comes back without any policy."""
    client = lives.server.client
    ended(client, submit(client, "true"))  # the agent has called in
    with suppress(ApiError):  # the test of the other edge has made it
        client.priority_class_create("urgent", 10, may_preempt=True)
    (node,) = client.executor("local").nodes
    whole = {"cpu": node.allocatable["cpu"]}
    script = f"{lives.flaky().rstrip()} || exec sleep 300"
    victim = submit(client, script, resources=whole)
    reached(client, victim, "RUNNING")
    taker = submit(client, lives.flaky() + "true", priority_class="urgent", resources=whole)
    # The server's own sweep finds preemption switched off.
    make_room = """
        from django.conf import settings
        from scheduler.services.preemptions import room_make
        settings.REPRISE_PREEMPTION = "on"
        settings.REPRISE.update(preempt_after=0.0, preempt_rate=100.0)
        room_make()
    """
    lives.run_beside(make_room, failpoint=name)
    made = [each.victim for each in client.preemptions(session=taker)]
    assert made == ([victim] if name == "make_room.after_commit" else [])

    def swept() -> bool:
        lives.run_beside(make_room)
        return any(client.preemptions(session=taker))

    # A sweep drops its plan while something else happens to one of these sessions.
    until(swept, "room is made")
    (ran,) = ended(client, taker)
    assert (ran.status, lives.ran(ran)) == ("TERMINATED", 1)
    first, second = ended(client, victim)
    assert (first.cause, second.status, lives.ran(second)) == ("preempted", "TERMINATED", 1)
    assert client.session(second.id).retry_counters == {"scheduler/preemption": 1}
    assert [each.victim for each in client.preemptions(session=taker)] == [victim]


def _archived_beside(lives: Lives, name: str) -> None:
    """A chain that ended long ago, as this is told; its events go in the same way."""
    client = lives.server.client
    session = submit(client, lives.flaky(), policy=POLICY)
    ended(client, session)
    before = client.session(session)
    archive = """
        from django.db import connection
        from sessions_app.locks import database_now
        from sessions_app.services.sessions.retention import chains_archive, chains_ended
        from scheduler.services.executors import leases_sweep_orphans
        leases_sweep_orphans()
        chains_archive(chains_ended(database_now()), database_now())
    """
    forget = """
        from sessions_app.locks import database_now
        from sessions_app.services.sessions.retention import chains_forget
        chains_forget(database_now(), 2**62)
    """
    if name.startswith("archive"):
        lives.run_beside(archive, failpoint=name)
        lives.run_beside(archive)
        assert client.session(session) == before
    else:
        lives.run_beside(archive)
        lives.run_beside(forget, failpoint=name)
        lives.run_beside(forget)
        with pytest.raises(ApiError, match="Not found"):
            client.session(session)


def _sent_beside(lives: Lives, name: str) -> None:
    """The process that sends is killed; the next one sends each event, at most one of them
    again."""
    client = lives.server.client
    session = submit(client, lives.flaky(), policy=POLICY)
    ended(client, session)
    make = """
        from sessions_app.models import Project, WebhookEndpoint
        from sessions_app.webhooks.endpoints import webhook_create
        WebhookEndpoint.objects.all().delete()
        hook = webhook_create(project=Project.objects.get(), url="{url}", event_types=[],
            description="", by="root")
        WebhookEndpoint.objects.update(epoch=0, xid="0", event_id=0)
    """
    send = """
        from sessions_app.models import WebhookDelivery, WebhookSender
        from sessions_app.locks import database_now
        from sessions_app.webhooks.reader import log_read, log_read_behind
        from sessions_app.webhooks.delivery_run import webhooks_run
        WebhookSender.objects.all().delete()
        WebhookDelivery.objects.filter(due_at__isnull=False).update(due_at=database_now())
        log_read()
        while log_read_behind():
            pass
        # A run takes deliveries for a few seconds only, and these are of all sessions so far.
        while webhooks_run()[0]:
            pass
    """
    # The server's own worker may not come first.
    with receiving() as receiver, _server_stopped(lives):
        lives.run_beside(
            textwrap.dedent(make).format(url=receiver.url) + textwrap.dedent(send),
            failpoint=name,
        )
        lives.run_beside(send)
        lives.run_beside(
            "from sessions_app.models import *; WebhookEndpoint.objects.all().delete()"
        )
    sent = [got.event["seq"] for got in receiver.got if got.event["session_id"] == session]
    assert list(dict.fromkeys(sent)) == list(range(1, len(set(sent)) + 1))
    assert len(set(sent)) == len(list(client.events(session)))


def _failed_over_beside(lives: Lives, name: str) -> None:
    """The first process that meets another server is killed while it makes the database safe."""
    client = lives.server.client
    recorded = "SELECT count(*) FROM sessions_app_auditentry WHERE action = 'database.failover'"
    with (
        psycopg.connect(lives.server.database_url, autocommit=True) as connection,
        _server_stopped(lives),  # which would see to it by itself
    ):
        (before,) = connection.execute(recorded).fetchone() or (0,)
        connection.execute("UPDATE reprise_knownserver SET timeline = timeline - 1")
        # With a second connection, which finds the database safe, the process may end before the
        # thread of the first one dies.
        connect = """
            from django.conf import settings
            from django.db import connection
            settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"] = 1
            connection.ensure_connection()
        """
        lives.run_beside(connect, failpoint=name)
        known = connection.execute("SELECT reprise_server_known()").fetchone()
        assert known == (name == "failover.after_commit",)
        lives.run_beside(connect)
        assert connection.execute("SELECT reprise_server_known()").fetchone() == (True,)
        assert connection.execute(recorded).fetchone() == (before + 1,)
    first, second = ended(client, submit(client, lives.flaky(), policy=POLICY))
    assert (first.status, second.status, lives.ran(second)) == ("ERROR", "TERMINATED", 1)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


_IDLE = """
    SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL)
"""


@contextmanager
def _server_stopped(lives: Lives) -> Iterator[None]:
    """Stop the server between its transactions: others wait for its locks, and readers of the log
    for the end of each."""
    pid = lives.server.program.process.pid

    def stops_idle() -> bool:
        os.kill(pid, signal.SIGSTOP)
        (idle,) = connection.execute(_IDLE).fetchone() or (False,)
        if not idle:
            os.kill(pid, signal.SIGCONT)
        return bool(idle)

    with psycopg.connect(lives.server.database_url, autocommit=True) as connection:
        until(stops_idle, "the server has no transaction open")
    with _stopped(pid):
        yield


STORIES: dict[str, Callable[[Lives], Story]] = {
    "cancel": _cancel,
    "preempt": _preempt,
    "priority": _priority,
    "manual_retry": _manual_retry,
    "resume": _held,
    "return": _refused,
    "schedule": _schedule,
    "dependants": _dependants,
    "nodes": _watched,
    "breakers": _breaker,
    "make_room": _makes_room,
}
BESIDE: dict[str, Callable[[Lives, str], None]] = {
    "settle": _settled_beside,
    "expire": _expired_beside,
    "wait": _waited_beside,
    "verify": _verified_beside,
    "drain": _drained_beside,
    "make_room": _made_room_beside,
    "archive": _archived_beside,
    "forget": _archived_beside,
    "failover": _failed_over_beside,
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
    story = STORIES.get(name.partition(".")[0], _flaky)(lives)
    next(story)
    lives.arm(name)
    next(story)
    lives.await_server_death()
    lives.begin()
    assert list(story) == []


@pytest.mark.parametrize("name", IN_PROCESS_BESIDE)
def test_a_process_beside_the_server_dies_at(lives: Lives, name: str) -> None:
    BESIDE[name.partition(".")[0]](lives, name)


@pytest.mark.parametrize("name", agents.NAMES)
def test_the_agent_dies_at(lives: Lives, name: str) -> None:
    if agents.NAMES.index(name) % 3 == 0:  # the pause before its next start grows with each death
        lives.server.kill()
        lives.begin()
    story = (_refused if "return" in name else _flaky)(lives)
    next(story)
    agent = until(lives.server.agent_pid, "an agent runs")
    lives.arm(name)
    if name.endswith(AT_AGENT_START):
        os.kill(agent, signal.SIGKILL)  # the next one dies as it begins
    next(story)
    lives.await_agent_death()
    assert list(story) == []
