"""When thousands of pods end at once, the logs of the last are not lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes import pod_logs
from executor.drivers.kubernetes.pod_logs import LogKeeper
from executor.drivers.kubernetes.pod_run import Known, PodRun
from executor.drivers.kubernetes.pod_tracker import SessionTracker
from executor.runs import RunFiles


class _SlowCluster:
    """Gives no log until it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.asked = 0

    async def log(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        self.asked += 1
        await self.let.wait()
        yield b"hello\n"


def _ended(number: int, directory: Path) -> PodRun:
    key = LeaseKey(f"session-{number}", 1)
    files = RunFiles(key, directory / str(number))
    files.path.mkdir()
    name = f"pod-{number}"
    run = PodRun(key, files, "here", [name], SessionTracker(key, [name]))
    pod = {"metadata": {"name": name}, "status": {"phase": "Succeeded"}}
    run.known[name] = Known.of(pod)
    return run


def test_a_log_in_line_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "LOG_SECONDS", 1.5)
    monkeypatch.setattr(pod_logs, "MOST_FETCHED", 1)

    async def play() -> None:
        cluster: Any = _SlowCluster()
        logs = LogKeeper(cluster)
        first, second = (_ended(number, tmp_path) for number in range(2))
        hung = asyncio.create_task(logs.keep(first))
        while not cluster.asked:
            await asyncio.sleep(0.01)
        kept = asyncio.create_task(logs.keep(second))
        completed = asyncio.create_task(logs.complete(second, kept))
        # The first has its turn, does not come to an end, and is given up.
        await logs.complete(first, hung)
        assert not completed.done()
        cluster.let.set()
        await completed
        assert second.files.output.read_bytes() == b"hello\n"

    asyncio.run(play())
