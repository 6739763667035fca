"""Messages that wake somebody up, sent after commit by one background thread of each process.

Nothing here is relied upon: a wake-up that is late, lost or doubled costs time, never a retry.
Services only drop a note into memory, so that a dead broker does not slow them down.
"""

import heapq
import logging
import math
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from base.loglines.context import binding, bound
from sessions_app.db.failpoints import failpoint
from sessions_app.models.dependencies import awaited_roots
from sessions_app.models.webhooks import webhooks_any

logger = logging.getLogger(__name__)

WORK_CHANNEL = "reprise_work"
DISPATCH = "sessions_app.tasks.dispatch_due_retries"
SWEEP = "sessions_app.tasks.sweep_retries"
WEBHOOKS = "sessions_app.tasks.deliver_webhooks"
DEPENDANTS = "sessions_app.tasks.release_dependants"
HINT_HORIZON = timedelta(seconds=900)
"""What is due later gets no hint; the sweep brings it."""
HELD_BACK = 1.0
"""Seconds; what is due sooner waits here and is sent without countdown."""
MAX_WAITING = 10_000
NOTIFY_INTERVAL = 0.1
WEBHOOKS_INTERVAL = 0.5
ENDS_INTERVAL = 0.2
"""Seconds from one look for dependants of ended chains to the next; `ENDS_IDLE` if there are none
at all. Nobody waits for the look."""
ENDS_IDLE = 1.0
ROOTS_AT_ONCE = 1000
"""Most chains that one message names."""
LOOK_INTERVAL = 5.0
"""Seconds from one look whether there are webhooks at all to the next."""
_ONCE_MORE = {"max_retries": 1, "interval_start": 0}
"""The first message after a restart of the broker meets a connection that is gone."""


