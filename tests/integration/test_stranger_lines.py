"""What anybody can make the server log is short, and rare. Real processes with their real log."""

import json
import logging
import os
import subprocess
import sys
import time

import pytest

from reprise.http import stranger_lines
from tests.acceptance.running import ROOT, clean_environ

CALLS = """
import django
django.setup()
from django.test import Client
client = Client(headers={{"host": "{host}"}})
for _ in range(10):
    assert client.post("{path}", {{f"a{{each}}": 1 for each in range({fields})}}).status_code == 400
"""


def logged(host: str, path: str, *, fields: int = 1) -> list[dict[str, str]]:
    """Return the lines of a server that gets ten calls like this."""
    environ = clean_environ(
        DATABASE_URL="none",
        DJANGO_SETTINGS_MODULE="reprise.settings",
        REPRISE_LOG_FORMAT="json",
        PYTHONPATH=os.pathsep.join(sys.path),
    )
    script = CALLS.format(host=host, path=path, fields=fields)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(each) for each in done.stderr.splitlines()]


def test_a_wrong_host_is_one_short_line() -> None:
    (line,) = logged("x" * 5_000 + ".example", "/api/v2/sessions/")
    assert line["event"].startswith("Invalid HTTP_HOST header: 'xxx")
    assert len(json.dumps(line)) < 500
    assert "exception" not in line


def test_lines_that_were_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranger_lines, "EVERY", 0.5)
    filtered = stranger_lines.StrangerLines()

    def written(name: str, level: int = logging.WARNING) -> str | None:
        record = logging.LogRecord(name, level, "", 0, "no %s", ("way",), None)
        return record.getMessage() if filtered.filter(record) else None

    assert [written("uvicorn.error") for _ in range(4)] == ["no way", None, None, None]
    assert written("django.security.DisallowedHost") == "no way"
    assert [written("uvicorn.error", logging.ERROR) for _ in range(2)] == ["no way"] * 2
    time.sleep(0.5)
    assert written("uvicorn.error") == "no way (3 more lines like this were left out)"


def test_other_refusals_of_django_are_short_too() -> None:
    (line,) = logged("localhost", "/login/", fields=1_001)
    assert line["logger"] == "django.security.TooManyFieldsSent"
    assert "exception" not in line
