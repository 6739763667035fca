"""When the starts of pods are looked at, and for how long: the numbers of the manual."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from retry.evidence.causes import RetryCause
from scheduler.core.pod_status import Progress, StartState
from scheduler.core.start_checks import Again, Limits, Verdict, Watch, check

BEGAN = datetime(2026, 11, 21, tzinfo=UTC)
LIMITS = Limits(30, 30, 10, 80, 180, 1800, 3, 600)
CAUSES = {
    Progress.UNKNOWN: RetryCause.AGENT_TRANSIENT,
    Progress.WAITING: RetryCause.SCHEDULER_TIMEOUT,
    Progress.INITIALIZING: RetryCause.START_FAILURE,
    Progress.SUSPECT: RetryCause.IMAGE_PULL_FAILURE,
    Progress.FAILED: RetryCause.VALIDATION_ERROR,
}


WAITING = StartState(Progress.WAITING, RetryCause.SCHEDULER_TIMEOUT, "no node")


def play(
    *states: Progress, limits: Limits = LIMITS, own: float | None = None, template: str = ""
) -> tuple[list[float], Verdict | None]:
    """The seconds after creation at which such a pod is looked at, and what comes of it.

    The last state goes on for ever.
    """
    watch = Watch(BEGAN, scheduling_timeout=own, template=template)
    now, looks = BEGAN + timedelta(seconds=30), []
    for number in range(1000):
        looks.append((now - BEGAN).total_seconds())
        progress = states[min(number, len(states) - 1)]
        found = check(StartState(progress, CAUSES.get(progress), "so it is"), watch, limits, now)
        if not isinstance(found, Again):
            return looks, found
        now, watch = found.at, found.watch
    return looks, None


def failed(*states: Progress, own: float | None = None) -> tuple[list[float], RetryCause]:
    looks, verdict = play(*states, own=own)
    assert verdict is not None
    return looks, verdict.cause


def test_waiting_pods_are_checked_every_30_s_for_180_s() -> None:
    looks, cause = failed(Progress.WAITING)
    assert (looks, cause) == ([30, 60, 90, 120, 150, 180], RetryCause.SCHEDULER_TIMEOUT)


@pytest.mark.parametrize(("own", "last"), [(40.0, 40), (200.0, 200), (31.5, 31.5)])
def test_a_session_has_its_own_limit(own: float, last: float) -> None:
    looks, cause = failed(Progress.WAITING, own=own)
    assert (looks[-1], cause) == (last, RetryCause.SCHEDULER_TIMEOUT)


@pytest.mark.parametrize(("seconds", "last"), [(-5, 30), (40, 40), (31.5, 31.5), (400, 180)])
def test_the_end_of_all_waiting_is_a_limit_too(seconds: float, last: float) -> None:
    watch = Watch(BEGAN, wait_deadline=BEGAN + timedelta(seconds=seconds))
    found, now = check(WAITING, watch, LIMITS, BEGAN), BEGAN
    while isinstance(found, Again):
        now = found.at
        found = check(WAITING, found.watch, LIMITS, now)
    assert isinstance(found, Verdict)
    assert (now - BEGAN).total_seconds() == last


def test_initializing_pods_are_checked_ever_more_rarely_for_half_an_hour() -> None:
    looks, cause = failed(Progress.INITIALIZING)
    pauses = [after - before for before, after in pairwise(looks[:8])]
    assert pauses == [30, 40, 50, 60, 70, 80, 80]
    assert (looks[-1], cause) == (1830, RetryCause.START_FAILURE)


def test_only_waiting_counts_against_the_scheduling_timeout() -> None:
    looks, cause = failed(*[Progress.WAITING] * 5, Progress.INITIALIZING)
    assert (looks[-1], cause) == (180 + 1800, RetryCause.START_FAILURE)


def test_a_passing_reason_fails_when_it_is_seen_again() -> None:
    assert failed(Progress.SUSPECT) == ([30, 60], RetryCause.IMAGE_PULL_FAILURE)
    looks, cause = failed(Progress.SUSPECT, Progress.INITIALIZING, Progress.SUSPECT)
    assert (looks, cause) == ([30, 60, 90], RetryCause.IMAGE_PULL_FAILURE)


def test_a_permanent_reason_fails_at_once() -> None:
    assert failed(Progress.FAILED)[0] == [30]


def test_a_pod_that_is_not_there_is_looked_for_three_times() -> None:
    assert failed(Progress.UNKNOWN) == ([30, 60, 90], RetryCause.AGENT_TRANSIENT)


@pytest.mark.parametrize("state", [Progress.RUNNING, Progress.FINISHED])
def test_a_start_is_the_end_of_it(state: Progress) -> None:
    assert play(Progress.WAITING, Progress.SUSPECT, state) == ([30, 60, 90], None)


def test_a_limit_of_zero_is_none_and_a_huge_one_is_no_error() -> None:
    endless = Limits(30, 30, 10, 80, 0, 0, 3, 600)
    assert len(play(Progress.WAITING, limits=endless)[0]) == 1000
    assert len(play(Progress.INITIALIZING, limits=endless)[0]) == 1000
    assert len(play(Progress.WAITING, own=1e300)[0]) == 1000


@pytest.mark.parametrize(
    ("own", "limits", "last"),
    [
        (None, LIMITS, 600),
        (40.0, LIMITS, 600),
        (900.0, LIMITS, 900),
        (None, replace(LIMITS, scheduling=720), 720),
        (None, replace(LIMITS, scale_up=0), None),
        (None, replace(LIMITS, scheduling=0), None),
    ],
)
def test_who_waits_for_a_new_node_has_longer(
    own: float | None, limits: Limits, last: float | None
) -> None:
    looks, verdict = play(Progress.WAITING, limits=limits, own=own, template="gpu")
    assert (looks[-1] if verdict else None) == last
