"""Ends, submissions and releases of dependants at the same time, on separate connections."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from sessions_app import wakeups
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.chains.dependants import dependants_follow, dependants_release
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.wakeups import Publisher
from tests import factories
from tests.factories import reread, submit
from tests.integration.test_dependencies import GOOD, depends
from tests.invariants import check_all
from tests.racing import PATIENCE, closing, locked, race, uncommitted, wait_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_end_waits_for_a_submission_that_looks_at_it(at: Project) -> None:
    owner = factories.user(project=at)
    first = factories.start(submit(at, owner=owner))
    made: list[Session] = []
    end = partial(sessions_settle, {first.pk: End(GOOD)})
    with ThreadPoolExecutor(1) as thread:
        with uncommitted(lambda: made.append(depends(at, first, owner=owner))):
            ended = thread.submit(closing, end)
            wait_for_a_lock()
        ended.result(PATIENCE)
    assert reread(made[0]).phase == "blocked"
    assert dependants_release([first.pk]).released == 1
    assert check_all() == []


class Unstarted(Publisher):
    """Takes notes and sends nothing."""

    def _start(self) -> None:
        return


def test_a_dependant_that_somebody_holds_is_left_to_the_next_look(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Unstarted()
    first = submit(at)
    one, two = depends(at, first), depends(at, first)
    sessions_settle({factories.start(first).pk: End(GOOD)})
    monkeypatch.setattr(wakeups, "publisher", publisher)
    with locked(one.pk):
        assert dependants_follow([first.pk]) == 1
        assert reread(two).phase == "waiting"
        assert publisher._ends == {first.pk}
    publisher._ends.clear()
    assert dependants_follow([first.pk]) == 1
    assert publisher._ends == set()
    assert check_all() == []


def test_no_end_is_missed_by_a_submission_at_the_same_time(at: Project) -> None:
    """Whoever is first: the dependant either sees the end, or is found by it."""
    owner = factories.user(project=at)
    for _ in range(6):
        first = factories.start(submit(at, owner=owner))
        end = partial(sessions_settle, {first.pk: End(GOOD)})
        _, later = race(end, partial(depends, at, first, owner=owner))
        dependants_release([first.pk])
        assert reread(later).phase == "waiting"
    assert check_all() == []


def test_two_workers_release_each_dependant_once(at: Project) -> None:
    owner = factories.user(project=at)
    first = submit(at, owner=owner)
    later = [depends(at, first, owner=owner) for _ in range(20)]
    sessions_settle({factories.start(first).pk: End(GOOD)})

    def release() -> None:
        while dependants_release([first.pk], limit=3).claimed:
            pass

    race(release, release, release)
    assert {reread(each).phase for each in later} == {"waiting"}
    events = SessionEvent.objects.filter(type="session.released")
    assert events.count() == len(later)
    assert check_all() == []
