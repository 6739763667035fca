"""Messages only wake somebody up: a dead broker slows nobody, and no retry is lost without them."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sessions_app import tasks, wakeups
from sessions_app.locks import database_now
from sessions_app.models import RetryDecision, Session
from sessions_app.services.chains.dispatch import DispatchResult
from sessions_app.tasks import dispatch_due_retries, sweep_retries
from sessions_app.wakeups import HELD_BACK, MAX_WAITING, Publisher
from tests.factories import policy, project, settle, submit, tip, user
from tests.invariants import check_all
from tests.waiting import PATIENCE_SECONDS

DEAD_BROKER = """
import threading, time
import django
django.setup()
import reprise.celery
from sessions_app.wakeups import MAX_WAITING, Publisher

publisher, now, longest = Publisher(), time.time(), 0.0
for number in range(2 * MAX_WAITING):
    began = time.perf_counter()
    publisher.hint(now + 2 + number)
    longest = max(longest, time.perf_counter() - began)
publisher.sweep()
alive = [thread.name for thread in threading.enumerate()]
print(len(publisher._sends) <= MAX_WAITING, longest < 3.0, "wakeups" in alive)
"""


@pytest.fixture(params=["refuses", "is silent"])
def dead_broker(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker's address at which nobody listens, or somebody who never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            listener.listen()
        yield f"amqp://127.0.0.1:{listener.getsockname()[1]}//"


def test_a_dead_broker_slows_nobody(dead_broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_URL", dead_broker)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "reprise.settings")
    done = subprocess.run(
        [sys.executable, "-c", DEAD_BROKER],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout.split() == ["True", "True", "True"], done.stderr


class Unstarted(Publisher):
    """Takes notes and sends nothing."""

    def _start(self) -> None:
        return


def test_hints_are_one_for_each_due_second() -> None:
    publisher = Unstarted()
    for number in range(50):
        publisher.hint(2_000_000_000.5 + number / 200)
    assert len(publisher._sends) == 1
    publisher.hint(2_000_000_001.25)
    assert len(publisher._sends) == 2


def test_hints_beyond_the_longest_queue_are_dropped() -> None:
    publisher = Unstarted()
    for number in range(MAX_WAITING + 500):
        publisher.hint(2_000_000_000.0 + number)
    assert len(publisher._sends) == MAX_WAITING


def test_hints_of_retries_due_soon_are_held_back() -> None:
    publisher = Unstarted()
    assert publisher._pause() is None
    publisher.hint(time.time() + 0.9 * HELD_BACK)
    held = publisher._pause()
    assert held is not None
    assert 0 < held <= HELD_BACK
    # What is due later goes at once, with a countdown.
    publisher.hint(time.time() + 60)
    at_once = publisher._pause()
    assert at_once is not None
    assert at_once <= 0


@pytest.mark.django_db(transaction=True)
def test_without_any_hint_the_sweep_brings_the_child() -> None:
    at, owner = project(), user(superuser=True)
    sessions = [submit(at, owner=owner, retry_policy=policy()) for _ in range(5)]
    for session in sessions:
        settle(session)
    assert sweep_retries() == 5
    assert sweep_retries() == 0
    assert [tip(session).retry_count for session in sessions] == [1] * 5
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
def test_a_hint_that_comes_twice_or_too_early_is_harmless() -> None:
    at = project()
    due = settle(submit(at, retry_policy=policy()))
    later = settle(submit(at, retry_policy=policy(retry_delay=3600)))
    assert [dispatch_due_retries() for _ in range(3)] == [1, 0, 0]
    assert (tip(due).retry_count, tip(later).retry_count) == (1, 0)
    assert Session.objects.count() == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("overdue", [False, True])
def test_runs_that_find_a_retry_near_ask_for_one_more_together(
    overdue: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While retries keep coming due, there must not be ever more runs that each ask for another."""
    settle(submit(project(), retry_policy=policy(retry_delay=1.5)))
    publisher = Unstarted()
    monkeypatch.setattr(wakeups, "publisher", publisher)
    if overdue:
        RetryDecision.objects.update(due_at=database_now())
        # As if another dispatcher held it.
        monkeypatch.setattr(tasks, "retries_dispatch", lambda: DispatchResult(0, 0, 0))
    for _ in range(20):
        dispatch_due_retries()
    # A run just before the turn of a second asks for another second than one just after it.
    assert 1 <= len(publisher._sends) <= 2
    assert all(0.5 < due_at - time.time() <= 2 for _, _, due_at, _, _ in publisher._sends)


@pytest.mark.django_db(transaction=True)
def test_retries_due_later_ask_for_no_other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settle(submit(project(), retry_policy=policy(retry_delay=60)))
    publisher = Unstarted()
    monkeypatch.setattr(wakeups, "publisher", publisher)
    dispatch_due_retries()
    assert publisher._sends == []


def test_a_publisher_whose_thread_died_starts_another() -> None:
    publisher = Publisher()
    publisher._thread = threading.Thread(target=lambda: None)
    publisher._thread.start()
    publisher._thread.join()
    publisher.hint(time.time() + 3600)
    assert publisher._thread.is_alive()


@pytest.mark.django_db
def test_nothing_is_sent_before_the_commit(
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        session = submit(project(), retry_policy=policy(retry_delay=60))
        settle(session)
    # One for the work that waits, one for the retry that is due, one for webhooks of each step.
    assert len(callbacks) == 4
    with django_capture_on_commit_callbacks() as callbacks:
        settle(submit(project(), retry_policy=policy(retry_delay=3000, max_retry_delay=None)))
    assert len(callbacks) == 3
