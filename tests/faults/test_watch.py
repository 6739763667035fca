"""Tests of the watch: each rule is broken by hand once; and what it takes from PostgreSQL's log."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from scheduler.models import Preemption
from sessions_app.models import RetryDecision, Session
from tests.factories import submit
from tests.faults.watch import refusals_in, wrong_now
from tests.integration import test_invariants as by_hand

Records = dict[str, Session]
sound = by_hand.sound


def retry_a_success(records: Records) -> None:
    """Whatever was decided about it."""
    by_hand.sessions(records["parent"]).update(status="TERMINATED")
    RetryDecision.objects.filter(session=records["parent"]).delete()


def make_room_and_keep_none(records: Records) -> None:
    taker = submit(records["child"].project)
    by_hand.make_room_and_go_on(records)
    soon = timezone.now() + timedelta(minutes=1)
    Preemption.objects.update(taker_id=taker.pk, planned_at=soon, until=soon)


SEEN: dict[Callable[[Records], None], str] = {
    by_hand.lose_a_decision: "has ended as ERROR without a decision",
    by_hand.lose_a_trace: "has a decision without a trace",
    by_hand.leave_a_trace: "has a trace without a decision",
    by_hand.decide_a_success: "has succeeded, and a decision was made about it",
    retry_a_success: "has succeeded, and was retried",
    by_hand.two_unfinished: "is a chain with 2 attempts that have not ended",
    by_hand.begin_after_the_cancel: "began after its chain had been cancelled",
    by_hand.cancel_in_part: "has a retry that waits though its chain was cancelled",
    by_hand.lose_a_child: "was retried, and its next attempt is not there",
    by_hand.lose_a_lease: "is RUNNING without its lease",
    make_room_and_keep_none: "for which none is kept",
}


def looked() -> list[str]:
    with connection.cursor() as cursor:
        return wrong_now(cursor)


@pytest.mark.django_db
@pytest.mark.parametrize("breakage", SEEN, ids=lambda breakage: breakage.__name__)
def test_a_passing_violation_is_seen(sound: Records, breakage: Callable[[Records], None]) -> None:
    assert looked() == []
    breakage(sound)
    assert any(SEEN[breakage] in line for line in looked())


def test_errors_of_two_writers_without_a_lock_are_seen() -> None:
    log = b"""
2026-11-22 11:09:46 UTC [7] FATAL:  terminating connection due to administrator command
2026-11-22 11:09:46 UTC [7] ERROR:  could not extend file: No space left on device
2026-11-22 11:09:47 UTC [8] ERROR:  duplicate key value violates unique constraint "one_root"
2026-11-22 11:09:47 UTC [8] DETAIL:  Key (creation_id)=(ERROR) already exists.
2026-11-22 11:09:48 UTC [9] ERROR:  deadlock detected
"""
    assert refusals_in(log) == [
        'PostgreSQL: ERROR:  duplicate key value violates unique constraint "one_root"',
        "PostgreSQL: ERROR:  deadlock detected",
    ]
    assert refusals_in(b"") == []
