"""Tests of what an agent does by the clock: renewing, fencing, waiting for a server; and in which
order."""

import time
from pathlib import Path

import pytest
from reprise_client.errors import ApiError

from executor.connection import LONGEST_PAUSE, SHORTEST_PAUSE, RetryPauses
from tests.clock import SkewedClock
from tests.executor_fake import Body, FakeServer
from tests.unit.executor.conftest import STUBBORN, AgentProcess, alive, processes_of, refuse, shell
from tests.waiting import until

FIVE_MINUTES = 300.0
QUIET_SECONDS = 2.0
BUSY = ApiError(503, {})


def test_a_lease_counts_from_the_sending_of_its_renewal(
    server: FakeServer, idle_agent: AgentProcess, tmp_path: Path
) -> None:
    """The only one that succeeds is held for 200 seconds."""
    clock = SkewedClock(tmp_path / "clock")
    server.lease_grace = 4.0
    server.refusal = lambda verb, _: 503 if verb == "lease" and len(server.calls) > 1 else None
    idle_agent.start(**clock.environ)
    server.wait_for(lambda: bool(server.calls))
    clock.set(boot=200)
    session = shell(server, STUBBORN)
    server.wait_for(lambda: session.log.endswith(b"\n"))
    clock.set(boot=server.lease_ttl)
    server.wait_settled(session)
    assert session.termination["lease_expired"] is True