class Publisher:
    """Sends hints of what is due and NOTIFYs of new work; one a process.

    A hint is sent at most once for each task and due second, a NOTIFY at most ten times a second.
    With a hint goes the id of the request that asked for it first.
    What would wait behind `MAX_WAITING` others is dropped, and so is what fails.
    """

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._sends: list[tuple[float, float, float, str, str]] = []
        self._known: set[tuple[float, str]] = set()
        self._work = False
        self._sweep = False
        self._notified = 0.0
        self._webhooks_at: float | None = None
        self._webhooks_free = self._looked = 0.0
        self._wanted = False
        self._ends: set[UUID] = set()
        self._ends_at = 0.0
        self._thread: threading.Thread | None = None

    def hints(self, due_ats: Iterable[float], task: str = DISPATCH) -> None:
        """Ask for runs of a task at these times."""
        for due_at in due_ats:
            self.hint(due_at, task)

    def hint(self, due_at: float, task: str = DISPATCH) -> None:
        """Ask for a run of a task at `due_at` (seconds since the epoch)."""
        now = time.time()
        soon = due_at - now <= HELD_BACK
        # Hints ahead are one for each due second; at the last moment tenths are told apart, so
        # that a retry after a few milliseconds does not wait for the end of its second.
        slot = math.ceil(due_at * 10) / 10 if soon else float(math.ceil(due_at))
        with self._wake:
            if (slot, task) in self._known or len(self._sends) >= MAX_WAITING:
                return
            if len(self._known) >= MAX_WAITING:
                self._known = {known for known in self._known if known[0] > now}
            self._known.add((slot, task))
            origin = bound("request_id")
            heapq.heappush(self._sends, (slot if soon else 0.0, slot, due_at, task, origin))
            self._start()
            self._wake.notify()

    def work(self) -> None:
        """Say that sessions wait for executors, or that runs are to be stopped."""
        with self._wake:
            self._work = True
            self._start()
            self._wake.notify()

    def sweep(self) -> None:
        """Ask for a sweep of all waiting retries, held ones too."""
        with self._wake:
            self._sweep = True
            self._start()
            self._wake.notify()

    def webhooks(self, delay: float = 0.0, *, sure: bool = False) -> None:
        """Ask for a run of the webhooks in so many seconds, if any is there or one is `sure` to."""
        at = time.monotonic() + delay
        with self._wake:
            if sure:
                self._wanted, self._looked = True, time.monotonic()
            if self._webhooks_at is not None and self._webhooks_at <= at:
                return
            self._webhooks_at = at
            self._start()
            self._wake.notify()

    def ended(self, roots: Iterable[UUID]) -> None:
        """Say that chains have ended, for which others may wait."""
        with self._wake:
            if len(self._ends) < MAX_WAITING:
                self._ends.update(roots)
            self._start()
            self._wake.notify()

    def awaited(self) -> None:
        """Say that there are dependants: the ends of chains are looked at sooner."""
        with self._wake:
            self._ends_at = min(self._ends_at, time.monotonic() + ENDS_INTERVAL)

    def _start(self) -> None:
        # A thread does not survive a fork: each process starts its own at its first wake-up.
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="wakeups", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._wake:
                while (pause := self._pause()) is None or pause > 0:
                    self._wake.wait(pause)
                due = self._take()
                work = self._take_work()
                webhooks = self._take_webhooks()
                sweep, self._sweep = self._sweep, False
                ends = self._take_ends()
            if ends:
                self._send_ends(ends)
            if webhooks:
                self._send_webhooks()
            if sweep:
                _send(SWEEP, None)
            if work:
                _notify_work()
            if due is not None:
                _send_hint(*due)

    def _pause(self) -> float | None:
        """Seconds until there is something to do; None: nothing is known."""
        pauses = [0.0] if self._sweep else []
        if self._work:
            pauses.append(self._notified + NOTIFY_INTERVAL - time.monotonic())
        if self._sends:
            pauses.append(self._sends[0][0] - time.time())
        if self._ends:
            pauses.append(self._ends_at - time.monotonic())
        if self._webhooks_at is not None:
            pauses.append(max(self._webhooks_at, self._webhooks_free) - time.monotonic())
        return min(pauses, default=None)

    def _take_ends(self) -> list[UUID]:
        if not self._ends or self._ends_at > time.monotonic():
            return []
        # Until the look below is over, nothing says that there are dependants.
        self._ends_at = time.monotonic() + ENDS_IDLE
        taken, self._ends = list(self._ends), set()
        return taken

    def _send_ends(self, roots: list[UUID]) -> None:
        found = _awaited(roots)
        if found is None:
            return
        self.awaited()
        for start in range(0, len(found), ROOTS_AT_ONCE):
            _send(DEPENDANTS, None, [[str(each) for each in found[start : start + ROOTS_AT_ONCE]]])

    def _take_webhooks(self) -> bool:
        now = time.monotonic()
        if self._webhooks_at is None or max(self._webhooks_at, self._webhooks_free) > now:
            return False
        self._webhooks_at = None
        self._webhooks_free = now + WEBHOOKS_INTERVAL
        return True

    def _send_webhooks(self) -> None:
        if time.monotonic() > self._looked + LOOK_INTERVAL:
            self._wanted = _webhooks_wanted()
            self._looked = time.monotonic()
        if self._wanted:
            _send(WEBHOOKS, None)

    def _take_work(self) -> bool:
        if not self._work or time.monotonic() < self._notified + NOTIFY_INTERVAL:
            return False
        self._work = False
        self._notified = time.monotonic()
        return True

    def _take(self) -> tuple[str, float, str] | None:
        if not self._sends or self._sends[0][0] > time.time():
            return None
        send_at, slot, due_at, task, origin = heapq.heappop(self._sends)
        if send_at:
            self._known.discard((slot, task))
        return task, due_at, origin


def _send_hint(task: str, due_at: float, origin: str) -> None:
    countdown = math.ceil(due_at - time.time())
    with binding(request_id=origin):
        _send(task, countdown if countdown > 0 else None)


