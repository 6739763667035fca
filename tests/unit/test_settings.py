"""The settings: all of them declared, told, passed on, and none of them wrong at a start."""

import os
import re
import subprocess
import sys
from dataclasses import fields

import pytest
import yaml
from django.conf import settings

from base.variables.__main__ import page, text_of
from base.variables.reading import declared, misspelt, read
from executor.environment import Agent
from reprise.environment import Environment, Numbers
from tests.house import SERVER
from tests.observability import ROOT
from tests.waiting import PATIENCE_SECONDS

DECLARED = {each.name: each for each in declared(Environment)}
LONG = "k" * 40
NOT_IN_COMPOSE = {
    "REPRISE_METRICS_DIR",  # each container has a new one
    "REPRISE_ISOLATE_RUNS",  # of standalone; the agent's is there
}
OF_COMPOSE = {
    "REPRISE_HTTPS": "1",
    "REPRISE_DEFAULT_PROJECT": "default/default",
    "REPRISE_LOG_LEVEL": "INFO",
    "REPRISE_LOG_FORMAT": "json",
    "REPRISE_ISOLATE_RUNS": "on",
}
"""Defaults of docker-compose.yml that are its own."""


def started(*command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Start a process of the server, or an agent, with nothing else of ours in its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("REPRISE_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**kept, "DATABASE_URL": "none", **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize(
    "command",
    [
        ("manage.py", "check"),
        ("-m", "celery", "-A", "reprise", "worker"),
        ("-m", "uvicorn", "reprise.asgi:application"),
        ("-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "reprise.wsgi"),
    ],
    ids=["manage", "worker", "uvicorn", "gunicorn"],
)
def test_a_process_with_wrong_values_does_not_start(command: tuple[str, ...]) -> None:
    done = started(*command, REPRISE_HTTPS="ja", REPRISE_LEASE_TTL="5m")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "REPRISE_HTTPS: 'ja' is not one of 1, true, yes, on, 0, false, no, off\n"
        "REPRISE_LEASE_TTL: '5m' is not a number of seconds above 0, up to 3153600000\n"
    )


def test_gaps_of_production_are_told_beside_them() -> None:
    done = started("manage.py", "check", REPRISE_PRODUCTION="1", REPRISE_GRAPHIQL="nein")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("REPRISE_GRAPHIQL: 'nein' is not one of")
    assert second.startswith("Reprise does not start: REPRISE_SECRET_KEY is not set")


def test_an_agent_with_wrong_values_does_not_start() -> None:
    options = ("--name", "a", "--url", "http://127.0.0.1:9", "--state-dir", "/nowhere")
    done = started("-m", "executor", *options, REPRISE_ISOLATE_RUNS="ja", REPRISE_LOG_LEVEL="loud")
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first == "REPRISE_ISOLATE_RUNS: 'ja' is not one of on, partly, off"
    assert second.startswith("REPRISE_LOG_LEVEL: 'loud' is not one of")


def test_a_misspelt_variable_is_mentioned() -> None:
    done = started("manage.py", "check", REPRISE_HTPS="1", REPRISE_ATTEMPT="0")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "REPRISE_HTPS is set, and nothing reads it; did you mean REPRISE_HTTPS?\n"
    )
    assert done.stderr.count("REPRISE_") == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DATABASE_URL", "", "Reprise needs a PostgreSQL"),
        ("DATABASE_URL", "me:hunter2@host/name", "Reprise needs a PostgreSQL"),
        ("DATABASE_URL", "mysql://me:hunter2@host/name", "Reprise needs a PostgreSQL"),
        ("DATABASE_URL", "postgres://me:hunter2@host:port/x", "Reprise needs a PostgreSQL"),
        ("BROKER_URL", "", "Reprise works with RabbitMQ"),
        ("BROKER_URL", "redis://:hunter2@host", "Reprise works with RabbitMQ"),
        ("REPRISE_ENCRYPTION_KEYS", "hunter2", "each key must have 32 random characters or more"),
        ("REPRISE_ENCRYPTION_KEYS", f"{LONG},{LONG}", "a key is repeated"),
        ("REPRISE_ENCRYPTION_KEYS", ",", "must not be empty"),
        ("REPRISE_ALLOWED_HOSTS", "https://a.example.org", "'https://a.example.org' is not a host"),
        ("REPRISE_ALLOWED_HOSTS", "a.example.org:8000", "'a.example.org:8000' is not a host"),
        ("REPRISE_CSRF_TRUSTED_ORIGINS", "a.example.org", "'a.example.org' is not an origin"),
        ("REPRISE_DATABASE_POOL", "0", "'0' is not a whole number from 1"),
        ("REPRISE_HSTS_SECONDS", "1h", "'1h' is not a whole number"),
        ("REPRISE_METRICS_PORT", "65536", "'65536' is not a whole number from 1 to 65535"),
        ("REPRISE_LOG_FORMAT", "xml", "'xml' is not one of json, console"),
        ("REPRISE_LOG_LEVEL", "info", "'info' is not one of"),
        ("REPRISE_DEFAULT_PROJECT", "work", "'work' is not a project, written domain/name"),
        ("REPRISE_DEFAULT_PROJECT", "a/b/c", "'a/b/c' is not a project"),
        ("REPRISE_POD_FIELDS_ALLOWED", "hostnetwork", "'hostnetwork' is not a field"),
        ("REPRISE_POD_FIELDS_REFUSED", "host network", "'host network' is not a path"),
        ("REPRISE_WEBHOOK_ALLOWED_NETWORKS", "10.0.0.1/8", "10.0.0.1/8 has host bits set"),
        ("REPRISE_WEBHOOK_ALLOWED_HOSTS", "http://a", "'http://a' is not a host"),
        ("REPRISE_RETRY_SHARE", "2", "'2' is not a number from 0 to 1"),
        ("REPRISE_LOGIN_COOL_OFF", "0", "'0' is not a number of seconds above 0"),
        ("REPRISE_BODY_BYTES_PER_SECOND", "0", "'0' is not a number of bytes above 0"),
    ],
)
def test_errors_are_reported(name: str, value: str, message: str) -> None:
    (line,) = read(Environment, {name: value})[1]
    assert line.startswith(f"{name}: {message}")
    assert "hunter2" not in line


