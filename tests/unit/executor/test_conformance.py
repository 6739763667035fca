"""One suite for all drivers: what each must do alike, seen from the server."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.executor_fake import FakeServer, FakeSession
from tests.unit.executor.conftest import AgentProcess
from tests.waiting import until

TOLD = '{"step": 40, "of": 100, "checkpoint": "s3://b/40"}'
LOOP = "echo up; while :; do sleep 0.02; done"


class World:
    """A driver's agent, and how a session behaves there."""

    def __init__(self, server: FakeServer, agent: AgentProcess):
        self.server = server
        self.agent = agent

    def start_agent(self) -> None:
        raise NotImplementedError

    def submit(self, behaviour: str, **spec: Any) -> FakeSession:
        """Submit a session that behaves like this: see the two worlds for the words."""
        raise NotImplementedError

    def running(self, behaviour: str, **spec: Any) -> FakeSession:
        """A session that runs and listens, or has decided not to."""
        session = self.submit(behaviour, **spec)
        self.server.wait_for(lambda: "RUNNING" in session.statuses)
        self.await_up(session)
        return session

    def await_up(self, session: FakeSession) -> None:
        """It does what it was told to do by now."""


class LocalWorld(World):
    def start_agent(self) -> None:
        self.agent.start()

    def submit(self, behaviour: str, **spec: Any) -> FakeSession:
        if behaviour == "cannot start":
            return self.server.submit("/no/such/file", **spec)
        scripts = {
            "succeeds": "exit 0",
            "exits with 7": "exit 7",
            "ends with 5 when asked": f"trap 'exit 5' TERM; {LOOP}",
            "does not listen": f"trap '' TERM; {LOOP}",
            "tells its progress": f"echo '::reprise:: {TOLD}'; sleep 0.05; exit 1",
            "tells and goes on": f"echo '::reprise:: {TOLD}'; {LOOP}",
        }
        return self.server.submit("/bin/sh", "-c", scripts[behaviour], **spec)

    def await_up(self, session: FakeSession) -> None:
        self.server.wait_for(lambda: session.log == b"up\n")


class SimulatedWorld(World):
    def start_agent(self) -> None:
        self.agent.start("--driver", "simulated", "--seed", "7", "--nodes", "20")

    def submit(self, behaviour: str, **spec: Any) -> FakeSession:
        told = json.loads(TOLD)
        courses = {
            "succeeds": {"seconds": 0.05},
            "exits with 7": {"seconds": 0.05, "exit_codes": [7]},
            "ends with 5 when asked": {"seconds": None, "stop_exit_code": 5},
            "does not listen": {"seconds": None, "stop_seconds": None},
            "cannot start": {"no such key": 1},
            "tells its progress": {"seconds": 0.05, "exit_codes": [1], "progress": [told]},
            "tells and goes on": {"seconds": None, "progress": [told]},
        }
        session = self.server.submit("true", **spec)
        session.spec["environ"] = {"REPRISE_SIMULATE": json.dumps(courses[behaviour])}
        return session


@pytest.fixture(params=[LocalWorld, SimulatedWorld], ids=["local", "simulated"])
def world(request: pytest.FixtureRequest, server: FakeServer, idle_agent: AgentProcess) -> World:
    made: Callable[[FakeServer, AgentProcess], World] = request.param
    world = made(server, idle_agent)
    world.start_agent()
    return world


def test_a_success(world: World) -> None:
    session = world.submit("succeeds")
    world.server.wait_settled(session)
    assert session.statuses == ["PREPARING", "RUNNING", "TERMINATED"]
    assert [report["seq"] for report in session.reports] == [1, 2, 3]
    assert session.final["exit_code"] == session.termination["exit_code"] == 0
    assert session.reports[1]["node"] == session.termination["node"] != ""


def test_a_failure_says_its_exit_code(world: World) -> None:
    session = world.submit("exits with 7")
    world.server.wait_settled(session)
    assert session.statuses == ["PREPARING", "RUNNING", "ERROR"]
    assert session.final["exit_code"] == session.termination["exit_code"] == 7
    assert session.termination["reason"] == ""
    assert session.termination["lease_expired"] is False


def test_the_end_brings_the_progress(world: World) -> None:
    session = world.submit("tells its progress")
    world.server.wait_settled(session)
    assert session.final["progress"] == {
        "step": 40, "of": 100, "note": "", "best": 40, "rate": None,
        "checkpoint": "s3://b/40", "checkpoint_step": 40,
    }  # fmt: skip


def test_a_live_run_tells_its_progress(world: World) -> None:
    session = world.submit("tells and goes on")
    world.server.wait_for(lambda: bool(session.told))
    (told,) = session.told
    assert (told["fencing_token"], told["step"], told["of"]) == (session.token, 40, 100)


def test_a_silent_run_tells_nothing(world: World) -> None:
    session = world.submit("exits with 7")
    world.server.wait_settled(session)
    assert "progress" not in session.final
    assert session.told == []


def test_a_run_that_cannot_start_says_why(world: World) -> None:
    session = world.submit("cannot start")
    world.server.wait_settled(session)
    assert session.statuses == ["PREPARING", "ERROR"]
    assert session.termination["reason"] == "StartError"
    assert session.termination["pod_message"] == session.final["message"] != ""
    assert session.termination["message"] == ""
    assert session.final["exit_code"] is None


def test_unrunnable_sessions_are_handed_back(world: World) -> None:
    session = world.submit("succeeds", resources={"memory": "lots"})
    world.server.wait_for(lambda: session.returned is not None)
    assert "'lots' is not a quantity" in (session.returned or "")
    assert session.reports == []


