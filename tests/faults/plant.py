"""Reprise as in production, on this machine: every part a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Self

import psycopg
from reprise_client import Client, RepriseError

from executor.agent.loop import EXIT_TAKEN_OVER
from executor.clock import boottime
from reprise.standalone.postgres import EmbeddedPostgres
from reprise.worker.watchdog import EXIT_CODE as HUNG
from retry.breakers import BreakerRule
from retry.policies.shared_budget import SharedBudget
from tests.acceptance.broker import PrivateNode
from tests.acceptance.running import ROOT, clean_environ, processes_of
from tests.clock import SkewedClock
from tests.faults import poison
from tests.faults.proxy import Proxy
from tests.ports import free_port
from tests.waiting import until

STOP_SECONDS = 60.0
EXECUTORS = ("faults-0", "faults-1")
LATE, LATE_PROJECT = "late", "default/late"
"""An executor that is played by hand, and its own project."""
TWIN = "-twin"
URGENT = "urgent"
"""A priority class for whose sessions others make room."""
NODES, NODE_CPU = 4, 16
"""Of each executor: few enough that at times all of them are taken."""
LEASE_TTL, LEASE_GRACE = 5.0, 3.0
TIMES = {
    "REPRISE_LEASE_TTL": f"{LEASE_TTL:g}",
    "REPRISE_LEASE_GRACE": f"{LEASE_GRACE:g}",
    "REPRISE_ACCEPTANCE_TIMEOUT": "4",
    "REPRISE_UNCONFIRMED_AFTER": "3",
    "REPRISE_EXECUTOR_STALE_AFTER": "4",
    "REPRISE_WORKER_STUCK_AFTER": "20",
    "REPRISE_PREEMPT_AFTER": "1",
}
"""Seconds: leases that end within a test, workers that hang, and waits before others make room."""
TROUBLES = ("lost", "unanswered", "repeated", "reordered", "replayed")
REPORT_TROUBLE = 0.06
OUTPUT_BYTES = 300
SCRIPT = {
    "seconds": {"mean": 1.5},
    "start_seconds": [0, 0.3],
    "failure_rate": 0.25,
    "exit_codes": [1, 2, 137],
    "oom_rate": 0.03,
    "preemption_rate": 0.05,
    "node_loss_rate": 0.01,
    "node_down_seconds": 10,
    "node": {"cpu": str(NODE_CPU), "memory": "64Gi"},
    "output_bytes": OUTPUT_BYTES,
    **{f"{kind}_report_rate": REPORT_TROUBLE for kind in TROUBLES},
}
GUARDS = {
    "breaker": BreakerRule(chains=1000).model_dump(mode="json"),
    "retry_budget": SharedBudget(burst=100_000).stored(),
}
"""A breaker and a shared budget that every failure and retry is counted in, and none waits for."""
SET_UP = f"""
import django, sys
django.setup()
from django.core.management import call_command
from pathlib import Path
from reprise.standalone import credentials
from sessions_app.services.resources.priority_classes import priority_class_create
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.in_force.config_scope import ConfigScope
call_command("migrate", verbosity=0)
directory = Path(sys.argv[1])
project = credentials.ensure_tenants()
credentials.ensure_credentials(directory, sys.argv[2], project)
priority_class_create("{URGENT}", 10, {{"may_preempt": True}}, by="faults")
retry_settings_put(ConfigScope(), by="faults", **{GUARDS})
for name in sys.argv[3:]:
    name, _, projects = name.partition("@")
    options = {{"project": projects.split(",") if projects else []}}
    for project in options["project"]:
        call_command("create_project", project)
    call_command("create_executor", name, token_file=directory / f"{{name}}.token", **options)
sys.stdin.read()
call_command("declare_queues")
"""
"""Once its input ends, the broker is there."""
# As an operator may: sweeps every few seconds, so that a run ends soon after its last fault.
HURRY = "UPDATE django_celery_beat_intervalschedule SET every = 3 WHERE every <= 60"
# The other one's runs are soon given up; this one's end as they did, if it comes back in time.
PATIENT = "UPDATE scheduler_executor SET unconfirmed_after = 30 WHERE name = 'faults-1'"
PREEMPTING = "UPDATE scheduler_executor SET preemption = 'on' WHERE name = ANY(%s)"
# With most others it would wait for so long that its message expires more often than not.
MAKE_ROOM_APART = """
    UPDATE django_celery_beat_periodictask SET queue = 'verification'
    WHERE task = 'scheduler.tasks.make_room'
