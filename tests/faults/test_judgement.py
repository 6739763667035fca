"""The judges themselves: what is broken by hand is reported; and a seed means the same faults."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.faults.judgement import (
    Attempt,
    GaveWay,
    Run,
    Truth,
    Waited,
    dependants_come_later,
    ends_are_true,
    limits_hold,
    nothing_is_lost,
    nothing_runs_twice,
    one_run_of_a_chain,
    output_is_whole,
    poison_is_parked,
    promises_are_kept,
    truth_of,
    who_made_room_comes_back,
)
from tests.faults.plan import KINDS, LONG, plan
from tests.faults.plant import LEASE_GRACE, LEASE_TTL
from tests.faults.timetable import Planned, times_become_chains

SIZE = 300
ROOT = Attempt("a", "a", "faults-0", 0, "ERROR", 3, 1, unfenced=False, log_size=SIZE)
CHILD = Attempt("b", "a", "faults-0:retry:1", 1, "TERMINATED", 0, 2, unfenced=False, log_size=SIZE)
RUNS = [Run("a", 1, "a", 10, 12, "ERROR", 3), Run("b", 2, "a", 13, 14, "TERMINATED", 0)]


def complaints(attempts: list[Attempt], runs: list[Run]) -> set[str]:
    """The judges that found something."""
    truth = Truth(runs)
    judges: dict[str, Callable[[], Iterator[str]]] = {
        "lost": lambda: nothing_is_lost(attempts, {"faults-0": "a"}, 1),
        "twice": lambda: nothing_runs_twice(truth),
        "together": lambda: one_run_of_a_chain(attempts, truth),
        "untrue": lambda: ends_are_true(attempts, truth),
        "output": lambda: output_is_whole(attempts, SIZE),
    }
    return {name for name, judge in judges.items() if list(judge())}


def test_a_sound_chain_is_no_complaint() -> None:
    assert complaints([ROOT, CHILD], RUNS) == set()


def test_a_lost_session() -> None:
    assert "lost" in complaints([], [])


def test_a_session_that_nobody_submitted() -> None:
    assert complaints([ROOT, ROOT._replace(id="c", root="c", creation_id="faults-1")], RUNS) >= {
        "lost"
    }


def test_a_submission_that_came_twice() -> None:
    assert "lost" in complaints([ROOT, ROOT._replace(id="c", root="c")], RUNS)


def test_a_session_that_ran_twice() -> None:
    assert "twice" in complaints([ROOT, CHILD], [*RUNS, Run("b", 3, "a", 20, 21, "ERROR", 1)])


def test_two_runs_of_a_chain_at_one_time() -> None:
    early = Run("b", 2, "a", 11, 14, "TERMINATED", 0)
    assert complaints([ROOT, CHILD], [RUNS[0], early]) == {"together"}
    given_up = ROOT._replace(unfenced=True)
    assert complaints([given_up, CHILD], [RUNS[0], early]) == set()


def test_a_success_that_never_was() -> None:
    failed = Run("b", 2, "a", 13, 14, "ERROR", 1)
    assert complaints([ROOT, CHILD], [RUNS[0], failed]) == {"untrue"}
    assert complaints([ROOT, CHILD], [RUNS[0]]) == {"untrue"}


def test_an_exit_code_of_another_lease() -> None:
    other = Run("a", 7, "a", 10, 12, "ERROR", 3)
    assert complaints([ROOT, CHILD], [other, RUNS[1]]) == {"untrue"}


def test_a_dependant_that_began_too_early() -> None:
    def found(*later: Run) -> int:
        return len(list(dependants_come_later([Waited("d", "b")], Truth([*RUNS, *later]))))

    assert found() == found(Run("d", 3, "d", 14.5, 15, "ERROR", 1)) == 0
    assert found(Run("d", 3, "d", 13.5, 15, "ERROR", 1)) == 1
    assert len(list(dependants_come_later([Waited("a", "x")], Truth(RUNS)))) == 1


def test_who_made_room_and_did_not_come_back() -> None:
    gave_way, truth = GaveWay("a", "a", 0), Truth(RUNS)

    def found(one: GaveWay, attempts: list[Attempt], truth: Truth) -> list[str]:
        return list(who_made_room_comes_back([one], attempts, truth))

    assert found(gave_way, [ROOT, CHILD], truth) == []
    assert found(gave_way, [ROOT], truth) == ["a made room and never came back"]
    (waits,) = found(gave_way, [ROOT, CHILD], Truth(RUNS[:1]))
    assert waits == "a made room and came back, but never ran again"
    assert found(gave_way._replace(in_vain=True), [ROOT, CHILD], Truth(RUNS[:1])) == []
    assert len(found(GaveWay("b", "a", 1), [ROOT, CHILD], truth)) == 1


def test_times_of_schedules_that_came_twice_or_never() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    until = noon + timedelta(seconds=10)
    times = [noon + timedelta(seconds=each) for each in (3, 6, 9)]

    def found(overlap: str, fired: list[datetime], reason: str = "") -> int:
        schedule = Planned("s", overlap, noon, until, reason)
        ids = [f"schedule:s:{each.isoformat()}" for each in fired]
        attempts = [ROOT._replace(id=each, root=each, creation_id=each) for each in ids]
        return len(list(times_become_chains([schedule], attempts)))

    assert found("allow", times) == found("skip", times[:1]) == 0
    assert found("allow", [*times, times[0]]) == 1
    assert found("allow", times[1:]) == 1
    assert found("skip", []) == 1
    assert found("skip", [*times, until]) == 1
    assert found("allow", times, "its owner is gone") == 1
    stray = ROOT._replace(creation_id=f"schedule:t:{noon.isoformat()}")
    assert len(list(times_become_chains([], [stray]))) == 1


def test_output_that_is_lost_or_doubled() -> None:
    for size in (0, 2 * SIZE):
        assert complaints([ROOT, CHILD._replace(log_size=size)], RUNS) == {"output"}


def test_poison_that_nobody_is_shown() -> None:
    assert list(poison_is_parked({"p", "q"}, ["p"], {})) == []
    (lost, stuck) = poison_is_parked({"p"}, ["p", "q", "r"], {"r": "maintenance"})
    assert lost == "poison task q is not parked: it is in none of the broker's queues"
    assert stuck == "poison task r is not parked: it is in maintenance"


def test_a_retry_that_was_promised() -> None:
    assert list(promises_are_kept([ROOT, CHILD], ["b"])) == []
    assert len(list(promises_are_kept([ROOT], ["b"]))) == 1


def test_a_minute_with_too_many_retries() -> None:
    assert list(limits_hold([("10:00", 1, 15), ("10:00", 2, 5), ("10:01", 1, 15)], 20, 15)) == []
    (queues,) = limits_hold([("10:00", 1, 16)], 20, 15)
    assert queues == "10:00: 16 retries of queue 1, limited to 15"
    (clusters,) = limits_hold([("10:00", 1, 15), ("10:00", 2, 6)], 20, 15)
    assert clusters == "10:00: 21 retries, limited to 20"


def test_a_run_without_an_end_ended_with_its_agent(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    lines = [
        ["started", "a", 1, "a", 10.0],
        ["trouble", "lost", 10.5],
        ["started", "b", 2, "a", 13.0],
    ]
    lines.append(["ended", "b", 2, "TERMINATED", 0, 14.0])
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    truth = truth_of({"one": log}, {"one": [5.0, 12.0, 20.0]})
    assert truth.runs == [Run("a", 1, "a", 10.0, 12.0), RUNS[1]]
    assert truth.troubles == {"lost": 1}


def test_what_never_got_a_place_has_not_run(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    lines = [["started", "a", 1, "a", 10.0], ["ended", "a", 1, "UNSTARTED", None, 25.0]]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert truth_of({"": log}, {"": []}).runs == []


def test_a_run_that_says_so_itself_ended_when_it_was_last_alive(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    lines = [
        ["started", "a", 1, "a", 10.0],
        ["alive", "a", 1, 10.2],
        ["alive", "a", 1, 10.4],
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert truth_of({"": log}, {"": []}).runs == [Run("a", 1, "a", 10.0, 10.4)]


def test_a_seed_means_the_same_faults() -> None:
    assert plan(7, 600) == plan(7, 600)
    assert plan(7, 600) != plan(8, 600)


def test_even_a_short_storm_has_every_kind() -> None:
    for seed in range(20):
        faults = plan(seed, 20)
        assert {fault.kind for fault in faults} == set(KINDS)
        assert all(0 < fault.at < 20 for fault in faults)
        longest = {fault.kind for fault in faults if fault.seconds > LONG > LEASE_TTL + LEASE_GRACE}
        assert longest == {"executor cut off", "executor frozen"}
