"""Sessions on a cluster, and what the retry engine says of their ends.

Each test runs on the API server of the tests, as far as its nodes can be played, and on the full
cluster that `REPRISE_TEST_KUBECONFIG` names, where real kubelets run real containers. All sessions
begin together, so that a slow kubelet is waited for once.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retry.evidence.causes import classify
from retry.evidence.termination import Termination
from tests.executor_fake import FakeServer, FakeSession
from tests.kubernetes.apiserver import ADMIN, binaries
from tests.kubernetes.cluster import MISSING, PATIENCE_SECONDS, TestCluster, named_cluster
from tests.unit.executor.conftest import AgentProcess
from tests.waiting import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.cluster,
    pytest.mark.xdist_group("kubernetes"),
    pytest.mark.slow,
    pytest.mark.timeout(3 * PATIENCE_SECONDS),
]

MANY_LINES = 60_000
WAIT_FOR_TERM = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.1; done"
EAT_MEMORY = "a = []\nwhile True: a.append(bytearray(1 << 20))"
WRITE_LINES = f"for n in range({MANY_LINES}): print(n, 'x' * 40)\nprint('end', end='')"
# 40 MB in half a minute: the kubelet looks every ten seconds whether a log is over 10 MB.
WRITE_MUCH = """
import time
for part in range(20):
    for n in range(20_000): print(part, n, 'x' * 90)
    time.sleep(1.5)
"""
FILL_DISK = """
import time
with open('/tmp/much', 'wb') as file: file.write(bytes(200 << 20))
time.sleep(600)
"""
MEET = """
import os, socket, time
rank, size = int(os.environ['REPRISE_RANK']), int(os.environ['REPRISE_CLUSTER_SIZE'])
port = int(os.environ['REPRISE_PORT_MEET'])
if rank == 0:
    listener = socket.create_server(('', port))
    found = sorted(listener.accept()[0].recv(100).decode() for _ in range(size - 1))
    print('met', *found)
else:
    for _ in range(600):
        try:
            peer = socket.create_connection((os.environ['REPRISE_RANK0_HOST'], port), 5)
        except OSError:
            time.sleep(0.2)
        else:
            peer.sendall(str(rank).encode())
            break
    else:
        raise SystemExit('rank 0 was not found')
