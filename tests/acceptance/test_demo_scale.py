"""`make demo-scale`, small, as a newcomer runs it; and `reprise top` on what it leaves up."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprise.standalone.postgres import EmbeddedPostgres
from tests.acceptance.running import ROOT, Program, check_database, clean_environ
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

REPRISE = str(Path(sys.executable).with_name("reprise"))
# Of so few sessions, those of this seed have enough broken images for the breaker.
SMALL = (
    *("--queues", "5", "--sessions", "200", "--executors", "2", "--run-seconds", "0.5"),
    *("--seed", "7"),
)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Program]:
    command = [sys.executable, "manage.py", "demo_scale", "--data-dir", str(tmp_path / "data")]
    program = Program([*command, "--port", "0", *SMALL])
    yield program
    if program.alive:
        program.kill()


def top(data: Path, *options: str) -> str:
    """Return what `reprise top` prints about the server that the demonstration has left up."""
    credentials = json.loads((data / "credentials.json").read_text())
    done = subprocess.run(
        [REPRISE, "top", *options],
        env=clean_environ(REPRISE_URL=credentials["url"], REPRISE_TOKEN=credentials["token"]),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_storm_passes_and_nothing_is_lost(demo: Program, tmp_path: Path) -> None:
    stays = "The server stays up until Ctrl-C."
    until(
        lambda: stays in demo.stdout or not demo.alive, "it stays up", seconds=5 * PATIENCE_SECONDS
    )
    text, errors = demo.printed
    assert demo.alive, errors
    # Off a terminal the view is a line every few seconds.
    assert re.search(r"^\d\d:\d\d:\d\d  waiting \d+  live \d+  retries \d+ ", text, re.MULTILINE)
    assert re.search(r"^  200 +\d+ +\d+ +\d+ +\d+ +\d+ in \d+ s$", text, re.MULTILINE)
    for cause in ("kernel_nonzero_exit", "image_pull_failure", "preempted"):
        assert re.search(rf"^  {cause} +[1-9]", text, re.MULTILINE), text
    worth = text.partition("What retries were worth")[2]
    for cause in ("kernel_nonzero_exit", "preempted"):
        assert re.search(
            rf"^  {cause} +[1-9]\d* +[1-9]\d* +\d+( +\d+\.\d){{3}}$", worth, re.MULTILINE
        )
    assert re.search(r"^  all +200 +[1-9]\d* +[1-9]\d* ", worth, re.MULTILINE), worth
    noticed = text.partition("What Reprise noticed by itself, and what that saved:")[2]
    for what in ("Bad nodes", "Broken image", "Progress", "Retries without end"):
        assert f"\n  {what}: " in noticed, noticed
    for pattern in (
        r"^  Breaker: .* held the others, at the end [1-9]\d* session",
        r"^  Parked chains: [1-9]\d* sessions .* mended image: [1-9]\d*, .* Given up: [1-9]\d*\.$",
    ):
        assert re.search(pattern, noticed, re.MULTILINE), noticed
    shares = re.findall(r"^  (\d) +\d +\d+\.\d% +\d+\.\d%$", text, re.MULTILINE)
    assert shares == ["1", "2", "4"]
    assert "Every chain has ended; none is lost, and no attempt was made twice." in text
    assert "Traceback" not in errors

    data = tmp_path / "data"
    assert check_database(EmbeddedPostgres(data).url) == []
    seen = json.loads(top(data, "--once", "-o", "json"))
    assert seen["waiting"] == {"value": 0, "more": False}
    assert seen["live"] == 0
    names = [each["name"] for each in seen["executors"]]
    assert names == ["cluster-1", "cluster-2", "local"]
    shown = top(data, "--once")
    assert "Waiting 0   Live 0   Retries that wait 0" in shown
    assert "No queue has anything that waits or runs." in shown

    demo.signal(signal.SIGINT)
    assert demo.reap() == 0, demo.stderr
