"""Code in processes of their own beside a server, without a start for each of them."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Self

from tests.acceptance.running import ROOT, clean_environ

# Everything is loaded and nothing is connected yet: each fork is what a new process would be.
_FORKS = """
import django, json, os, sys
django.setup()
from django.conf import settings
settings.DATABASES["default"]["OPTIONS"]["pool"]["timeout"] = 120  # the machine may be busy
import scheduler.tasks, sessions_app.tasks
from sessions_app.db import failpoints
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        failpoints._TARGET = asked["failpoint"]
        exec(asked["code"], {})
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Beside:
    """A context manager; `database_url` is connected to by what is run only."""

    def __init__(self, database_url: str, directory: Path):
        self._errors = (directory / "stderr").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKS],
            cwd=ROOT,
            env=clean_environ(
                DATABASE_URL=database_url,
                DJANGO_SETTINGS_MODULE="reprise.settings",
                REPRISE_WEBHOOK_ALLOWED_NETWORKS="127.0.0.0/8",
                REPRISE_WEBHOOK_ALLOW_HTTP="1",
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._errors.close()

    def run(self, code: str, *, failpoint: str | None = None) -> int:
        """Its exit code: 0 at its end, 1 after an exception, minus the signal that killed it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"code": textwrap.dedent(code), "failpoint": failpoint}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    @property
    def errors(self) -> str:
        """Return the standard error of all processes together."""
        self._errors.seek(0)
        return self._errors.read()
