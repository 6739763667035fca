"""Progress and checkpoints with real processes: the programs are those of docs/progress.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from reprise_client import Client, Session

from tests.acceptance.running import ROOT, Standalone, clean_environ, ended, submit
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/progress.md").read_text()
REPRISE = str(Path(sys.executable).with_name("reprise"))
POLICY = {"max_retries": 2, "retry_delay": 0.1}


def program(kind: str, word: str) -> str:
    """The example of the page in this language that has the word in it."""
    found = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    (one,) = [each for each in found if word in each]
    return str(one)


def test_the_next_attempt_goes_on_at_the_checkpoint(client: Client) -> None:
    attempts = ended(client, submit(client, program("sh", "going on after"), policy=POLICY))
    first, second = (client.session(each.id) for each in attempts)
    (said,) = re.findall(r"begins with `(going on .*)`", PAGE)
    assert client.logs(second.id).decode().startswith(f"{said}\n::reprise::")
    assert [
        (told.step, told.of, told.checkpoint, told.checkpoint_step, told.made_progress)
        for each in (first, second)
        if (told := each.progress)
    ] == [(3, 6, "saved/3", 3, True), (6, 6, "saved/6", 6, True)]


def test_a_live_run_shows_its_bar(client: Client, standalone: Standalone, tmp_path: Path) -> None:
    script = 'echo \'::reprise:: {"step": 25, "of": 100}\'; echo shown; exec sleep 600'
    session = submit(client, script)

    def told() -> Session | None:
        found = client.session(session)
        return found if found.progress else None

    until(told, "the progress is there")
    credentials = standalone.data_dir / "credentials.json"
    config = tmp_path / "config.yaml"
    for arguments in (
        ("login", "--credentials", str(credentials)),
        ("session", "info", session),
        ("session", "logs", session),
    ):
        done = subprocess.run(
            [REPRISE, *arguments],
            env=clean_environ(REPRISE_CONFIG=str(config)),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        if "info" in arguments:
            assert "[######------------------] 25 of 100 (25 %)" in done.stdout
        if "logs" in arguments:
            assert done.stdout == "shown\n"
    client.cancel(session)


def test_a_python_program_tells_and_goes_on(client: Client) -> None:
    code = program("python", "attempt.progress")
    command = [sys.executable, "-c", f"{code}\n    if step == 55 and not attempt.number: exit(1)"]
    created = client.session_create(image="any", command=command, retry_policy=POLICY)
    first, second = (client.session(each.id) for each in ended(client, created.id))
    assert first.progress is not None
    assert (first.progress.checkpoint, first.progress.checkpoint_step) == (
        "s3://bucket/run/50.pt",
        50,
    )
    assert first.progress.best_step == 55, "the last line is printed at the end of the program"
    assert (
        "after kernel_nonzero_exit: load s3://bucket/run/50.pt" in client.logs(second.id).decode()
    )
    assert second.progress is not None
    assert second.progress.step == 100


def test_the_command_prints_what_the_executor_reads(client: Client) -> None:
    script = program("sh", "reprise progress").replace("reprise progress", f"{REPRISE} progress")
    (attempt,) = ended(client, submit(client, script))
    told = client.session(attempt.id).progress
    assert told is not None
    assert (told.step, told.of, told.checkpoint) == (40, 100, "s3://bucket/run/40.pt")
