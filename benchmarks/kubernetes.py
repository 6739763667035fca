"""1,000 pods through a real Kubernetes API server: created, watched and settled, in pods per
second.

Reprise: a real executor process leases 1,000 sessions from a small server. That is the tests' own,
which stores nothing: only the executor with its Kubernetes driver is measured. It creates a pod for
each session, observes its end, fetches its log, reports, and removes the pod. The time is from the
submission to the last answered end; `cleared` is until the last pod is gone.

The floor: the same client with the same bodies, but without our finalizer, only creates 1,000 pods,
one after the other. A separate process on the same cores plays the scheduler and the nodes: it
binds each pod and ends it. The floors differ in what the nodes do with their pods:

* `ratio_bare_create`: Reprise to the floor on the same cluster, its nodes at work on both;
* `ratio_bare_create_alone`: to the floor while the nodes ignore its pods, so that the machine has
  to do only one call for each pod, against six of ours and the nodes' work;
* `ratio_bare_create_concurrent`: the same, to the best of 1, 8 and 32 calls at once.

`ratio_create_150` and `ratio_create_300` are the seconds until so many pods of sessions that were
submitted at once exist, divided by those of the same loop, its pods on the same nodes. The times
are those of the API server's audit log.

The long form has three rounds, the concurrent floors, and 10,000 pods in waves, with the executor's
memory after each 1,000. `memory_growth` is the last value divided by that after 2,000 pods.

It needs `KUBEBUILDER_ASSETS`, a directory with etcd and kube-apiserver.

    python -m benchmarks.kubernetes [--quick]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from reprise_client.wire import LeaseKey

from benchmarks.processes import cpu_seconds, memory_mb
from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.pod_manifest import manifests
from executor.drivers.protocol import Order
from executor.runs import NOWHERE, RunFiles
from tests.executor_fake import NAME, TOKEN, FakeServer
from tests.kubernetes.apiserver import ADMIN, EXECUTOR, ApiServer, binaries

PODS = 1_000
WARM = 50
ROUNDS = 3
AT_ONCE = (1, 8, 32)
BURSTS = (150, 300)
WAVE = 500
MEMORY_PODS = 10_000
MEMORY_STEP = 1_000
DEADLINE_SECONDS = 120.0
PROJECT = "bench/ours"
OURS = pod_names.namespace(pod_names.NAMESPACE_TEMPLATE, PROJECT)
BARE = "bare"
SPEC: dict[str, Any] = {"image": "busybox", "resources": {"cpu": "0.01", "memory": "16Mi"}}


@dataclass(frozen=True)
class Wave:
    """The cost of a number of sessions: seconds, and milliseconds of CPU time for each pod."""

    settled: float
    cleared: float
    cpu: dict[str, float]


class Bench:
    """An API server, nodes and an executor, each a process."""

    def __init__(self, api: ApiServer, nodes: int, agent: int, server: FakeServer, config: Path):
        self.api = api
        self.server = server
        self.agent = agent
        self.config = config
        self._pids = {"executor": agent, "nodes": nodes, **api.pids}

    def run(self, pods: int) -> Wave:
        """Run sessions, from their submission to the last pod's removal."""
        before = self._cpu()
        self.server.sessions.clear()
        self.server.calls.clear()
        start = time.perf_counter()
        with self.server.changed:
            for _ in range(pods):
                self.server.submit("true", environ={"REPRISE_PROJECT": PROJECT}, **SPEC)
        sessions = list(self.server.sessions.values())
        _until(lambda: all(each.settled or each.returned for each in sessions))
        settled = time.perf_counter() - start
        _until(lambda: self._empty(OURS))
        cleared = time.perf_counter() - start
        wrong = [each for each in sessions if each.statuses[-1:] != ["TERMINATED"] or not each.log]
        if wrong:
            example = wrong[0].reports[-1:], wrong[0].log
            raise SystemExit(
                f"{len(wrong)} of {pods} sessions are not as they should be: {example}"
            )
        used = {name: (now - before[name]) * 1000 / pods for name, now in self._cpu().items()}
        return Wave(settled, cleared, used)

    def bare(self, pods: int, at_once: int, namespace: str) -> float:
        """Return the pods per second of the loop that only creates them.

        In `OURS` the nodes run them.
        """
        bodies = self.api.directory / "bodies.json"
        bodies.write_text(json.dumps([_body(namespace) for _ in range(pods)]))
        loop = [
            *(sys.executable, "-m", "benchmarks.peers.bare_pods"),
            *(str(self.config), str(bodies), str(at_once)),
        ]
        took = subprocess.run(loop, check=True, stdout=subprocess.PIPE, text=True)
        if namespace == OURS:
            _until(lambda: self._empty(namespace, "&fieldSelector=status.phase!%3DSucceeded"))
        self.api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
        _until(lambda: self._empty(namespace))
        return pods / float(took.stdout)

    def creation_seconds(self, pods: int) -> tuple[float, float]:
        """Return the seconds for the creation of so many pods: ours from the submission on, and
        those of the bare loop."""
        bare = self._creations(lambda: self.bare(pods, 1, OURS))
        began = time.time()
        ours = self._creations(lambda: self.run(pods))
        return ours[-1][1] - began, bare[-1][1] - bare[0][0]

    def _creations(self, work: Callable[[], object]) -> list[tuple[float, float]]:
        """Return when each call that creates a pod began and ended while `work` is done."""
        before = self.api.audit.stat().st_size
        work()
        with self.api.audit.open("rb") as log:
            log.seek(before)
            entries = [json.loads(line) for line in log if line.endswith(b"\n")]
        return sorted(
            (_seconds(each["requestReceivedTimestamp"]), _seconds(each["stageTimestamp"]))
            for each in entries
            if (each["verb"], each["stage"]) == ("create", "ResponseComplete")
            and each["objectRef"]["resource"] == "pods"
        )

    def _empty(self, namespace: str, query: str = "") -> bool:
        path = f"/api/v1/namespaces/{namespace}/pods?limit=1{query}"
        return not self.api.call("GET", path)["items"]

    def memory(self) -> float:
        """Return the executor's resident memory in MiB."""
        return memory_mb([self.agent])[0]

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds([pid]) for name, pid in self._pids.items()}


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one round and one floor; memory is not measured"
    )
    quick = parser.parse_args().quick
    assets = binaries()
    if assets is None:
        print("no kube-apiserver: set KUBEBUILDER_ASSETS", file=sys.stderr)
        print(json.dumps({"ratio_bare_create": None}))
        return
    with _bench(assets) as bench:
        bench.run(WARM)
        result = _speed(bench, 1 if quick else ROUNDS, (1,) if quick else AT_ONCE)
        result |= _bursts(bench, 1 if quick else ROUNDS)
        if not quick:
            result["memory_growth"] = _memory(bench)
    print(json.dumps(result))


