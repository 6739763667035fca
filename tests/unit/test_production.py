"""Tests of the settings with which production refuses to start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprise.production import problems
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
GOOD = {
    "REPRISE_SECRET_KEY": "k" * 40,
    "REPRISE_ENCRYPTION_KEYS": "e" * 40,
    "DATABASE_URL": "postgres://reprise:secret@postgres/reprise",
    "BROKER_URL": "amqp://reprise:secret@rabbitmq/reprise",
    "REPRISE_ALLOWED_HOSTS": "reprise.example.org",
}


def test_a_complete_environment_is_fine() -> None:
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("REPRISE_SECRET_KEY", "", "REPRISE_SECRET_KEY is not set"),
        ("REPRISE_SECRET_KEY", "short", "REPRISE_SECRET_KEY is too short"),
        ("REPRISE_ENCRYPTION_KEYS", "", "REPRISE_ENCRYPTION_KEYS is not set"),
        ("DATABASE_URL", "", "DATABASE_URL is not set"),
        ("BROKER_URL", "", "BROKER_URL must be"),
        ("BROKER_URL", "memory://", "BROKER_URL must be"),
        ("BROKER_URL", "redis://redis", "BROKER_URL must be"),
        ("REPRISE_ALLOWED_HOSTS", "", "REPRISE_ALLOWED_HOSTS must"),
        ("REPRISE_ALLOWED_HOSTS", "a.example.org,*", "REPRISE_ALLOWED_HOSTS must"),
    ],
)
def test_each_hole_is_named(name: str, value: str, message: str) -> None:
    assert [each.startswith(message) for each in problems({**GOOD, name: value})] == [True]


@pytest.mark.parametrize(
    "command",
    [
        ("manage.py", "migrate"),
        ("-m", "celery", "-A", "reprise", "worker"),
        ("-m", "uvicorn", "reprise.asgi:application"),
        ("-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "reprise.wsgi"),
    ],
)
def test_every_process_refuses_in_one_line(command: tuple[str, ...]) -> None:
    environ = {k: v for k, v in os.environ.items() if k not in GOOD}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**environ, **GOOD, "REPRISE_PRODUCTION": "1", "REPRISE_SECRET_KEY": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Reprise does not start: REPRISE_SECRET_KEY is not set: give every process the same "
        "32 random characters or more (docs/production.md)\n"
    )


def test_keys_that_are_too_short_are_refused_everywhere() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate"],
        cwd=ROOT,
        env={**os.environ, "REPRISE_ENCRYPTION_KEYS": f"{'n' * 40},short"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "REPRISE_ENCRYPTION_KEYS: each key must have 32 random characters or more\n"
    )