"""
NAMED = "reprise-test"
MOUNTS = [
    {"path": "/scratch", "empty_dir": {"size_limit": "8Mi"}},
    {"path": "/settings", "config_map": NAMED, "read_only": True},
    {"path": "/keys", "secret": NAMED},
]
READ_MOUNTS = (
    "echo $GREETING; cat /settings/name; cat /keys/word; echo x > /scratch/x && ls /scratch"
)


def python(script: str) -> str:
    return f"exec python3 -u -c {shlex.quote(script)}"


SESSIONS: dict[str, dict[str, Any]] = {
    "success": {"script": "echo $GREETING to you"},
    "exit code": {"script": "echo oh no; exit 3"},
    "lines": {"script": python(WRITE_LINES)},
    "deadline": {"script": "sleep 600", "batch_timeout": 4},
    "cancelled": {"script": WAIT_FOR_TERM},
    "force": {"script": "sleep 600"},
    "evicted": {"script": "sleep 600", "termination_grace_period": 2},
    "restart": {"script": "echo began; sleep 15; echo done"},
    "priority": {"script": "sleep 600", "priority_class": "urgent"},
}
REAL_SESSIONS: dict[str, dict[str, Any]] = {
    "memory": {"script": python(EAT_MEMORY), "memory": "48Mi"},
    "log": {"script": python(WRITE_MUCH)},
    "disk": {"script": python(FILL_DISK), "disk": "20Mi"},
    "mounts": {"script": READ_MOUNTS, "mounts": MOUNTS},
    "ranks": {"script": python(MEET), "cluster_size": 3, "ports": ["meet"]},
    "no image": {"script": "true", "image": "registry.invalid/no/such:image"},
    "bad image": {"script": "true", "image": "NOT an image"},
    "no command": {"command": ["/no/such/command"]},
    "no secret": {"script": "true", "mounts": [{"path": "/k", "secret": "no-such-secret"}]},
    "too large": {"script": "true", "cpu": "5000"},
}


class Bench:
    """An agent on a cluster, and the sessions that it got, by name."""

    def __init__(self, cluster: TestCluster, server: FakeServer, agent: AgentProcess):
        self.cluster = cluster
        self.server = server
        self.agent = agent
        self.sessions: dict[str, FakeSession] = {}

    def start_agent(self) -> None:
        options = ["--driver", "kubernetes", "--kubeconfig", str(self.cluster.kubeconfig)]
        options += ["--namespace-template", self.cluster.template, "--max-sessions", "100"]
        options += ["--priority-class", f"urgent={self.cluster.priority_class}"]
        self.agent.start(*options, "--relist-seconds", "5", "--watch-seconds", "60")

    def submit(self, name: str, given: dict[str, Any]) -> None:
        given = dict(given)
        command = given.pop("command", None) or ["sh", "-c", given.pop("script", "")]
        resources = {"requests": {"cpu": given.pop("cpu", "10m"), "memory": "16Mi"}}
        resources["limits"] = {"memory": given.pop("memory", "256Mi")}
        if disk := given.pop("disk", ""):
            resources["limits"]["ephemeral-storage"] = disk
        spec = {"containers": [{"name": "main", "imagePullPolicy": "IfNotPresent"}]}
        environ = {"REPRISE_PROJECT": "default/tests", "GREETING": "hello"}
        more = {"image": self.cluster.image, "resources": resources, "pod_spec": spec, **given}
        self.sessions[name] = self.server.submit(*command, environ=environ, **more)

    def wait(self, condition: Any) -> None:
        self.server.wait_for(condition, self.cluster.patience)

    def ended(self, name: str) -> FakeSession:
        session = self.sessions[name]
        self.wait(lambda: session.settled)
        assert session.settled == "reported"
        return session

    def cause(self, name: str) -> str:
        return str(classify(Termination.from_json(self.ended(name).termination)))

    def seen_as(self, name: str, cause: str) -> FakeSession:
        """A session that does not end by itself, but of which enough is known: the server would
        end it now, as here is done."""
        session = self.sessions[name]
        self.wait(lambda: session.settled or _seen_cause(session) == cause)
        if not session.settled:
            self.server.stop_session(session, "cancelled", 1)
        else:
            assert self.cause(name) == cause
        self.ended(name)
        return session

    def pod(self, name: str) -> dict[str, Any]:
        session = self.sessions[name]

        def mine() -> list[dict[str, Any]]:
            label = "reprise.dev/session"
            found = self.cluster.pods()
            return [pod for pod in found if pod["metadata"]["labels"].get(label) == session.id]

        until(lambda: bool(mine()), seconds=self.cluster.patience)
        return mine()[0]

    def path(self, name: str) -> str:
        pod = self.pod(name)["metadata"]
        return f"/api/v1/namespaces/{self.cluster.namespace}/pods/{pod['name']}"

    def running(self, name: str) -> FakeSession:
        session = self.sessions[name]
        self.wait(lambda: "RUNNING" in session.statuses)
        return session


def _seen_cause(session: FakeSession) -> str:
    pods = [report["pod"] for report in session.reports if report.get("pod")]
    return str(classify(Termination.from_json({"pod": pods[-1]}))) if pods else ""


@pytest.fixture(scope="module", params=["played", "full"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    if request.param == "full":
        if (found := named_cluster()) is None:
            pytest.skip(MISSING)
        kubeconfig, image = found
    else:
        if binaries() is None:
            pytest.skip("no kube-apiserver: see tests/kubernetes/conftest.py")
        request.getfixturevalue("kubelet")
        api = request.getfixturevalue("api")
        kubeconfig, image = api.kubeconfig("cluster-admin", ADMIN), "busybox"
    made = TestCluster(kubeconfig, directory, real=request.param == "full", image=image)
    made.set_up()
    yield made
    made.tear_down()


@pytest.fixture(scope="module")
def bench(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    server = FakeServer()
    server.name = cluster.name
    agent = AgentProcess(server.url, tmp_path_factory.mktemp("agent"), cluster.name)
    made = Bench(cluster, server, agent)
    cluster.make("configmaps", NAMED, data={"name": "resnet\n"})
    cluster.make("secrets", NAMED, stringData={"word": "sesame\n"})
    for name, given in {**SESSIONS, **(REAL_SESSIONS if cluster.real else {})}.items():
        made.submit(name, given)
    made.start_agent()
    yield made
    agent.kill()
    server.stop()


@pytest.fixture
def real(bench: Bench) -> Bench:
    if not bench.cluster.real:
        pytest.skip("real containers only: no played node can do this")
    return bench


def test_success(bench: Bench) -> None:
    session = bench.ended("success")
    assert session.final["status"] == "TERMINATED"
    assert session.log == b"hello to you\n"
    assert session.final["node"]


def test_an_exit_code(bench: Bench) -> None:
    assert bench.cause("exit code") == "kernel_nonzero_exit"
    session = bench.sessions["exit code"]
    (container,) = session.termination["pod"]["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3
    assert session.log == b"oh no\n"


def test_every_line_of_a_log_that_ends_without_a_newline(bench: Bench) -> None:
    log = bench.ended("lines").log
    lines = log.split(b"\n")
    assert lines[-1] == b"end"
    assert [int(line.split()[0]) for line in lines[:-1]] == list(range(MANY_LINES))


def test_a_batch_timeout(bench: Bench) -> None:
    assert bench.cause("deadline") == "deadline_exceeded"


def test_a_cancelled_session_may_say_goodbye(bench: Bench) -> None:
    session = bench.sessions["cancelled"]
    bench.wait(lambda: b"up" in session.log)
    bench.server.stop_session(session, "cancelled", 30)
    assert bench.ended("cancelled").termination["deleted_by_us"] is True
    # The shell of a played node says in between that its sleep was ended.
    first, *_, last = session.log.splitlines()
    assert (first, last) == (b"up", b"bye")
    assert bench.cause("cancelled") == "kernel_nonzero_exit"


def test_a_forced_deletion_loses_no_evidence(bench: Bench) -> None:
    bench.running("force")
    bench.cluster.call("DELETE", bench.path("force"), {"gracePeriodSeconds": 0})
    assert bench.cause("force") == "agent_transient"
    assert bench.sessions["force"].termination["pod"]["metadata"]["uid"]


def test_an_eviction(bench: Bench) -> None:
    bench.running("evicted")
    path = bench.path("evicted")
    versions = ("policy/v1", "policy/v1beta1")  # of servers from 1.22 on, and before
    body = {"kind": "Eviction", "metadata": {"name": path.rpartition("/")[2]}}
    body["apiVersion"] = versions[0] if bench.cluster.real else versions[1]
    bench.cluster.call("POST", f"{path}/eviction", body)
    # The condition that tells an eviction from a deletion is younger than the tests' server.
    assert bench.cause("evicted") == ("evicted" if bench.cluster.real else "agent_transient")


def test_a_priority_class(bench: Bench) -> None:
    bench.running("priority")
    spec = bench.pod("priority")["spec"]
    assert spec["priorityClassName"] == bench.cluster.priority_class
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    bench.server.stop_session(bench.sessions["priority"], "cancelled", 1)
    bench.ended("priority")


def test_an_agent_that_is_killed_and_comes_back(bench: Bench) -> None:
    session = bench.sessions["restart"]
    bench.wait(lambda: b"began" in session.log)
    bench.agent.kill()
    bench.start_agent()
    assert bench.ended("restart").final["status"] == "TERMINATED"
    assert session.log == b"began\ndone\n"


def test_too_little_memory(real: Bench) -> None:
    assert real.cause("memory") == "oom_killed"


def test_a_log_that_the_kubelet_rotates_meanwhile(real: Bench) -> None:
    log = real.ended("log").log
    wanted = [b"%d %d" % (part, n) for part in range(20) for n in range(20_000)]
    assert [line.rpartition(b" ")[0] for line in log.splitlines()] == wanted


def test_too_little_storage(real: Bench) -> None:
    assert real.cause("disk") == "limit_exceeded"


def test_mounts_and_variables(real: Bench) -> None:
    session = real.ended("mounts")
    assert session.log == b"hello\nresnet\nsesame\nx\n"
    assert session.final["status"] == "TERMINATED"


def test_ranks_find_each_other(real: Bench) -> None:
    session = real.ended("ranks")
    assert session.log.startswith(b"met 1 2\n")
    assert session.final["status"] == "TERMINATED"


def test_an_image_that_cannot_be_pulled(real: Bench) -> None:
    real.seen_as("no image", "image_pull_failure")


def test_an_image_that_is_no_name(real: Bench) -> None:
    real.seen_as("bad image", "validation_error")


def test_a_command_that_is_not_there(real: Bench) -> None:
    real.seen_as("no command", "start_failure")


def test_a_secret_that_is_not_there_is_named(real: Bench) -> None:
    session = real.sessions["no secret"]
    real.wait(lambda: any("no-such-secret" in each["message"] for each in session.reports))
    real.server.stop_session(session, "cancelled", 1)
    real.ended("no secret")


def test_a_session_that_fits_nowhere(real: Bench) -> None:
    session = real.seen_as("too large", "scheduler_timeout")
    assert any("Insufficient cpu" in each["message"] for each in session.reports)


def test_nodes_are_told_with_what_is_free(bench: Bench) -> None:
    def last_nodes() -> list[dict[str, Any]]:
        calls = [body for verb, body in bench.server.calls if verb == "lease" and body["nodes"]]
        return list(calls[-1]["nodes"]) if calls else []

    bench.wait(lambda: bool(last_nodes()))
    for node in last_nodes():
        assert set(node["free"]) == set(node["allocatable"]) >= {"cpu", "memory"}


def test_nothing_is_left(bench: Bench) -> None:
    """Comes last: what ended was answered, so that the pods go."""
    for name in bench.sessions:
        bench.ended(name)
    until(lambda: bench.cluster.pods() == [], seconds=bench.cluster.patience)
    assert Path(bench.agent.log).read_text().count("Traceback") == 0
