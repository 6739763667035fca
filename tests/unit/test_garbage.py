"""Every server process exempts what it has loaded from garbage collection, and collects rarely."""

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
import threading, time
from celery import signals
import reprise.celery
# It waits for its database after that.
threading.Thread(target=signals.beat_init.send, args=[None], daemon=True).start()
while "garbage" not in {each.name for each in threading.enumerate()}:
    time.sleep(0.01)
""",
    "worker": """
from celery import signals
import reprise.celery
signals.celeryd_after_setup.send(sender="", instance=None, conf=None)
signals.worker_process_init.send(sender=None)
""",
}


@pytest.mark.parametrize("process", STARTS)
def test_a_process_has_frozen_what_it_loaded(process: str) -> None:
    shown = """
import gc
import threading
threads = [each.name for each in threading.enumerate()]
print(gc.get_freeze_count(), threads.count("garbage"), *gc.get_threshold())
"""
    done = subprocess.run(
        [sys.executable, "-c", STARTS[process] + shown],
        env={**os.environ, "DATABASE_URL": NOWHERE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frozen, collecting, *thresholds = (int(word) for word in done.stdout.split())
    assert frozen > 20_000
    assert collecting == 1
    assert thresholds == [100_000, 10, 10]


FREES = """
import gc, time, weakref
from reprise import garbage

class Knot:
    def __init__(self):
        self.own = self

gc.set_threshold(*garbage.THRESHOLDS)
garbage.EVERY = 0.01
garbage.collect_regularly()
for _ in range(2):
    knot = weakref.ref(Knot())
    while knot():
        time.sleep(0.001)
"""


def test_garbage_goes_though_hardly_anything_is_new() -> None:
    """Only a collection frees a knot, and the thread that collects goes on."""
    subprocess.run([sys.executable, "-c", FREES], timeout=60, check=True)
