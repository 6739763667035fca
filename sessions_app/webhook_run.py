"""One run of the webhooks: reads the log into the outbox, and sends what is due, side by side.

Threads only send; the thread of the task alone speaks with the database.
"""

import random
import time
from concurrent.futures import ALL_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from django.conf import settings
from rest_framework.utils.encoders import JSONEncoder

from sessions_app.api.render import event_json
from sessions_app.instruments import WEBHOOK_ATTEMPTS
from sessions_app.services.webhook_outbox import (
    Claimed,
    Outcome,
    deliveries_claim,
    outcomes_record,
)
from sessions_app.services.webhook_reader import log_read, log_read_behind
from sessions_app.services.webhook_senders import sender_begin, sender_end, webhooks_due_in
from sessions_app.webhook_rules import PING, Answer, Result, Verdict, judge
from sessions_app.webhook_sender import TOTAL_SECONDS, Attempt, Message

TAKING_SECONDS = 10.0
"""A run takes deliveries no longer than this, so that the task stays short."""
AT_ONCE = 24
"""Attempts of one run that are on their way at once."""
READ_SECONDS = 0.2
"""From one look at the log to the next, at least."""
BATCH_SECONDS = 0.05
"""For which answers are gathered, to be written down together."""
SLICES = 10
_WORDS = {
    Result.DELIVERED: "delivered",
    Result.AGAIN: "failed",
    Result.GIVEN_UP: "given_up",
    Result.GONE: "gone",
}
_ENCODER = JSONEncoder(separators=(",", ":"))


class _Flight(NamedTuple):
    """A delivery on its way."""

    claimed: Claimed
    attempt: Attempt
    until: float


class Run:
    """What one task does; `attempted` counts the attempts."""

    def __init__(self) -> None:
        self.attempted = 0
        self._flights: dict[Future[Answer], _Flight] = {}
        self._read_at = 0.0
        self._more_to_read = False

    def go(self) -> float | None:
        """Send for up to `TAKING_SECONDS`; seconds until there is more to do (None: never)."""
        until = time.monotonic() + TAKING_SECONDS
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhooks") as threads:
            while time.monotonic() < until:
                self._read()
                self._take(threads)
                if not self._flights and not self._more_to_read:
                    break
                self._gather()
            while self._flights:
                self._gather()
        return webhooks_due_in()

    def _read(self) -> None:
        now = time.monotonic()
        if now < self._read_at and not self._more_to_read:
            return
        self._read_at = now + READ_SECONDS
        slices = 0
        while log_read().more and (slices := slices + 1) < SLICES:
            pass
        behind = log_read_behind()
        self._more_to_read = behind or slices == SLICES

    def _take(self, threads: ThreadPoolExecutor) -> None:
        room = AT_ONCE - len(self._flights)
        lost = []
        for claimed in deliveries_claim(room) if room else ():
            if claimed.event_id is not None and claimed.event is None:
                answer = Answer(error="the log no longer has the event")
                lost.append(Outcome(claimed, answer, Verdict(Result.GIVEN_UP)))
                continue
            attempt = Attempt(message_of(claimed), settings.WEBHOOK_GUARD)
            flight = _Flight(claimed, attempt, time.monotonic() + TOTAL_SECONDS)
            self._flights[threads.submit(attempt.run)] = flight
            self.attempted += 1
        outcomes_record(lost)

    def _gather(self) -> None:
        wait(self._flights, BATCH_SECONDS, ALL_COMPLETED)
        landed = [future for future in self._flights if future.done()]
        outcomes = [_outcome(self._flights.pop(each), each.result()) for each in landed]
        outcomes_record(outcomes)
        for outcome in outcomes:
            WEBHOOK_ATTEMPTS.labels(_WORDS[outcome.verdict.result]).inc()
        for flight in self._flights.values():
            if time.monotonic() > flight.until:
                flight.attempt.abort()


def _outcome(flight: _Flight, answer: Answer) -> Outcome:
    claimed = flight.claimed
    verdict = judge(answer, attempts=claimed.attempts, jitter=random.random())  # noqa: S311
    if claimed.event_id is None and verdict.result is not Result.DELIVERED:
        # Whoever asked for it is waiting to hear.
        verdict = Verdict(Result.GIVEN_UP)
    return Outcome(claimed, answer, verdict)


def message_of(claimed: Claimed) -> Message:
    """What is sent of a delivery: the event as every door tells it, or a ping."""
    event = claimed.event
    told: dict[str, Any] = {
        "id": None,
        "type": PING,
        "webhook_id": claimed.endpoint_id,
        "project": claimed.project,
        "time": claimed.created_at,
        "data": {},
    }
    body = _ENCODER.encode(told if event is None else event_json(event))
    number = f"ping_{claimed.id}" if event is None else f"evt_{event.pk}"
    return Message(number, claimed.url, body, claimed.secrets)


def webhooks_run() -> tuple[int, float | None]:
    """Send what is due, unless enough others do; how many attempts, and when to look again."""
    sender = sender_begin(int(settings.REPRISE["webhook_senders"]))
    if sender is None:
        return 0, None
    try:
        run = Run()
        again = run.go()
    finally:
        sender_end(sender)
    return run.attempted, again
