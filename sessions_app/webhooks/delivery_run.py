"""One run of the webhooks: reads the log into the outbox and sends what is due, concurrently.

Each attempt has a thread that only sends; one thread at a time uses the database for a run. They
are daemon threads: a process that ends does not wait for receivers, and interrupted attempts are
sent again.
"""

import logging
import random
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError, DataError, connection
from rest_framework.utils.encoders import JSONEncoder

from sessions_app.core.errors import SecretUnreadable
from sessions_app.eventlog.event_json import event_json
from sessions_app.instruments import WEBHOOK_ATTEMPTS
from sessions_app.models.webhooks import message_id
from sessions_app.services.secrets.stored import secret_read
from sessions_app.webhooks.outbox import (
    CLAIM_SECONDS,
    Claimed,
    Outcome,
    deliveries_claim,
    outcomes_record,
)
from sessions_app.webhooks.reader import log_read, log_read_behind
from sessions_app.webhooks.rules import Answer, Result, Verdict, verdict_of
from sessions_app.webhooks.sender import TOTAL_SECONDS, Attempt, Message
from sessions_app.webhooks.workers import sender_begin, sender_end, webhooks_due_in

logger = logging.getLogger(__name__)

TAKING_SECONDS = 10.0
"""Maximum seconds for which a run takes deliveries, so that the task stays short."""
AT_ONCE = 24
"""Maximum number of concurrent attempts of one run."""
READ_SECONDS = 0.2
"""Minimum seconds between two reads of the log."""
BATCH_SECONDS = 0.05
"""Seconds for which answers are gathered, to be recorded together."""
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
    """Sends what is due; `attempted` counts the attempts.

    A failure of one delivery affects only its own outcome.
    """

    def __init__(self) -> None:
        self.attempted = 0
        self._flights: dict[int, _Flight] = {}
        self._answers: SimpleQueue[tuple[int, Answer]] = SimpleQueue()
        self._outcomes: list[Outcome] = []
        """Outcomes of attempts that ended and are not recorded yet."""
        self._read_at = 0.0
        self._more_to_read = False

    @property
    def unfinished(self) -> bool:
        """Return whether there are attempts whose outcome is not recorded."""
        return bool(self._flights or self._outcomes)

    def take(self) -> None:
        """Send for at most `TAKING_SECONDS`, or until nothing is due and everything is recorded."""
        until = time.monotonic() + TAKING_SECONDS
        while time.monotonic() < until:
            self._read()
            self._take()
            if not self.unfinished and not self._more_to_read:
                break
            self._gather()

    def land(self) -> None:
        """Wait for the attempts that are on their way, and record their outcomes.

        While the database is away, the outcomes are kept as long as the claims last.
        """
        until = time.monotonic() + CLAIM_SECONDS
        while self.unfinished and time.monotonic() < until:
            try:
                self._gather()
            except DatabaseError as error:
                logger.warning("cannot store the outcomes of webhook deliveries yet: %s", error)
                connection.close()
                time.sleep(READ_SECONDS)

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

    def _take(self) -> None:
        room = AT_ONCE - len(self._flights)
        for claimed in deliveries_claim(room) if room else ():
            if claimed.event_id is not None and claimed.event is None:
                answer = Answer(error="the log no longer has the event")
                self._outcomes.append(Outcome(claimed, answer, Verdict(Result.GIVEN_UP)))
                continue
            try:
                message = message_of(claimed)
            except Exception as error:  # one that cannot be written or signed stops no other
                logger.exception("cannot send webhook delivery %d", claimed.id)
                why = error if isinstance(error, SecretUnreadable) else type(error).__name__
                self._outcomes.append(_outcome(claimed, Answer(error=f"not sent: {why}")))
                continue
            attempt = Attempt(message, settings.WEBHOOK_GUARD)
            until = time.monotonic() + TOTAL_SECONDS
            self._flights[claimed.id] = _Flight(claimed, attempt, until)
            Thread(target=self._fly, args=[claimed.id, attempt], daemon=True).start()
            self.attempted += 1

    def _fly(self, delivery: int, attempt: Attempt) -> None:
        self._answers.put((delivery, attempt.run()))

    def _gather(self) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while self._flights:
            try:
                delivery, answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            self._outcomes.append(_outcome(self._flights.pop(delivery).claimed, answer))
        for flight in self._flights.values():
            if time.monotonic() > flight.until:
                flight.attempt.abort()
        _record(self._outcomes)
        for outcome in self._outcomes:
            WEBHOOK_ATTEMPTS.labels(_WORDS[outcome.verdict.result]).inc()
        self._outcomes = []


def _record(outcomes: Sequence[Outcome]) -> None:
    """Record outcomes together; if the database refuses one of them, record each by itself."""
    try:
        outcomes_record(outcomes)
    except DataError:
        for outcome in outcomes:
            try:
                outcomes_record([outcome])
            except DataError:
                logger.exception(
                    "cannot store the answer to webhook delivery %d", outcome.claimed.id
                )
                answer = Answer(error="its answer cannot be stored")
                outcomes_record([Outcome(outcome.claimed, answer, Verdict(Result.GIVEN_UP))])


def _outcome(claimed: Claimed, answer: Answer) -> Outcome:
    verdict = verdict_of(answer, attempts=claimed.attempts, jitter=random.random())  # noqa: S311
    if claimed.ping and verdict.result is not Result.DELIVERED:
        # The person who sent the ping waits for its result, so it is not repeated.
        verdict = Verdict(Result.GIVEN_UP)
    return Outcome(claimed, answer, verdict)


def message_of(claimed: Claimed) -> Message:
    """Return the message of a delivery: the event as every door shows it, or what is not logged.

    Raises `SecretUnreadable`.
    """
    event = claimed.event
    unlogged: dict[str, Any] = {
        "id": None,
        "type": claimed.type,
        "webhook_id": claimed.endpoint_id,
        "project": claimed.project,
        "time": claimed.created_at,
        "data": claimed.data or {},
    }
    body = _ENCODER.encode(unlogged if event is None else event_json(event))
    number = message_id(claimed.id, claimed.event_id, ping=claimed.ping)
    return Message(number, claimed.url, body, [secret_read(each) for each in claimed.secrets])


def webhooks_run() -> tuple[int, float | None]:
    """Send what is due, unless enough other tasks do.

    Return the number of attempts, and the seconds until the next run. The last answers of a run may
    be slow; a thread waits for them, so that the next run can begin at once and a receiver that
    hangs delays nobody else.
    """
    sender = sender_begin(int(settings.REPRISE["webhook_senders"]))
    if sender is None:
        return 0, None
    run = Run()
    try:
        run.take()
        again = webhooks_due_in()
    finally:
        if run.unfinished:
            Thread(target=_land, args=[run], name="webhooks-landing", daemon=True).start()
        sender_end(sender)
    return run.attempted, again


def _land(run: Run) -> None:
    try:
        run.land()
    finally:
        connection.close()
