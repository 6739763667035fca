"""Standalone: every part of Reprise in one command, with nothing else installed.

PostgreSQL, the executor and several web processes are children of the main thread, which lives as
long as the process: their parent-death signals follow the thread that started them. Worker and beat
are threads, and so is the only web server where one is enough.
"""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import IO, Protocol

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django_celery_beat.models import PeriodicTask

from reprise import garbage
from reprise.monitoring import disk
from reprise.postgresql.direct import connect
from reprise.postgresql.tables import unusable_in
from reprise.standalone.agent import Agent
from reprise.standalone.child import Child
from reprise.standalone.configuration import (
    LOOPBACK,
    POOL_SIZE,
    WEB_POOL_SIZE,
    configure,
    connections_wanted,
    use_database,
)
from reprise.standalone.credentials import (
    BY,
    EXECUTOR,
    Credentials,
    ensure_credentials,
    ensure_executor,
    ensure_tenants,
    executor_token,
)
from reprise.standalone.errors import StandaloneError, TakenError
from reprise.standalone.interrupts import interrupt
from reprise.standalone.postgres import EmbeddedPostgres
from reprise.standalone.web import Web, listen
from reprise.standalone.web_process import WebProcess
from scheduler.selectors import executor_called
from sessions_app.audit.context import audited
from sessions_app.core.errors import SecretUnreadable
from sessions_app.locks import database_now
from sessions_app.services.secrets.encrypt import secrets_check, secrets_encrypt

TICK = 0.5
CALL_TICK = 0.05
CALL_SECONDS = 60.0
"""Most seconds to wait for the first call of the local executor."""
STOP_SECONDS = 12.0
"""Seconds for a stop; PostgreSQL gets what the other parts leave."""
POSTGRES_STOP_SECONDS = 2.0
"""Minimum seconds for PostgreSQL to stop."""
LAST_RESORT_SECONDS = 20
"""Seconds after the signal to stop until the kernel ends the process."""


