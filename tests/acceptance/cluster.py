"""The parts as in production: web, worker, beat and executor as processes of their own."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reprise_client import Client, RepriseError

from reprise.standalone.postgres import EmbeddedPostgres
from tests.acceptance.running import Program, processes_of
from tests.ports import free_port
from tests.waiting import until

SET_UP = """
import django, sys
django.setup()
from django.core.management import call_command
from pathlib import Path
from reprise.standalone import credentials
call_command("migrate", verbosity=0)
call_command("declare_queues")
directory = Path(sys.argv[1])
project = credentials.ensure_tenants()
credentials.ensure_credentials(directory, sys.argv[2], project)
credentials.ensure_executor(directory, project)
"""


class Cluster:
    """A database, a web server and an executor; workers and beats come and go.

    `directory` may hold a prepared database.
    """

    def __init__(self, directory: Path, broker_url: str):
        self._directory = directory
        self.broker_url = broker_url
        self._postgres = EmbeddedPostgres(directory)
        self.database_url = self._postgres.start()
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        set_up = self._program(sys.executable, "-c", SET_UP, str(directory), self.url)
        assert set_up.reap() == 0, set_up.stderr
        credentials = json.loads((directory / "credentials.json").read_text())
        self.token: str = credentials["token"]
        self.client = Client(self.url, self.token, credentials["project"])
        self._programs: list[Program] = []
        self.web = self.start_web()
        self.start(
            *(sys.executable, "-m", "executor", "--name", "local", "--url", self.url),
            *("--token-file", str(directory / "executor.token")),
            *("--state-dir", str(directory / "executor"), "--isolate-runs", "off"),
        )

    def _program(self, *command: str, **environ: str) -> Program:
        ours = {
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker_url,
            "DJANGO_SETTINGS_MODULE": "reprise.settings",
        }
        return Program(command, **{**ours, **environ})

    def start(self, *command: str, **environ: str) -> Program:
        program = self._program(*command, **environ)
        self._programs.append(program)
        return program

    def run(self, script: str, *arguments: str, seconds: float = 120.0, **environ: str) -> str:
        """Run a Python script beside the cluster. Return what it prints."""
        program = self._program(sys.executable, "-c", script, *arguments, **environ)
        assert program.reap(seconds) == 0, program.stderr
        return program.stdout

    def start_web(self, **environ: str) -> Program:
        command = [sys.executable, "-m", "uvicorn", "reprise.asgi:application"]
        web = self.start(*command, "--port", str(self._port), "--lifespan", "on", **environ)
        until(self._answers, "the web server answers")
        return web

    def _answers(self) -> bool:
        with suppress(RepriseError):
            return bool(self.client.whoami())
        return False

    def start_worker(self, *options: str, **environ: str) -> Program:
        command = [sys.executable, "-m", "celery", "-A", "reprise", "worker", "--loglevel=INFO"]
        worker = self.start(*command, *options, **environ)
        until(lambda: " ready." in worker.stderr or not worker.alive, "ready")
        assert worker.alive, worker.stderr
        return worker

    def start_beat(self, **environ: str) -> Program:
        command = [sys.executable, "-m", "celery", "-A", "reprise", "beat", "--loglevel=INFO"]
        return self.start(*command, **environ)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """End afterwards what the block starts."""
        before = len(self._programs)
        try:
            yield
        finally:
            for program in reversed(self._programs[before:]):
                program.kill()
            del self._programs[before:]

    def close(self) -> None:
        self.client.close()
        for program in reversed(self._programs):
            program.kill()
        self._postgres.stop()
        until(lambda: not processes_of(self._directory), "nothing is left running")
