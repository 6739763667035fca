"""Every server process exempts what it has loaded from garbage collection."""

import os
import subprocess
import sys

import pytest

NOWHERE = "postgres://nobody@127.0.0.1:1/none"
STARTS = {
    "web": """
import asyncio
from reprise.asgi import application

async def start():
    asked = asyncio.Queue()
    await asked.put({"type": "lifespan.startup"})
    answered = asyncio.Event()
    async def send(message):
        answered.set()
    task = asyncio.create_task(application({"type": "lifespan"}, asked.get, send))
    await answered.wait()
    await asked.put({"type": "lifespan.shutdown"})
    await task

asyncio.run(start())
""",
    "beat": """
from celery import signals
import reprise.celery
signals.beat_init.send(sender=None)
""",
    "worker": """
from celery import signals
import reprise.celery
signals.celeryd_after_setup.send(sender="", instance=None, conf=None)
""",
}


@pytest.mark.parametrize("process", STARTS)
def test_a_process_has_frozen_what_it_loaded(process: str) -> None:
    shown = "import gc\nprint(gc.get_freeze_count(), *gc.get_threshold())"
    done = subprocess.run(
        [sys.executable, "-c", STARTS[process] + shown],
        env={**os.environ, "DATABASE_URL": NOWHERE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frozen, *thresholds = (int(word) for word in done.stdout.split())
    assert frozen > 20_000
    assert thresholds == [100_000, 10, 10]