def _send(task: str, countdown: int | None, args: Sequence[Any] | None = None) -> None:
    # By name: tasks import services, which import this, and some are of the rooms above.
    module, _, name = task.rpartition(".")
    failpoint("hint.before_send")
    try:
        found = getattr(import_module(module), name)
        found.apply_async(args, countdown=countdown, retry_policy=_ONCE_MORE)
    except Exception as error:  # noqa: BLE001  # any failure of any broker: the sweep comes anyway
        logger.info("a wake-up was not sent: %s", error)
    failpoint("hint.after_send")


def _webhooks_wanted() -> bool:
    try:
        return webhooks_any()
    except Exception as error:  # noqa: BLE001  # whatever fails, this thread must live on
        logger.info("cannot find out whether there are webhooks: %s", error)
        return False
    finally:
        connection.close()


def _awaited(roots: Sequence[UUID]) -> list[UUID] | None:
    """Return those of the chains that others wait for; None if nobody waits for any chain."""
    try:
        return awaited_roots(roots)
    except Exception as error:  # noqa: BLE001  # whatever fails, this thread must live on
        logger.info("cannot find out who waits for chains: %s", error)
        return None
    finally:
        connection.close()


def _notify_work() -> None:
    failpoint("notify.before_send")
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {WORK_CHANNEL}")
    except Exception as error:  # noqa: BLE001  # whatever fails, this thread must live on
        logger.info("a NOTIFY was not sent: %s", error)
    finally:
        connection.close()
    failpoint("notify.after_send")


publisher = Publisher()


def retries_due_after_commit(due_ats: Iterable[datetime | None], *, now: datetime) -> None:
    """After commit, hint at each of these times that lies within the horizon."""
    wanted = _within_horizon(due_ats, now)
    if wanted:
        transaction.on_commit(lambda: publisher.hints(wanted))


def due_after_commit(task: str, due_ats: Iterable[datetime], *, now: datetime) -> None:
    """As `retries_due_after_commit`, of another task."""
    wanted = _within_horizon(due_ats, now)
    if wanted:
        transaction.on_commit(lambda: publisher.hints(wanted, task))


def _within_horizon(due_ats: Iterable[datetime | None], now: datetime) -> set[float]:
    latest = now + HINT_HORIZON
    # The publisher counts on this process's clock; only the distance to now is the database's.
    offset = time.time() - now.timestamp()
    return {due.timestamp() + offset for due in due_ats if due is not None and due <= latest}


def look_again(left: float, task: str = DISPATCH) -> None:
    """Ask for one more run of a task when what is due in `left` seconds is.

    One that should have gone already is somebody else's just now, and is looked at a second later.
    Through the publisher, because runs that asked each for itself would never become fewer while
    retries keep coming due.
    """
    now = time.time()
    publisher.hint(now + left if left > 0 else math.floor(now) + 2, task)


def go_on(task: str = DISPATCH) -> None:
    """Ask for another run of a task at once: there is more than one run takes."""
    publisher.hint(time.time(), task)


def webhooks_after_commit(*, sure: bool = False) -> None:
    """After commit, let webhooks be told of what was written to the log; `sure`: there is one."""
    transaction.on_commit(partial(publisher.webhooks, sure=sure))


def work_after_commit() -> None:
    """After commit, wake the long polls of executors."""
    transaction.on_commit(publisher.work)


def ended_after_commit(roots: Sequence[UUID]) -> None:
    """After commit, look for those who wait for these chains."""
    transaction.on_commit(partial(publisher.ended, roots))


def awaited_after_commit() -> None:
    """After commit, expect that chains end for which others wait."""
    transaction.on_commit(publisher.awaited)


def dependants_now(roots: Sequence[UUID]) -> None:
    """Ask for another run for these chains: there is more than one run could take."""
    publisher.ended(roots)


def sweep_after_commit() -> None:
    """After commit, look at all waiting retries: a switch was moved."""
    transaction.on_commit(publisher.sweep)
