"""Tests of what may happen to one executor and its runs, case by case, all at the same time.

Leases last seconds here instead of minutes, and everything else in proportion: instead of 20
minutes an executor is away until the server holds it for lost, past the lease and its grace, and
comes back before or after `unconfirmed_after`. What really ran and when is told by the runs
themselves (`fleet.py`).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from reprise_client.wire import Report

from executor.agent.loop import EXIT_TAKEN_OVER
from tests.acceptance.running import check_database
from tests.faults import judgement
from tests.faults.fleet import IGNORED, LEASE_GRACE, LEASE_TTL, LOST, Fleet, Member
from tests.prepared import copy_database

pytestmark = [
    pytest.mark.slow,
    pytest.mark.rabbitmq,
    pytest.mark.timeout(1200),
    pytest.mark.xdist_group("rabbitmq"),
]

SILENCE = LEASE_TTL + LEASE_GRACE
FIVE_MINUTES = 300.0
ALONE = {"reports-replayed"}
HARMLESS = {"duplicate", "stale"}
_FACTS = """
    SELECT id, status, exit_code, retry_state, retry_cause, retry_count, finished_at, started_at,
        fencing_token, report_seq, executor, event_seq - (SELECT count(*)
            FROM sessions_app_sessionevent e WHERE e.session_id = s.id AND e.type = %s)
    FROM sessions_app_session s WHERE root_id = %s ORDER BY retry_count
"""


def cut_off(member: Member) -> None:
    """Past its lease and back: it has ended its run itself, and nothing began before it said so."""
    member.link.cut(silently=True)
    member.wait_for_event(LOST)
    assert member.statuses() == ["TERMINATING"]
    member.wait(lambda: not member.processes(), "its run was fenced")
    assert member.statuses() == ["TERMINATING"]
    member.finish("retry")
    member.link.mend()
    member.reached("ERROR", "TERMINATED")
    assert member.attempts()[0].cause == "agent_transient"
    assert not member.unfenced()


def cut_off_and_given_up(member: Member) -> None:
    """For longer than anybody waits: what it says when it is back changes nothing."""
    member.change(unconfirmed_after=1)
    member.finish("retry")
    member.link.cut(silently=False)
    member.reached("ERROR", "TERMINATED")
    assert member.unfenced()
    member.link.mend()
    member.wait_for_event(IGNORED)
    assert member.statuses() == ["ERROR", "TERMINATED"]


def away_and_back(member: Member) -> None:
    """Its run succeeds meanwhile, and nobody has given it up: the success counts."""
    member.agent.freeze()
    member.finish("first")
    member.wait(lambda: not member.processes(), "its run has ended")
    member.wait_for_event(LOST)
    member.agent.thaw()
    member.reached("TERMINATED")
    assert member.attempts()[0].exit_code == 0


def away_too_long(member: Member) -> None:
    """Its run succeeds meanwhile, and was given up: the success comes too late."""
    member.change(unconfirmed_after=1)
    member.agent.freeze()
    member.finish("first")
    member.finish("retry")
    member.reached("ERROR", "TERMINATED")
    assert member.unfenced()
    member.agent.thaw()
    member.wait_for_event(IGNORED)
    assert member.statuses() == ["ERROR", "TERMINATED"]


def killed(member: Member) -> None:
    """A process of its run lives on, so that nothing begins before the next life has ended it."""
    member.agent.kill()
    member.wait_for_event(LOST)
    assert member.processes()
    assert member.statuses() == ["TERMINATING"]
    member.finish("retry")
    member.agent.start()
    member.reached("ERROR", "TERMINATED")
    assert not member.processes()
    assert not member.unfenced()


def started_twice(member: Member) -> None:
    """On its own state directory nothing comes of it; on another one it is replaced."""
    refused = member.second(member.name)
    refused.start()
    member.wait(lambda: refused.ended() is not None, "it is refused")
    assert refused.ended() == 1
    assert member.statuses() == ["RUNNING"]
    member.finish("retry")
    member.second(f"{member.name}-elsewhere").start()
    member.wait(lambda: member.agent.ended() is not None, "it is replaced")
    assert member.agent.ended() == EXIT_TAKEN_OVER
    assert not member.processes()
    member.reached("ERROR", "TERMINATED")


def started_twice_while_cut_off(member: Member) -> None:
    """The first one cannot hear that it was replaced, and its run goes on until it is fenced."""
    member.finish("retry")
    member.link.cut(silently=True)
    member.second(f"{member.name}-elsewhere").start()
    member.reached("ERROR", "TERMINATED")
    assert not member.processes()
    member.link.mend()
    member.wait(lambda: member.agent.ended() is not None, "it hears of it")
    assert member.agent.ended() == EXIT_TAKEN_OVER


def clock_off(member: Member) -> None:
    """Both ways and while it runs: nothing comes of it, for longer than a lease lasts."""
    for wrong in (FIVE_MINUTES, -FIVE_MINUTES, 0.0):
        member.clock.set(wall=wrong)
        seen = member.last_seen()
        member.wait(lambda seen=seen: member.last_seen() > seen + SILENCE / 2, "it is renewed")  # type: ignore[misc]
    assert member.statuses() == ["RUNNING"]
    member.clock.set(wall=-FIVE_MINUTES)
    member.finish("first")
    member.reached("TERMINATED")
    (attempt,) = member.attempts()
    assert attempt.started_at is not None
    assert attempt.finished_at is not None
    assert abs(attempt.finished_at.timestamp() - time.time()) < FIVE_MINUTES / 2
    assert attempt.finished_at > attempt.started_at


def reports_replayed(member: Member) -> None:
    """At once, after the end, while the retry runs, after that, and by the agent's next life."""
    _replay(member)
    member.finish("first", code=3)
    member.reached("ERROR", "RUNNING")
    _replay(member)
    member.finish("retry")
    member.reached("ERROR", "TERMINATED")
    answers = _replay(member)
    assert {each["status"] for each in answers} >= {"PREPARING", "RUNNING", "ERROR", "TERMINATED"}
    member.agent.kill()
    member.agent.start()
    incarnation = member.state / "incarnation"
    member.wait(lambda: incarnation.read_text() == "2\n", "its next life")
    assert member.repeat(answers) <= HARMLESS