def test_an_agent_without_a_server_shows_that_it_turns(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    """A probe asks for this: no restart would bring the server back."""
    server.refusal = lambda *_: 503
    idle_agent.start()
    turned = idle_agent.state / "turned"
    until(turned.exists)
    before = turned.stat().st_mtime_ns
    until(lambda: turned.stat().st_mtime_ns > before)
    assert not (idle_agent.state / "answered").exists()


def test_an_agent_on_a_machine_that_slept_past_its_lease_fences_itself(
    server: FakeServer, idle_agent: AgentProcess, tmp_path: Path
) -> None:
    """It wakes up, and the network does not."""
    clock = SkewedClock(tmp_path / "clock")
    server.lease_grace = 4.0
    idle_agent.start(**clock.environ)
    session = shell(server, STUBBORN, termination_grace_period=60)
    server.wait_for(lambda: session.log.endswith(b"\n"))
    server.stop()
    clock.set(boot=server.lease_ttl)
    until(lambda: processes_of(idle_agent.state) == [])
    server.start()
    server.wait_settled(session)
    assert session.settled == "reported"
    assert session.termination["lease_expired"] is True


@pytest.mark.parametrize("wrong", [-FIVE_MINUTES, FIVE_MINUTES])
def test_a_wall_clock_that_is_off_and_jumps_ends_no_run(
    server: FakeServer, idle_agent: AgentProcess, tmp_path: Path, wrong: float
) -> None:
    clock = SkewedClock(tmp_path / "clock")
    clock.set(wall=wrong)
    idle_agent.start(**clock.environ)
    session = shell(server, "echo up; until [ -e go ]; do sleep 0.02; done", batch_timeout=200)
    server.wait_for(lambda: session.log == b"up\n")
    assert abs(session.reports[0]["at"] - time.time() - wrong) < FIVE_MINUTES / 2
    clock.set(wall=-wrong)
    calls = len(server.calls)
    server.submit("true")
    server.wait_for(lambda: len(server.calls) > calls + 3)
    assert session.settled is None
    (work,) = (idle_agent.state / "runs").glob(f"{session.id}-*/work")
    (work / "go").touch()
    server.wait_settled(session)
    assert session.statuses[-1] == "TERMINATED"
    assert abs(session.final["at"] - time.time() + wrong) < FIVE_MINUTES / 2


def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_success() -> None:
    pauses = RetryPauses("asking")
    drawn = [pauses.failed(BUSY) for _ in range(200)]
    for failures, pause in enumerate(drawn):
        assert SHORTEST_PAUSE <= pause <= min(0.2 * 2.0 ** min(failures, 10), LONGEST_PAUSE)
    settled = drawn[10:]
    assert min(settled) < LONGEST_PAUSE / 4
    assert max(settled) > LONGEST_PAUSE * 3 / 4
    pauses.succeeded()
    assert pauses.failed(BUSY) <= 0.2


def test_a_pause_that_the_server_asks_for_is_kept_within_reason() -> None:
    assert RetryPauses("asking").failed(ApiError(429, {}, retry_after=7)) >= 7
    assert RetryPauses("asking").failed(ApiError(503, {}, retry_after=86_400)) <= 30 + LONGEST_PAUSE


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_a_pause_is_left_alone(
    server: FakeServer, agent: AgentProcess, status: int
) -> None:
    running = [shell(server, "echo up; until [ -e go ]; do sleep 0.02; done") for _ in range(3)]
    server.wait_for(lambda: all(each.log == b"up\n" for each in running))
    before = len(server.calls)
    server.retry_after, server.refusal = 60, lambda _verb, _body: status
    for work in (agent.state / "runs").glob("*/work"):
        (work / "go").touch()
        time.sleep(QUIET_SECONDS / len(running))
    verbs = [verb for verb, _ in server.calls[before:]]
    assert all(verbs.count(verb) <= 1 for verb in verbs), verbs
    server.retry_after, server.refusal = 0, lambda _verb, _body: None
    agent.kill()
    agent.start()
    server.wait_settled(*running)
    assert [each.statuses[-1] for each in running] == ["TERMINATED"] * 3


def test_a_server_in_trouble_is_not_hammered(server: FakeServer, agent: AgentProcess) -> None:
    server.wait_for(lambda: bool(server.calls))
    server.refusal = refuse("lease", 503, 10**6)
    before = len(server.calls)
    time.sleep(QUIET_SECONDS)
    assert len(server.calls) - before <= 20
    server.refusal = lambda _verb, _body: None
    session = server.submit("true")
    server.wait_settled(session)


def test_a_starting_agent_kills_then_reports_then_asks_for_work(
    server: FakeServer, agent: AgentProcess
) -> None:
    session = shell(server, "setsid sleep 1000 & echo $!; sleep 1000")
    server.wait_for(lambda: session.log.endswith(b"\n"))
    detached = int(session.log)
    agent.kill()
    assert alive(detached)
    lived: list[bool] = []

    def note(_verb: str, body: Body) -> int | None:
        if body["incarnation"] == 2:
            lived.append(alive(detached))
        return None

    server.refusal = note
    agent.start()
    server.wait_for(lambda: any(verb == "lease" for verb, _ in _calls_of(server, 2)))
    assert not any(lived)
    verbs = [verb for verb, _ in _calls_of(server, 2)]
    assert "reports" in verbs[: verbs.index("lease")]
    assert session.settled == "reported"
    assert session.termination["lease_expired"] is True


def _calls_of(server: FakeServer, incarnation: int) -> list[tuple[str, Body]]:
    return [call for call in server.calls if call[1]["incarnation"] == incarnation]


def test_a_state_directory_has_an_id_that_no_other_has(
    server: FakeServer, agent: AgentProcess, tmp_path: Path
) -> None:
    server.wait_for(lambda: bool(_calls_of(server, 1)))
    agent.stop()
    agent.start()
    server.wait_for(lambda: bool(_calls_of(server, 2)))
    agent.stop()
    agent.state = tmp_path / "elsewhere"
    agent.start()
    server.wait_for(lambda: bool(_calls_of(server, 3)))
    ids = [body["state_id"] for verb, body in server.calls if verb == "lease"]
    first, last = ids[0], ids[-1]
    assert all(ids)
    assert set(ids) == {first, last}
    assert first != last
    assert (tmp_path / "state" / "id").read_text().strip() == first