def test_secrets_are_not_shown() -> None:
    secrets = {
        "DATABASE_URL": "postgres://me:hunter2@host/name",
        "BROKER_URL": "amqp://me:hunter2@host//",
        "REPRISE_SECRET_KEY": "hunter2",
        "REPRISE_METRICS_TOKEN": "hunter2",
        "REPRISE_ENCRYPTION_KEYS": "hunter2" * 6,
    }
    assert secrets.keys() == {name for name, each in DECLARED.items() if each.kind.secret}
    found, wrong = read(Environment, secrets)
    assert wrong == []
    assert "hunter2" not in repr(found)


def test_numbers_keep_their_types() -> None:
    """`settings.REPRISE` is what is declared, and a default read again is the same value."""
    assert settings.REPRISE.keys() == {each.name for each in fields(Numbers)}
    texts = {each.name: text_of(each.default) for each in declared(Numbers)}
    found, wrong = read(Numbers, texts)
    assert wrong == []
    assert [repr(value) for value in vars(found).values()] == [
        repr(value) for value in vars(Numbers()).values()
    ]


def test_the_manual_lists_them() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == page(["reprise.environment", "executor.environment"]), "run: make schema"


def test_no_name_in_this_repository_is_taken_for_another() -> None:
    """Sessions, tests, the command and compose have variables of their own."""
    tests_of_this = {"test_settings.py", "test_variables.py"}
    texts = [
        path.read_text()
        for room in (*SERVER, "executor", "client", "docs", "deploy", "tests")
        for path in (ROOT / room).rglob("*.*")
        if path.suffix in {".py", ".md", ".yaml"} and path.name not in tests_of_this
    ]
    names = dict.fromkeys(re.findall(r"REPRISE_[A-Z_]*[A-Z]", "".join(texts)), "1")
    assert len(names) > 100
    for declarations in (Environment, Agent):
        assert misspelt(declarations, names) == []


def test_nobody_else_reads_them() -> None:
    own = re.compile(r"environ(?:\.get\(|\[)[\"'](?:REPRISE_|DATABASE_URL|BROKER_URL)|getenv")
    readers = {
        str(path.relative_to(ROOT))
        for room in (*SERVER, "executor", "base", "deploy")
        for path in (ROOT / room).rglob("*.py")
        if own.search(path.read_text())
    }
    # What was given to a run, what a test wants to die, and what `reprise/environment.py` asks.
    assert readers == {
        "executor/drivers/kubernetes/pod_manifest.py",
        "executor/drivers/simulated/run_log.py",
        "executor/drivers/simulated/driver.py",
        "executor/failpoints.py",
        "sessions_app/db/failpoints.py",
        "reprise/production.py",
    }


def test_compose_passes_every_variable_on() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ours = {name: each["environment"] for name, each in services.items() if "build" in each}
    server = {key for name, each in ours.items() if name != "executor" for key in each}
    assert DECLARED.keys() - server == NOT_IN_COMPOSE
    agent = {each.name for each in declared(Agent)}
    assert {key for key in ours["executor"] if key.startswith("REPRISE_")} <= agent


def test_compose_and_its_example_have_the_same_defaults() -> None:
    """An image of the version before, too, has to start with them: it would not take empty ones."""
    expected = {name: text_of(each.default) for name, each in DECLARED.items()} | OF_COMPOSE
    compose = (ROOT / "docker-compose.yml").read_text()
    used = dict(re.findall(r"\$\{(REPRISE_\w+):-([^}]*)\}", compose))
    example = (ROOT / ".env.example").read_text()
    examples = dict(re.findall(r"^#(REPRISE_\w+)=(.*)$", example, re.MULTILINE))
    assert examples == used
    ours = used.keys() & DECLARED.keys()
    assert {name: used[name] for name in ours} == {name: expected[name] for name in ours}