def _speed(bench: Bench, rounds: int, at_once: Sequence[int]) -> dict[str, Any]:
    bare_rates: dict[int, list[float]] = {number: [] for number in at_once}
    played: list[float] = []
    waves: list[Wave] = []
    for _ in range(rounds):
        for number, rates in bare_rates.items():
            rates.append(bench.bare(PODS, number, BARE))
            print(f"bare, {number:2} at once  {rates[-1]:7.0f} pods/s", flush=True)
        played.append(bench.bare(PODS, 1, OURS))
        print(f"bare, with nodes  {played[-1]:7.0f} pods/s", flush=True)
        waves.append(bench.run(PODS))
        _show(waves[-1])
    ours = median(PODS / wave.settled for wave in waves)
    best = max(median(rates) for rates in bare_rates.values())
    return {
        "ratio_bare_create": round(ours / median(played), 3),
        "ratio_bare_create_alone": round(ours / median(bare_rates[1]), 3),
        "ratio_bare_create_concurrent": round(ours / best, 3) if len(bare_rates) > 1 else None,
        "pods_per_second": round(ours, 1),
        "cleared_per_second": round(median(PODS / wave.cleared for wave in waves), 1),
        "executor_cpu_ms": round(median(wave.cpu["executor"] for wave in waves), 2),
        "rss_mb": round(bench.memory(), 1),
    }


def _bursts(bench: Bench, rounds: int) -> dict[str, float]:
    found = {}
    for pods in BURSTS:
        ratios = []
        for _ in range(rounds):
            ours, bare = bench.creation_seconds(pods)
            ratios.append(ours / bare)
            print(f"{pods} at once       {ours:7.2f} s, bare {bare:.2f} s", flush=True)
        found[f"ratio_create_{pods}"] = round(median(ratios), 3)
    return found


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _show(wave: Wave) -> None:
    costs = ", ".join(f"{name} {each:.1f}" for name, each in wave.cpu.items())
    print(
        f"ours              {PODS / wave.settled:7.0f} pods/s   ({PODS / wave.cleared:.0f} cleared;"
        f" CPU ms/pod: {costs})",
        flush=True,
    )


def _memory(bench: Bench) -> float:
    """Return the executor's memory at the end divided by that after twice `MEMORY_STEP` pods."""
    found = []
    for done in range(0, MEMORY_PODS, WAVE):
        bench.run(WAVE)
        if (done + WAVE) % MEMORY_STEP == 0:
            found.append(bench.memory())
            print(f"{done + WAVE:6} pods   {found[-1]:6.1f} MB resident", flush=True)
    return round(found[-1] / found[1], 3)


@contextmanager
def _bench(assets: Path) -> Iterator[Bench]:
    server = FakeServer()
    with (
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as name,
        ApiServer(Path(name) / "api", assets) as api,
    ):
        directory = Path(name)
        api.grant_executor()
        for namespace in (OURS, BARE):
            api.namespace(namespace)
        config = api.kubeconfig("executor", EXECUTOR)
        token = directory / "token"
        token.write_text(TOKEN)
        nodes = [
            *(sys.executable, "-m", "benchmarks.instant_nodes"),
            *(str(api.directory), api.url, ADMIN, OURS),
        ]
        agent = [
            *(sys.executable, "-m", "executor", "--name", NAME, "--url", server.url),
            *("--token-file", str(token), "--state-dir", str(directory / "agent")),
            *("--driver", "kubernetes", "--kubeconfig", str(config)),
            *("--max-sessions", str(2 * PODS)),
        ]
        with (
            _process(nodes, stdout=subprocess.PIPE) as played,
            (directory / "agent.log").open("wb") as log,
            _process(agent, stderr=log) as executor,
        ):
            assert played.stdout is not None  # a pipe was asked for
            if played.stdout.readline() != b"ready\n":
                raise SystemExit("the nodes have not come up")
            yield Bench(api, played.pid, executor.pid, server, config)
    server.stop()


@contextmanager
def _process(command: list[str], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _body(namespace: str) -> dict[str, Any]:
    """Return the pod that the executor would create for a session, without the finalizer."""
    session = str(uuid4())
    environ = {"REPRISE_SESSION_ID": session, "REPRISE_PROJECT": "bare"}
    key = LeaseKey(session, 1)
    spec: Any = {"name": "test", "command": ["true"], "cluster_size": 1, **SPEC}
    order = Order(key, spec, environ, RunFiles(key, NOWHERE))
    (body,) = manifests(order, executor="bare", namespace=namespace, refused=())
    del body["metadata"]["finalizers"]
    return body


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not done in {DEADLINE_SECONDS:g} s")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
