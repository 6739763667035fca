"""The logs of pods that have ended: those of thousands at once, and of what failed first."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from reprise_client.wire import LeaseKey

from executor.drivers.kubernetes import pod_logs
from executor.drivers.kubernetes.api_refusals import ApiRefusal, NotThere, OwnTrouble, Transient
from executor.drivers.kubernetes.pod_logs import LogKeeper
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_run import Known, PodRun
from executor.drivers.kubernetes.pod_tracker import SessionTracker
from executor.drivers.protocol import Observation
from executor.failure_tail import TAIL_BYTES
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
    run = PodRun(key, files, Place("here", [name]), SessionTracker(key, [name]))
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


class _Logs:
    """Gives the ends of logs, or refuses as often as it is told to."""

    def __init__(self, *answers: bytes | ApiRefusal) -> None:
        self.asked: list[tuple[str, str]] = []
        self._answers = list(answers)

    async def log_end(self, path: str, container: str, **_: Any) -> bytes:
        self.asked.append((path, container))
        answer = self._answers.pop(0)
        if isinstance(answer, ApiRefusal):
            raise answer
        return answer


def _container(name: str, code: int, second: int = 0) -> dict[str, Any]:
    finished = f"2026-11-21T00:00:0{second}Z"
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": finished}}}


def _failed(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **of: Any) -> Any:
    """The run of one pod, or of one with `size` pods whose last one failed."""
    size, stopped = of.get("size", 1), of.get("stopped", False)
    names = [f"pod-{rank}" for rank in range(size)]
    key = LeaseKey("s", 1)
    tracker = SessionTracker(key, names)
    run = PodRun(key, RunFiles(key, Path("/nonexistent")), Place("here", names), tracker)
    for name in names:
        mine = containers if name == names[-1] else (_container("main", 0),)
        pod = {
            "metadata": {"name": name},
            "spec": {
                "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
                "containers": [{"name": "side"}, {"name": "main"}],
            },
            "status": {
                "phase": "Failed" if name == names[-1] else "Succeeded",
                "containerStatuses": list(mine),
                "initContainerStatuses": list(init),
            },
        }
        run.known[name] = Known.of(pod)
        if stopped:
            tracker.stop()
        for seen in tracker.see(pod):
            run.end = seen if seen.status in {"ERROR", "TERMINATED"} else run.end
    assert isinstance(run.end, Observation)
    return run


async def _kept(run: PodRun, logs: Any) -> None:
    aside = run.failed_aside
    assert aside is not None
    await LogKeeper(logs).keep_failed(run, *aside)


def test_of_a_log_that_ends_with_a_long_dump_the_head_is_read_too() -> None:
    side, main = _container("side", 2, 1), _container("main", 1, 2)
    frames = b"".join(b"\tat org.example.Tree.walk(Tree.java:%d)\n" % n for n in range(9_000))
    dump = b"step 3\n" * 9_000 + b"java.lang.StackOverflowError: bad tree\n" + frames

    async def play() -> None:
        run, logs = _failed(side, main), _Logs(dump[-2 * TAIL_BYTES :], dump)
        await _kept(run, logs)
        assert len(logs.asked) == 2
        assert run.failed_output is not None
        assert b"StackOverflowError: bad tree\n" in run.failed_output
        # No more stays in memory than the report takes.
        assert TAIL_BYTES - 200 < len(run.failed_output) <= TAIL_BYTES

    asyncio.run(play())


def test_the_log_of_another_container_that_failed_first_is_read() -> None:
    side, main = _container("side", 2, 1), _container("main", 1, 2)

    async def play() -> None:
        run, logs = _failed(side, main), _Logs(b"error: no space\n")
        await _kept(run, logs)
        assert logs.asked == [("/api/v1/namespaces/here/pods/pod-0", "side")]
        assert run.failed_output == b"error: no space\n"
        fetch = (_container("fetch", 1),)
        assert _failed(main, init=fetch).failed_aside == ("pod-0", "fetch")
        # A sidecar counts only if it failed alone.
        proxy = (_container("proxy", 1),)
        assert _failed(main, init=proxy).failed_aside is None
        assert _failed(_container("main", 0), init=proxy).failed_aside == ("pod-0", "proxy")

    asyncio.run(play())


def test_the_file_of_the_run_has_the_end_of_a_single_main_container() -> None:
    async def play() -> None:
        side, main = _container("side", 2, 3), _container("main", 1, 2)
        assert _failed(side, main).failed_aside is None
        assert _failed(main, size=2).failed_aside == ("pod-1", "main")
        # What was stopped needs no text, and what was evicted has none.
        assert _failed(_container("side", 2), stopped=True).failed_aside is None
        assert _failed({"name": "main", "state": {"running": {}}}).failed_aside is None

    asyncio.run(play())


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ((Transient("502"), b"error: x\n"), b"error: x\n"),
        ((Transient("502"),) * 3, b""),
        ((NotThere("404"),), b""),
        ((OwnTrouble("403"),), b""),
        ((b"unable to retrieve container logs for containerd://1",), b""),
    ],
)
def test_a_log_that_cannot_be_read_is_nobodys(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[bytes | ApiRefusal, ...], kept: bytes
) -> None:
    monkeypatch.setattr("executor.drivers.kubernetes.list_watch.FIRST_PAUSE", 0.0)

    async def play() -> None:
        run, logs = _failed(_container("side", 2, 1), _container("main", 1, 2)), _Logs(*answers)
        await _kept(run, logs)
        assert run.failed_output == kept
        assert len(logs.asked) == len(answers)

    asyncio.run(play())


def test_of_a_rank_whose_log_cannot_be_read_the_file_is_searched() -> None:
    async def play() -> None:
        run = _failed(_container("main", 1), size=2)
        await _kept(run, _Logs(NotThere("404")))
        assert run.failed_output is None

    asyncio.run(play())