class Part(Protocol):
    """A thread that should live as long as this process."""

    name: str

    @property
    def alive(self) -> bool: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Standalone:
    """All parts of the server, started in the order in which they depend on each other."""

    def __init__(
        self,
        data_dir: Path,
        *,
        host: str,
        port: int,
        slots: int,
        isolate: str,
        web_processes: int = 1,
    ):
        self._data_dir = data_dir
        self._isolate = isolate
        self._host = host
        self._slots = slots
        self._web_processes = web_processes
        self._lock = claim(data_dir)
        self._listener = listen(host, port)
        self._postgres: EmbeddedPostgres | None = None
        self._threads: list[Part] = []
        self._webs: list[WebProcess] = []
        self._agents: list[Agent] = []
        self._stopping = False
        self.called = False
        """Whether the local executor has called: its nodes are known then."""

    @property
    def url(self) -> str:
        """Return the URL under which people and programs reach the server."""
        port = self._listener.getsockname()[1]
        host = LOOPBACK.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> Credentials:
        """Start everything; after a failure, stop what was started."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> Credentials:
        agent = self._local_agent()
        if self._isolate != "off":
            self._open_way()
            agent.check()
        configure(self._data_dir, host=self._host, isolate=self._isolate)
        if settings.GIVEN.database_url is None:
            for name in [name for name in os.environ if name.startswith("PG")]:
                del os.environ[name]  # libpq's variables belong to another server
            wanted = connections_wanted(self._web_processes)
            self._postgres = EmbeddedPostgres(self._data_dir, connections=wanted)
            several = self._web_processes > 1
            use_database(self._postgres.start(), WEB_POOL_SIZE if several else POOL_SIZE)
        credentials = self._fill_database()
        # It starts while the others do; its first call waits until a web server takes it.
        begun = database_now()
        self.add_agent(agent)
        self._start_threads()
        self._await_call(begun)
        return credentials

    def _await_call(self, begun: datetime) -> None:
        """Wait until the local executor has called: before that, nobody knows what fits on it."""
        until = time.monotonic() + CALL_SECONDS
        while not self.called and time.monotonic() < until:
            self.look_after()
            time.sleep(CALL_TICK)
            self.called = executor_called(EXECUTOR, begun)
        connections.close_all()

    def _local_agent(self) -> Agent:
        return Agent(
            url=self.url,
            name=EXECUTOR,
            token_file=executor_token(self._data_dir),
            state_dir=self._data_dir / "executor",
            slots=self._slots,
            log=self._data_dir / "executor.log",
            options=("--isolate-runs", self._isolate),
        )

    def _open_way(self) -> None:
        """Let the users of root's runs pass through the data directory; its files stay private."""
        if os.geteuid() == 0:
            self._data_dir.chmod(self._data_dir.stat().st_mode | 0o001)

    def add_agent(self, agent: Agent) -> None:
        """Start an executor and look after it until the end; from the main thread."""
        self._agents.append(agent)
        agent.start()

    def _fill_database(self) -> Credentials:
        """Create everything that the database must contain before anything runs."""
        try:
            _probe()
            _migrate()
            _encrypt()
            project = ensure_tenants()
            credentials = ensure_credentials(self._data_dir, self.url, project)
            ensure_executor(self._data_dir, project)
        except SecretUnreadable as error:
            place = self._data_dir / "encryption_keys"
            raise StandaloneError(f"{error}; they are lines of {place}") from error
        except (Error, psycopg.Error) as error:
            if self._postgres is not None:
                raise self._postgres.failure(error) from error
            text = " ".join(str(error).split())
            raise StandaloneError(f"the database of DATABASE_URL cannot be used: {text}") from error
        return credentials

    def _start_threads(self) -> None:
        # Celery reads the settings at import, so this comes after they are final.
        from reprise.standalone.workers import Beat, Worker, probe_broker  # noqa: PLC0415

        probe_broker()
        parts: list[Part] = [Beat(), Worker()]
        if self._web_processes == 1:
            from reprise.wsgi import application  # noqa: PLC0415  # has every view with it

            parts.append(Web(application, self._listener))
        for part in parts:
            part.start()
            self._threads.append(part)
        if self._web_processes > 1:
            self._start_webs()

    def _start_webs(self) -> None:
        """Start the web processes, and wait until all of them accept connections."""
        options = ["--host", self._host, "--isolate-runs", self._isolate]
        for number in range(1, self._web_processes + 1):
            self._webs.append(WebProcess(number, self._listener, self._data_dir, options))
            self._webs[-1].start()
        # What the web server does where it is a thread.
        disk.watch.start("worker")
        garbage.freeze()
        garbage.collect_regularly()
        for web in self._webs:
            web.await_ready()

    def wait(self) -> None:
        """Look after the parts until a signal comes."""
        while not self._stopping:
            self.look_after()
            time.sleep(TICK)

    def look_after(self) -> None:
        """Restart PostgreSQL, the web processes and the agents if they have died.

        Raises `StandaloneError` if a thread has ended, which only a bug or a broken machine can
        cause.
        """
        if self._postgres is not None:
            self._postgres.start()
        for child in (*self._webs, *self._agents):
            child.look_after()
        for part in self._threads:
            if not part.alive:
                raise StandaloneError(f"the {part.name} has ended: see its output above")

    def stop(self) -> None:
        """Stop the executors, then web, worker and beat, then PostgreSQL; leave no process behind.

        Each part is abandoned after a time: all of them survive a sudden death.
        """
        # From here on signals are ignored.
        self._stopping = True
        began = time.monotonic()
        _stop_together(self._agents)
        _stop_together([*self._threads, *self._webs])
        if self._postgres is not None:
            left = began + STOP_SECONDS - time.monotonic()
            self._postgres.stop(max(left, POSTGRES_STOP_SECONDS))
        self._agents, self._webs, self._threads, self._postgres = [], [], [], None
        connections.close_all()
        self._listener.close()
        self._lock.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._stopping:
            return
        self._stopping = True
        # Libraries may swallow the interruption, or wait forever. All parts survive a sudden death,
        # and the children die with us.
        signal.alarm(LAST_RESORT_SECONDS)
        # Interrupt the main thread once, whether it starts or waits.
        interrupt()


def _stop_together(parts: Sequence[Child | Part]) -> None:
    stopping = [threading.Thread(target=part.stop, name="stop") for part in parts]
    for thread in stopping:
        thread.start()
    for thread in stopping:
        thread.join()


def claim(data_dir: Path) -> IO[str]:
    """Create the data directory and hold its lock until the file is closed or the process ends.

    Raises `TakenError` while another process holds the lock.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("a")
    except (FileExistsError, NotADirectoryError) as error:
        raise StandaloneError(f"{error.filename} is not a directory") from error
    except OSError as error:
        raise StandaloneError(
            f"cannot write to the data directory {data_dir}: {error.strerror}"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise TakenError(
            f"another Reprise uses the data directory {data_dir}; stop it, or choose "
            "another one with --data-dir"
        ) from error
    return lock


def _probe() -> None:
    """Connect once; the pool would retry for long, and could not say what is wrong."""
    database = connections[DEFAULT_DB_ALIAS]
    psycopg.connect(**database.get_connection_params()).close()


def _migrate() -> None:
    with connect("reprise-tables") as connection:
        if unusable := unusable_in(connection):
            raise StandaloneError(unusable)
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)
    elif not PeriodicTask.objects.exists():
        # The process that migrated was killed before what follows a migration.
        with transaction.atomic():
            emit_post_migrate_signal(verbosity=0, interactive=False, db=DEFAULT_DB_ALIAS)


def _encrypt() -> None:
    """Encrypt secrets that are in the clear or under an older key; nothing else runs yet."""
    secrets_check()
    with audited(by=BY):
        secrets_encrypt()
