"""Logs of pods: all of them, whatever becomes of connections, nodes and agents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.drivers.kubernetes.log_copy import MISSING
from tests.executor_fake import FakeServer, FakeSession
from tests.kubernetes.agent import PodAgent, submit
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

MANY = "seq 1 30000; until test -e {}; do sleep 0.1; done; seq 30001 60000; printf end"


def lines(first: int, last: int) -> bytes:
    return "".join(f"{number}\n" for number in range(first, last + 1)).encode()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The second half of a log is written once this file is there."""
    return tmp_path / "gate"


@pytest.fixture
def half(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet, gate: Path
) -> Iterator[FakeSession]:
    """A session that has written half of its log."""
    session = submit(server, MANY.format(gate))
    server.wait_for(lambda: session.log == lines(1, 30000))
    yield session
    kubelet.cut_logs = False
    kubelet.rotated.clear()


def test_a_log_whose_connections_are_cut_is_whole(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet, half: FakeSession, gate: Path
) -> None:
    kubelet.cut_logs, before = True, kubelet.log_calls
    until(lambda: kubelet.log_calls >= before + 3)
    gate.touch()
    server.wait_settled(half)
    assert half.log == lines(1, 60000) + b"end"


def test_a_long_output_keeps_its_end(server: FakeServer, agent: PodAgent, gate: Path) -> None:
    """The end is kept by every way of copying, and though the server has all it takes of the
    beginning."""
    server.log_cap, server.log_tail = 50_000, 20_000
    session = submit(server, MANY.format(gate))
    beginning = lines(1, 30000)[:50_000]
    server.wait_for(lambda: session.log == beginning)
    agent.kill()
    gate.touch()
    agent.start()
    server.wait_settled(session)
    whole = lines(1, 60000) + b"end"
    marker, _, end = session.log.removeprefix(beginning + b"\n==== ").partition(b" ====\n")
    assert whole.endswith(b"\n" + end)
    assert 19_000 < len(end) < 20_000
    missing = len(whole) - len(beginning) - len(end)
    assert marker == b"%d bytes of the output are missing here" % missing


def test_progress_is_read_beyond_what_the_server_takes(
    server: FakeServer, agent: PodAgent, gate: Path
) -> None:
    server.log_cap = 1000
    told = 'echo \'::reprise:: {"step": 3, "of": 9}\''
    wait = f"until test -e {gate}; do sleep 0.1; done"
    session = submit(server, f"seq 1 3000; {told}; {wait}")
    server.wait_for(lambda: bool(session.told))
    assert session.told[-1]["step"] == 3
    gate.touch()
    server.wait_settled(session)
    assert session.final["progress"]["step"] == 3
    assert len(session.log) == 1000


def test_a_rotated_log_is_read_on_by_the_next_agent(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet, half: FakeSession, gate: Path
) -> None:
    """The newest file of it begins behind what the agent before has copied, and again behind
    that."""
    kubelet.rotated[agent.pod_of(half)["metadata"]["name"]] = 29_990
    agent.kill()
    gate.touch()
    agent.start()
    server.wait_settled(half)
    assert half.log == lines(1, 60000) + b"end"


def test_rotated_output_is_marked_as_missing(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet, half: FakeSession, gate: Path
) -> None:
    kubelet.rotated[agent.pod_of(half)["metadata"]["name"]] = 59_990
    agent.kill()
    gate.touch()
    agent.start()
    server.wait_settled(half)
    note = f"\n==== {MISSING} ====\n".encode()
    assert half.log == lines(1, 30000) + note + lines(59991, 60000) + b"end"


def test_a_log_whose_node_is_gone_says_so(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    kubelet.mine = lambda _pod: False
    session = submit(server, "true")
    pod = agent.pod_of(session)
    agent.bind(pod, "node-of-nobody")
    ended = {"exitCode": 3, "reason": "Error"}
    status = {"name": "main", "state": {"terminated": ended}}
    agent.set_status(pod, phase="Failed", containerStatuses=[{**status, "image": "x", "imageID": "",
                     "ready": False, "restartCount": 0}])  # fmt: skip
    server.wait_settled(session)
    assert b"the rest of the output cannot be read" in session.log


def ended(name: str, code: int, at: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": at}}
    known = {"image": "x", "imageID": "", "ready": False, "restartCount": 0}
    return {"name": name, "state": state, **known}


@pytest.mark.parametrize("first", ["fetch", "side"])
def test_the_tail_is_that_of_the_container_that_failed_first(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet, first: str
) -> None:
    """It is an init container, or another one beside the session's."""
    kubelet.mine = lambda _pod: False
    pod_spec = {
        "initContainers": [{"name": "fetch", "image": "busybox"}],
        "containers": [{"name": "side", "image": "busybox"}, {"name": "main"}],
    }
    session = submit(server, "true", pod_spec=pod_spec)
    pod = agent.pod_of(session)
    agent.bind(pod, kubelet.nodes[0])
    kubelet.write_log(pod, "main", b"error: of main\n")
    kubelet.write_log(pod, first, lines(1, 30000) + b"error: no such bucket\n")
    fetch, side = (
        ended(name, int(name == first), "2026-11-21T00:00:01Z") for name in ("fetch", "side")
    )
    main = ended("main", 1, "2026-11-21T00:00:02Z")
    agent.set_status(
        pod, phase="Failed", initContainerStatuses=[fetch], containerStatuses=[side, main]
    )
    server.wait_settled(session)
    tail = session.final["log_tail"]
    assert tail.endswith("30000\nerror: no such bucket\n")
    assert len(tail) < 16 * 1024
    assert session.log == b"error: of main\n"


def test_a_container_whose_log_is_gone_has_no_tail(
    server: FakeServer, agent: PodAgent, kubelet: Kubelet
) -> None:
    kubelet.mine = lambda _pod: False
    pod_spec = {"containers": [{"name": "main"}, {"name": "side", "image": "busybox"}]}
    session = submit(server, "true", pod_spec=pod_spec)
    pod = agent.pod_of(session)
    agent.bind(pod, kubelet.nodes[0])
    kubelet.write_log(pod, "main", b"error: of main\n")
    statuses = [
        ended("main", 0, "2026-11-21T00:00:02Z"),
        ended("side", 3, "2026-11-21T00:00:01Z"),
    ]
    agent.set_status(pod, phase="Failed", containerStatuses=statuses)
    server.wait_settled(session)
    assert "log_tail" not in session.final


def test_the_tail_of_several_ranks_is_that_of_the_one_that_failed(
    server: FakeServer, agent: PodAgent, tmp_path: Path
) -> None:
    """However long the outputs of others are, and though the executor keeps only their end."""
    server.log_cap, server.log_tail = 50_000, 20_000
    gates = [tmp_path / f"gate-{rank}" for rank in (1, 2)]
    script = (
        f"case $REPRISE_RANK in 0) until test -e {gates[0]} -a -e {gates[1]}; do sleep 0.1; done;"
        " echo error: of rank 0; exit 3;; esac;"
        f" seq 1 400000; touch {tmp_path}/gate-$REPRISE_RANK; sleep 600"
    )
    session = submit(server, script, cluster_size=3, termination_grace_period=2)
    server.wait_settled(session)
    assert session.termination["rank"] == 0
    assert session.final["log_tail"] == "error: of rank 0\n"


def test_a_run_over_its_time_limit_tells_where_it_hung(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "echo stuck here; sleep 600", batch_timeout=2)
    server.wait_settled(session)
    assert session.termination["pod"]["status"]["reason"] == "DeadlineExceeded"
    assert session.final["log_tail"] == "stuck here\n"