@pytest.mark.parametrize("cpu", [".5", "5.", "+1", "1e-1"])
def test_amounts_are_what_kubernetes_takes_for_them(world: World, cpu: str) -> None:
    session = world.submit("succeeds", resources={"cpu": cpu, "memory": ".5Gi"})
    world.server.wait_settled(session)
    assert session.statuses == ["PREPARING", "RUNNING", "TERMINATED"]


def test_an_avoided_node_is_left_alone_where_there_is_another(world: World) -> None:
    failed = world.submit("exits with 7")
    world.server.wait_settled(failed)
    node = failed.termination["node"]
    again = [world.submit("succeeds", avoid_node=node) for _ in range(3)]
    world.server.wait_settled(*again)
    nodes = next(body["nodes"] for verb, body in world.server.calls if verb == "lease")
    only = [each["name"] for each in nodes] == [node]
    assert [session.termination["node"] == node for session in again] == [only] * 3


def test_nodes_are_told_with_what_is_free(world: World) -> None:
    session = world.running("does not listen", resources={"cpu": "500m", "memory": "1Mi"})

    def half_a_core_less() -> bool:
        nodes = world.server.calls[-1][1].get("nodes") or []
        mine = [node for node in nodes if node["name"] == session.reports[1]["node"]]
        return any(
            _cores(node["allocatable"]["cpu"]) - _cores(node["free"]["cpu"]) == 0.5 for node in mine
        )

    world.server.submit("true")  # so that it calls again at once
    world.server.wait_for(half_a_core_less)


def _cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def test_a_cancelled_run_may_end_in_its_grace_period(world: World) -> None:
    session = world.running("ends with 5 when asked")
    world.server.stop_session(session, "cancelled", 30)
    world.server.wait_settled(session)
    assert session.statuses == ["PREPARING", "RUNNING", "TERMINATING", "ERROR"]
    assert session.final["exit_code"] == 5


def test_a_cancelled_run_that_does_not_end_is_made_to(world: World) -> None:
    session = world.running("does not listen")
    began = time.monotonic()
    world.server.stop_session(session, "cancelled", 0.5)
    world.server.wait_settled(session)
    assert time.monotonic() - began >= 0.5
    assert session.final["exit_code"] == 137


def test_a_preempted_run_says_so(world: World) -> None:
    session = world.running("ends with 5 when asked")
    world.server.stop_session(session, "preempted", 30)
    world.server.wait_settled(session)
    assert session.termination["reason"] == "Preempted"


def test_a_run_past_its_time_limit_is_ended(world: World) -> None:
    session = world.submit("does not listen", batch_timeout=0.4, termination_grace_period=0.2)
    world.server.wait_settled(session)
    assert session.final["status"] == "ERROR"
    assert session.final["exit_code"] == 137
    assert session.termination["reason"] == "DeadlineExceeded"
    assert "batch_timeout of 0.4 s" in session.termination["pod_message"]


def test_a_run_that_the_server_let_go_of_ends_unreported(world: World) -> None:
    session = world.running("does not listen")
    world.server.stop_session(session, "unknown", 0)
    world.server.wait_settled(session)
    assert session.settled == "missing"
    assert session.statuses == ["PREPARING", "RUNNING"]


def test_runs_of_a_killed_agent_are_reported_by_the_next(world: World) -> None:
    session = world.running("does not listen")
    world.agent.kill()
    world.start_agent()
    world.server.wait_settled(session)
    assert session.settled == "reported"
    assert session.termination["lease_expired"] is True
    assert session.final["message"] == "the agent was killed; its runs ended with it"
    again = world.submit("succeeds")
    world.server.wait_settled(again)
    assert again.final["status"] == "TERMINATED"


def test_an_end_that_the_server_missed_arrives_after_a_restart(world: World) -> None:
    world.server.refusal = lambda verb, body: (
        503
        if verb == "reports" and any(each["status"] == "ERROR" for each in body["reports"])
        else None
    )
    session = world.submit("exits with 7")
    journal = world.agent.state / "reports" / "journal"
    until(lambda: b'"ERROR"' in journal.read_bytes() if journal.exists() else False)
    world.agent.kill()
    world.server.refusal = lambda _verb, _body: None
    world.start_agent()
    world.server.wait_settled(session)
    assert session.settled == "reported"
    assert session.final["exit_code"] == 7


def test_an_agent_that_cannot_renew_ends_its_runs(world: World) -> None:
    world.agent.kill()
    world.server.lease_ttl, world.server.lease_grace = 1.0, 4.0
    world.start_agent()
    session = world.running("does not listen", termination_grace_period=60)
    world.server.stop()
    journal = world.agent.state / "reports" / "journal"
    until(lambda: b'"lease_expired":true' in journal.read_bytes())
    world.server.start()
    world.server.wait_settled(session)
    assert session.settled == "reported"
    assert session.final["exit_code"] == 137


def test_a_clean_stop_ends_and_reports_what_runs(world: World) -> None:
    polite = world.running("ends with 5 when asked", termination_grace_period=60)
    stubborn = world.running("does not listen", termination_grace_period=60)
    began = time.monotonic()
    assert world.agent.stop() == 0
    assert time.monotonic() - began < 30
    assert (polite.final["exit_code"], stubborn.final["exit_code"]) == (5, 137)
    assert all(session.termination["lease_expired"] for session in (polite, stubborn))
