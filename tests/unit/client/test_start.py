"""Tests that commands without calls start without the libraries of calls, which are most of a
start's time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import reprise_client

from tests.waiting import PATIENCE_SECONDS

# Without pydantic itself: typer loads it for its own use, which is cheap next to the models.
OF_CALLS = (
    "httpx",
    "reprise_client.api",
    "reprise_client.answers",
    "reprise_client.models",
)
WATCHED = f"""
import atexit, sys
atexit.register(lambda: print(*sorted({set(OF_CALLS)!r} & set(sys.modules)), file=sys.stderr))
from reprise_client.cli.main import main
main()
"""


def loaded(tmp_path: Path, *words: str, **environ: str) -> tuple[str, list[str]]:
    """Return what a command prints, and which of `OF_CALLS` it has loaded by its end."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *words],
        env={**os.environ, "REPRISE_CONFIG": str(tmp_path / "none.yaml"), **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return done.stdout, done.stderr.split()


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "session --help",
        "session list --help",
        "job-set --help",
        "queue --help",
        "quota --help",
        "context --help",
        "run --help",
        "apply --help",
        "get --help",
        "create --help",
        "simulate --help",
        "top --help",
        "context list",
    ],
)
def test_commands_without_calls_load_no_client(tmp_path: Path, words: str) -> None:
    printed, found = loaded(tmp_path, *words.split())
    assert printed
    assert found == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [("reprise s", "session"), ("reprise session r", "retry"), ("reprise get q", "queues")],
)
def test_nor_does_completion_of_what_the_command_knows(
    tmp_path: Path, line: str, offered: str
) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    printed, found = loaded(tmp_path, _REPRISE_COMPLETE="complete_bash", **words)
    assert offered in printed.split()
    assert found == []


def test_a_call_loads_what_it_needs(tmp_path: Path) -> None:
    """The tests above watch what there is to see."""
    nobody = {"REPRISE_URL": "http://127.0.0.1:1", "REPRISE_TOKEN": "none"}
    with pytest.raises(subprocess.CalledProcessError) as failed:
        loaded(tmp_path, "session", "list", **nobody)
    assert failed.value.stderr.splitlines()[-1].split() == sorted(OF_CALLS)


@pytest.mark.parametrize("name", reprise_client.__all__)
def test_all_that_the_sdk_exports_is_there(name: str) -> None:
    assert name in dir(reprise_client)
    found = getattr(reprise_client, name)
    assert getattr(found, "__name__", "attempt") == name


def test_unknown_names_of_the_sdk_are_missing_as_from_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'reprise_client' has no attribute 'Nothing'"):
        _ = reprise_client.Nothing


def test_the_sdk_brings_no_library_of_terminals_along() -> None:
    """httpx would load them for a command line of its own."""
    code = "import sys; from reprise_client import Client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert {"httpx"} == {"httpx", "click", "pygments", "rich"} & set(done.stdout.split())
