"""The agent is killed at every failpoint, started again, and must still tell everything once."""

import signal

import pytest

from executor.failpoints import NAMES, failpoint
from tests.executor_fake import FakeServer
from tests.unit.executor.conftest import AgentProcess, processes_of
from tests.waiting import until

UNBEGUN = frozenset(
    {"executor.before_answer_write", "executor.after_answer_write", "executor.before_start"}
)
"""An accepted session, of which nothing was started, comes back as if it had not been leased."""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_doubled_or_left_over(
    server: FakeServer, idle_agent: AgentProcess, name: str
) -> None:
    script = "setsid sleep 1000 & echo out; exit 3"
    sessions = [server.submit("/bin/sh", "-c", script) for _ in range(2)]
    refused = server.submit("true", cluster_size=2)
    once = idle_agent.state.parent / "fired"
    idle_agent.start(REPRISE_FAILPOINT=name, REPRISE_FAILPOINT_ONCE=str(once))
    assert idle_agent.wait() == -signal.SIGKILL
    idle_agent.start(REPRISE_FAILPOINT=name, REPRISE_FAILPOINT_ONCE=str(once))
    server.wait_for(lambda: all(each.settled or each.returned for each in sessions))
    server.wait_for(lambda: refused.returned is not None)
    server.give_again()
    server.wait_settled(*sessions)
    for session in sessions:
        assert (session.settled, session.statuses.count("ERROR")) == ("reported", 1)
        assert len([each for each in session.reports if each["status"] == "RUNNING"]) <= 1
        if name in UNBEGUN or not session.termination["lease_expired"]:
            assert session.final["exit_code"] == 3
            assert session.log == b"out\n"
    assert refused.reports == []
    until(lambda: processes_of(idle_agent.state) == [])
    until(lambda: list((idle_agent.state / "runs").iterdir()) == [])
    assert idle_agent.stop() == 0


def test_every_failpoint_is_reached_in_an_ordinary_life(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    reached = idle_agent.state.parent / "reached"
    session = server.submit("echo", "out")
    refused = server.submit("true", cluster_size=2)
    idle_agent.start(REPRISE_FAILPOINT_LOG=str(reached))
    server.wait_settled(session)
    server.wait_for(lambda: refused.returned is not None)
    until(lambda: set(reached.read_text().split()) == set(NAMES))


def test_an_unknown_failpoint_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"unknown failpoint 'executor\.nowhere'"):
        failpoint("executor.nowhere")
