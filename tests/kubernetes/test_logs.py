"""Logs of pods: all of them, whatever becomes of connections, nodes and agents."""

from collections.abc import Iterator
from pathlib import Path

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