"""

CELERYS_END = "ValueError: file descriptor is None"
"""Its prefork worker may hang or say this when a process of it dies just as connections break; then
it is started again, as whatever supervises it would."""


class Part:
    """One process, which has one life after the other. `deaths` are times since boot."""

    def __init__(
        self, name: str, command: Callable[[], list[str]], directory: Path, **environ: str
    ):
        self.name = name
        self.wanted = False
        self.deaths: list[float] = []
        self.surprises: list[str] = []
        self._command = command
        self._log = directory / f"{name}.log"
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.wanted = True
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=ROOT,
                env=clean_environ(**self._environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, *, whole: bool = True) -> None:
        """kill -9 of its process group, or of its main process alone."""
        self.wanted = False
        if self._process is None:
            return
        if whole:
            self._signal_group(signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self.deaths.append(boottime())

    def ended(self) -> int | None:
        """Its status, if it has ended."""
        return None if self._process is None else self._process.poll()

    def freeze(self) -> None:
        self._signal_group(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_group(signal.SIGCONT)

    def look(self) -> None:
        """Start it again if it has ended although nobody did anything to it, nor took it over."""
        if not self.wanted or self._process is None or self._process.poll() is None:
            return
        self.deaths.append(boottime())
        if self._process.returncode == EXIT_TAKEN_OVER:
            self.wanted = False
            return
        text = self._log.read_text(errors="replace")[-2000:]
        if self._process.returncode == HUNG or CELERYS_END in text:
            self.start()
            return
        self.surprises.append(f"{self.name} ended by itself: {self._process.returncode}: {text}")
        self.start()

    def ask(self) -> None:
        """Ask it to end."""
        self.wanted = False
        self.thaw()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    def stop(self) -> None:
        """Ask it to end, and see to it."""
        self.ask()
        if self._process is None:
            return
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.surprises.append(f"{self.name} did not stop within {STOP_SECONDS:g} s")
        self.deaths.append(boottime())
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


class Plant:
    """All parts; to be used as a context manager, from one thread (PostgreSQL dies with it).

    `names` are its executors, each with the projects that it serves if not all of them:
    NAME[@DOMAIN/NAME[,DOMAIN/NAME ...]]. `size` is how many web servers and workers there are.
    """

    names: Sequence[str] = (
        *(f"{name}@default/default" for name in EXECUTORS),
        f"{LATE}@{LATE_PROJECT}",
    )
    times: Mapping[str, str] = TIMES
    size = 2

    def __init__(self, directory: Path, seed: int):
        self.directory = directory
        self._seed = seed
        self._random = Random(seed)
        self.postgres = EmbeddedPostgres(directory)
        self.broker = PrivateNode(directory / "rabbitmq")
        self._proxies: list[Proxy] = []
        self._postgres_wanted = True

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_parts()
        for proxy in self._proxies:
            proxy.close()
        self.postgres.stop()
        self.broker.close()
        for process in processes_of(self.directory):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def _start(self) -> None:
        with ThreadPoolExecutor(1) as beside:
            self._prepare(beside.submit(self.broker.start))
        for part in self.parts:
            if part not in self.twins:
                part.start()
        credentials = json.loads((self.directory / "credentials.json").read_text())
        self.token: str = credentials["token"]
        with self.client() as client:
            until(lambda: _answers(client), "the web servers answer")

    def _prepare(self, broker_is_up: "Future[None]") -> None:
        self.database_url = self.postgres.start()
        self._environ = {
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker.url,
            "DJANGO_SETTINGS_MODULE": "reprise.settings",
            "REPRISE_SECRET_KEY": "0" * 50,
            "REPRISE_ENCRYPTION_KEYS": "0" * 50,
            "REPRISE_LOG_LEVEL": "WARNING",
            "REPRISE_DATABASE_POOL": "12",
            "REPRISE_PREEMPT_RATE": "0.5",
            **self.times,
        }
        ports = [free_port() for _ in range(self.size)]
        self.people = self._proxy(ports)
        self._set_up(broker_is_up)
        self.webs = [self._web(number, port) for number, port in enumerate(ports)]
        self.workers = [self._worker(number) for number in range(self.size)]
        self.beat = self._part("beat", lambda: self._celery("beat"), **self._environ)
        self._add_executors(ports)

    def _add_executors(self, ports: list[int]) -> None:
        self.links = [self._proxy(ports) for _ in EXECUTORS]
        script = self.directory / "script.json"
        script.write_text(json.dumps(SCRIPT))
        self.clocks = [SkewedClock(self.directory / f"clock-{name}") for name in EXECUTORS]
        self.executors = [
            self._executor(name, name, link, **clock.environ)
            for name, link, clock in zip(EXECUTORS, self.links, self.clocks, strict=True)
        ]
        # Each of the same name as another, and with nothing else in common.
        self.twins = [self._executor(name, name + TWIN, self.people) for name in EXECUTORS]

    @property
    def parts(self) -> list[Part]:
        names = ("webs", "workers", "executors", "twins")
        grouped = [part for name in names for part in getattr(self, name, [])]
        return [*grouped, *([self.beat] if hasattr(self, "beat") else [])]

    def client(self, project: str = "default/default") -> Client:
        """A cluster admin's."""
        return Client(self.people.url, self.token, project, timeout=10)

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection past all of Reprise."""
        return psycopg.connect(
            self.database_url, autocommit=True, connect_timeout=5, application_name="faults"
        )

    @property
    def run_logs(self) -> dict[str, Path]:
        """Read the log of each agent, by its part's name; of all that ever were started."""
        paths = {part.name: self._run_log(part.name) for part in [*self.executors, *self.twins]}
        return {name: path for name, path in paths.items() if path.exists()}

    @property
    def deaths(self) -> dict[str, list[float]]:
        """Of the agents, by their parts' names."""
        return {part.name: part.deaths for part in [*self.executors, *self.twins]}

    def _run_log(self, name: str) -> Path:
        return self.directory / f"{name}.runs"

    def look(self) -> None:
        """Start again what has ended."""
        for part in self.parts:
            part.look()
        if not self.postgres.alive() and self._postgres_wanted:
            self.postgres.start()

    def stop_postgres(self, *, hard: bool) -> None:
        self._postgres_wanted = False
        if hard and self.postgres.pid is not None:
            os.kill(self.postgres.pid, signal.SIGKILL)
        self.postgres.stop()

    def start_postgres(self) -> None:
        self.postgres.start()
        self._postgres_wanted = True

    def stop_parts(self) -> None:
        for part in self.parts:
            part.ask()
        for part in self.parts:
            part.stop()

    def _proxy(self, ports: list[int]) -> Proxy:
        proxy = Proxy(ports)
        self._proxies.append(proxy)
        return proxy

    def _set_up(self, broker_is_up: "Future[None]") -> None:
        command = [sys.executable, "-c", SET_UP, str(self.directory), self.people.url, *self.names]
        environ = clean_environ(**self._environ)
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, cwd=ROOT, env=environ, text=True, **pipes) as setting_up:
            try:
                broker_is_up.result()
            finally:
                _, output = setting_up.communicate()
        if setting_up.returncode:
            raise RuntimeError(f"cannot be set up: {output}")
        with self.connect() as connection:
            connection.execute(HURRY)
            connection.execute(PATIENT)
            connection.execute(PREEMPTING, [[*EXECUTORS]])
            connection.execute(MAKE_ROOM_APART)

    def _part(self, name: str, command: Callable[[], list[str]], **environ: str) -> Part:
        return Part(name, command, self.directory, **environ)

    def _web(self, number: int, port: int) -> Part:
        # uvicorn by itself would wait for those who follow events to leave.
        command = [sys.executable, "manage.py", "front", "--port", str(port)]
        return self._part(f"web-{number}", lambda: command, **self._environ)

    def _celery(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "celery", "-A", "reprise", *words, "--loglevel=WARNING"]

    def _worker(self, number: int) -> Part:
        options = ("-n", f"worker{number}@%h", "--concurrency=1", "--include", poison.__name__)
        command = self._celery("worker", *options)
        return self._part(f"worker-{number}", lambda: command, **self._environ)

    def _executor(self, name: str, part: str, link: Proxy, **environ: str) -> Part:
        """An agent of the executor, with a state directory and a run log of its own."""
        command = [
            *(sys.executable, "-m", "executor", "--name", name, "--url", link.url),
            *("--token-file", str(self.directory / f"{name}.token")),
            *("--state-dir", str(self.directory / part), "--driver", "simulated"),
            *("--script", str(self.directory / "script.json"), "--nodes", str(NODES)),
            *("--max-sessions", "80", "--run-log", str(self._run_log(part))),
        ]

        def drawn() -> list[str]:
            # Another seed for each life, so that a restart does not repeat the one before.
            return [*command, "--seed", str(self._random.randrange(1 << 30))]

        return self._part(part, drawn, **environ)


def _answers(client: Client) -> bool:
    with suppress(RepriseError):
        return bool(client.whoami())
    return False
