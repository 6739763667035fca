"""Checks of a start beside each other, beside its end and beside a cancellation."""

from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from scheduler.services.verify import starts_verify
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, agent
from tests.factories import policy, reread, submit
from tests.integration.test_start_verification import due_now
from tests.invariants import check_all
from tests.racing import locked, race
from tests.unit.test_pod_status import pod, waiting

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 8


def hopeless(played: Agent, at: Project, owner: User, count: int = 1) -> list[Session]:
    """Sessions with pods that cannot start, and whose checks are due."""
    sessions = [submit(at, owner=owner, retry_policy=policy()) for _ in range(count)]
    played.lease()
    played.send(*[played.reporting(each.pk, "PREPARING") for each in sessions])
    seen = waiting("ImagePullBackOff")
    played.send(*[played.reporting(each.pk, "PULLING", pod=seen) for each in sessions])
    due_now()
    return sessions


def verdicts(session: Session) -> int:
    return SessionEvent.objects.filter(session_id=session.pk, type="session.start_failed").count()


def test_two_workers_give_one_verdict(at: Project, owner: User) -> None:
    played = agent()
    for _ in range(TIMES):
        sessions = hopeless(played, at, owner, 5)
        results = race(starts_verify, starts_verify, starts_verify)
        assert sum(each.failed for each in results) + starts_verify().failed == 5
        assert [verdicts(each) for each in sessions] == [1] * 5
        played.fail(*[each.pk for each in sessions])
    assert check_all() == []


@pytest.mark.parametrize("status", ["RUNNING", "TERMINATED", "ERROR"])
def test_a_check_and_a_report(at: Project, owner: User, status: str) -> None:
    """Whichever is first; the other finds that it is so."""
    played = agent()
    for _ in range(TIMES):
        (session,) = hopeless(played, at, owner)
        facts: dict[str, Any] = {"pod": pod("Running")} if status == "RUNNING" else {}
        if status == "ERROR":
            facts = {"termination": {"exit_code": 3}}
        report = played.reporting(session.pk, status, **facts)
        checked, (outcome,) = race(starts_verify, partial(played.send, report))
        while outcome == "busy":
            (outcome,) = played.send(report)
        starts_verify()
        now, failed = reread(session), verdicts(session)
        assert checked.failed <= failed <= 1
        if status == "RUNNING":
            assert (now.status, outcome) == (
                ("TERMINATING", "stale") if failed else ("RUNNING", "applied")
            )
            played.fail(session.pk, exit_code=3)
        elif status == "TERMINATED":
            assert now.status == "TERMINATED"
        if status != "TERMINATED":
            cause = "image_pull_failure" if failed else "kernel_nonzero_exit"
            assert reread(session).retry_cause == cause
    assert check_all() == []


def test_a_check_and_a_cancellation(at: Project, owner: User) -> None:
    played = agent()
    for _ in range(TIMES):
        (session,) = hopeless(played, at, owner)
        race(starts_verify, partial(chain_cancel, session.pk, by="ann"))
        starts_verify()
        assert reread(session).status == "TERMINATING"
        played.fail(session.pk)
        assert reread(session).status == "CANCELLED"
    assert check_all() == []


def test_locked_sessions_are_checked_later(at: Project, owner: User) -> None:
    first, second = hopeless(agent(), at, owner, 2)
    with locked(first.pk):
        assert starts_verify().failed == 1
    assert starts_verify().failed == 1
    assert verdicts(first) == verdicts(second) == 1