def _replay(member: Member) -> list[Report]:
    """All reports, in order, backwards, and one by one."""
    reports = member.reports()
    before = _facts(member)
    for batch in (reports, reports[::-1], *([each] for each in reports[::-1])):
        assert member.repeat(batch) <= HARMLESS
    assert _facts(member) == before
    return reports


def _facts(member: Member) -> list[tuple[object, ...]]:
    with member.fleet.connect() as connection:
        return connection.execute(_FACTS, [IGNORED, member.session]).fetchall()


SCENARIOS: Mapping[str, Callable[[Member], None]] = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (
        cut_off,
        cut_off_and_given_up,
        away_and_back,
        away_too_long,
        killed,
        started_twice,
        started_twice_while_cut_off,
        clock_off,
        reports_replayed,
    )
}


@pytest.fixture(scope="module")
def fleet(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = copy_database(prepared, tmp_path_factory.mktemp("fleet"))
    with Fleet(directory, list(SCENARIOS), ALONE) as fleet:
        fleet.set_going()
        yield fleet


@pytest.fixture(scope="module")
def played(fleet: Fleet) -> Iterator[Mapping[str, "Future[None]"]]:
    with ThreadPoolExecutor(len(SCENARIOS)) as beside:
        yield {name: beside.submit(play, fleet.members[name]) for name, play in SCENARIOS.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_executor(played: Mapping[str, "Future[None]"], name: str) -> None:
    played[name].result()


def test_no_two_runs_of_a_chain_were_alive_at_one_time(
    fleet: Fleet, played: Mapping[str, "Future[None]"]
) -> None:
    """Not even where a run was given up unfenced: every agent that lives fences its runs."""
    for future in played.values():
        future.exception()
    truth = fleet.truth()
    with fleet.connect() as connection:
        attempts = judgement.attempts_of(connection)
    assert len(attempts) > len(SCENARIOS)
    assert list(judgement.nothing_runs_twice(truth)) == []
    fenced = [each._replace(unfenced=False) for each in attempts]
    assert list(judgement.one_run_of_a_chain(fenced, truth)) == []
    ended = [each for each in attempts if each.status == "TERMINATED"]
    assert list(judgement.ends_are_true(ended, truth)) == []
    assert check_database(fleet.database_url) == []
