"""Lives of a server as forks of one process that has loaded all of it: a start is mostly that."""

import json
import os
import select
import subprocess
from collections.abc import Sequence
from typing import IO

from tests.acceptance.running import ROOT, Program, Standalone, clean_environ

# All is loaded, and nothing is open: the rest of a life is what `manage.py` does in a new process.
# The words behind `-c` are not read: whoever looks for a server's processes goes by them.
_FORKS = """
import gc, json, os, sys
import manage
os.environ["DJANGO_SETTINGS_MODULE"] = "reprise.settings"
import django
django.setup()
from django.db.migrations.loader import MigrationLoader
MigrationLoader(None)  # reads what each start imports to see that it has nothing to do
import reprise.management.commands.standalone, reprise.standalone.workers, reprise.urls
gc.freeze()
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(asked["outputs"], start=1):
            os.dup2(os.open(path, os.O_WRONLY), number)
        sys.argv = asked["command"]
        manage.main()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Fork:
    """One life; for the tests it is what `subprocess.Popen` would return."""

    def __init__(self, command: Sequence[str], answers: IO[str]):
        self.args = command
        self.pid = int(answers.readline())
        self.returncode: int | None = None
        self._answers = answers

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], seconds)[0]:
            self.returncode = int(self._answers.readline())
        return self.returncode


class Forked(Standalone):
    """A standalone server all of whose lives are forks, in the environment of the first."""

    _environ: dict[str, str]
    _loaded: subprocess.Popen[str] | None = None

    def spawn(self, **environ: str) -> Program:
        if self._loaded is None:
            self._loaded, self._environ = self._load(environ), environ
        assert environ == self._environ, "what is loaded has read the environment"
        self._program = Program(self._fork)
        return self._program

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._loaded is not None:
            self._loaded.communicate()

    def _load(self, environ: dict[str, str]) -> "subprocess.Popen[str]":
        python, *words = self.command
        return subprocess.Popen(
            [python, "-c", _FORKS, *words],
            cwd=ROOT,
            env=clean_environ(**environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _fork(self, out: IO[bytes], err: IO[bytes]) -> Fork:
        assert self._loaded is not None
        assert self._loaded.stdin is not None
        assert self._loaded.stdout is not None
        _, *words = self.command
        outputs = [f"/proc/{os.getpid()}/fd/{each.fileno()}" for each in (out, err)]
        self._loaded.stdin.write(json.dumps({"command": words, "outputs": outputs}) + "\n")
        self._loaded.stdin.flush()
        return Fork(self.command, self._loaded.stdout)
