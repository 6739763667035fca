"""Two at once, on separate connections: one wins, nobody waits for ever, all invariants hold."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from retry.evidence.termination import Termination
from scheduler.models import Lease
from scheduler.services.expire import leases_expire
from sessions_app.core.errors import Conflict
from sessions_app.models import (
    Project,
    RetryDecision,
    RetryDefaults,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import Granted, session_retry
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.logs import LogPiece, logs_append
from tests import factories
from tests.agent import Api, agent, running
from tests.factories import policy, settle, submit
from tests.invariants import check_all
from tests.racing import (
    PATIENCE,
    closing,
    just_before,
    locked,
    race,
    uncommitted,
    wait_for_a_lock,
)

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 20


@pytest.fixture
def due(at: Project, owner: User) -> Callable[[], Session]:
    def make() -> Session:
        session = submit(at, owner=owner, retry_policy=policy())
        settle(session)
        # Its delay is a millisecond, so it is due before anybody could look.
        return session

    return make


def children(session: Session) -> int:
    return Session.objects.filter(parent=session).count()


def test_two_dispatchers_of_one_decision(due: Callable[[], Session]) -> None:
    for _ in range(TIMES):
        session = due()
        results = race(retries_dispatch, retries_dispatch)
        assert sum(result.dispatched for result in results) == 1
        assert children(session) == 1
    assert check_all() == []


def test_many_dispatchers_of_many_decisions(due: Callable[[], Session]) -> None:
    for _ in range(3):
        sessions = [due() for _ in range(30)]
        results = race(*[lambda: retries_dispatch(7)] * 6)
        retries_dispatch()
        assert sum(result.dispatched for result in results) <= len(sessions)
        assert [children(session) for session in sessions] == [1] * len(sessions)


def test_dispatchers_that_never_rest(due: Callable[[], Session]) -> None:
    """One may see a decision as due and lock its chain just after another one dispatched it."""

    def dispatch_all() -> int:
        dispatched = 0
        while RetryDecision.objects.filter(state="scheduled").exists():
            dispatched += retries_dispatch(5).dispatched
        return dispatched

    for _ in range(4):
        sessions = [due() for _ in range(40)]
        assert sum(race(*[dispatch_all] * 4)) == len(sessions)
    assert check_all() == []


def test_a_dispatcher_that_waited_sees_what_others_have_sent_off(
    due: Callable[[], Session],
) -> None:
    """Its statement began before; it must not go by what the decision was then."""
    root = due()
    retries_dispatch()
    stuck = Session.objects.get(parent=root)
    settle(stuck)
    later = due()
    with ThreadPoolExecutor(1) as thread:
        with uncommitted(lambda: Session.objects.select_for_update().get(pk=stuck.pk)):
            waiting = thread.submit(closing, retries_dispatch)
            wait_for_a_lock()
            assert retries_dispatch().dispatched == 1
            assert children(later) == 1
        assert waiting.result(PATIENCE).dispatched == 1
    assert (children(stuck), children(later)) == (1, 1)
    assert check_all() == []


def test_a_locked_chain_holds_up_nobody(due: Callable[[], Session]) -> None:
    stuck, free = due(), due()
    with locked(stuck.pk):
        assert retries_dispatch().dispatched == 1
        assert (children(stuck), children(free)) == (0, 1)
    assert retries_dispatch().dispatched == 1


def test_changes_of_different_defaults_are_all_kept(at: Project, owner: User) -> None:
    path = f"retry-defaults/projects/{at.address}/"
    changes = ({"policy": {"max_retries": 3}}, {"policy": {"retry_delay": 5}},
               {"bounds": {"max_retries": 9}})  # fmt: skip
    doors = [Api(factories.token(owner)) for _ in changes]
    for _ in range(TIMES):
        doors[0].call("PUT", path, {})
        race(*[partial(door.call, "PATCH", path, change)
               for door, change in zip(doors, changes, strict=True)])  # fmt: skip
        row = RetryDefaults.objects.get()
        assert row.policy == {"max_retries": 3, "retry_delay": 5}
        assert row.bounds == {"max_retries": 9}


def test_a_locked_session_is_busy(at: Project, owner: User) -> None:
    played = agent()
    leased = submit(at, owner=owner)
    session = running(played, submit(at, owner=owner))
    report = played.reporting(session.pk, "ERROR")
    with locked(session.pk, leased.pk):
        assert played.send(report) == ["busy"]
        assert played.give_back(leased.pk) == ["busy"]
    assert played.send(report) == ["applied"]
    assert played.give_back(leased.pk) == ["applied"]
    assert check_all() == []


def test_expiry_passes_over_what_is_locked(at: Project, owner: User) -> None:
    played = agent()
    sessions = [submit(at, owner=owner) for _ in range(2)]
    played.lease()
    Lease.objects.update(granted_at=timezone.now() - timedelta(days=1))
    with locked(sessions[0].pk):
        assert leases_expire().returned == 1
    assert leases_expire().returned == 1


def test_two_settles_of_one_session(at: Project, owner: User) -> None:
    played = agent()
    for _ in range(TIMES):
        session = running(played, submit(at, owner=owner, retry_policy=policy()))
        ends = [Termination(exit_code=1), Termination(status="terminated", exit_code=0)]
        settled = race(*[partial(sessions_settle, {session.pk: End(end)}) for end in ends])
        assert sorted(len(ids) for ids in settled) == [0, 1]
        played.tokens.clear()
    assert check_all() == []


def test_settles_of_overlapping_batches(at: Project, owner: User) -> None:
    failure = End(Termination(exit_code=1))
    for _ in range(TIMES):
        ids = [submit(at, owner=owner).pk for _ in range(6)]
        orders = (ids, ids[::-1], ids[2:] + ids[:2])
        settled = race(
            *[partial(sessions_settle, dict.fromkeys(order, failure)) for order in orders]
        )
        assert sorted(session for each in settled for session in each) == sorted(ids)
    assert check_all() == []


def test_cancel_and_dispatch(due: Callable[[], Session]) -> None:
    for _ in range(TIMES):
        session = due()
        race(retries_dispatch, partial(chain_cancel, session.pk, by="ann"))
        retries_dispatch()
        tip = Session.objects.get(root=session, tip=True)
        # Whoever came first, the chain is over: its waiting retry or its child was cancelled.
        assert tip.retry_state == "cancelled"
        assert RetryDecision.objects.get(session=tip).state in {"cancelled", "final"}


def test_manual_retry_and_dispatch(due: Callable[[], Session]) -> None:
    for _ in range(TIMES):
        session = due()
        dispatched, by_hand = race(
            retries_dispatch,
            partial(session_retry, session.pk, session.pk, by="bob"),
        )
        assert children(session) == 1
        assert (dispatched.dispatched == 1) == isinstance(by_hand, Conflict)
        # The waiting decision pays its own budget, whoever dispatches it.
        child = Session.objects.get(parent=session)
        assert child.retry_counters == {"inline/failure": 1}


def test_two_manual_retries(at: Project, owner: User) -> None:
    for _ in range(TIMES):
        session = settle(submit(at, owner=owner))
        retry = partial(session_retry, session.pk, session.pk, by="bob")
        outcomes = race(retry, retry)
        assert sum(isinstance(each, Granted) for each in outcomes) == 1
        assert children(session) == 1
    assert check_all() == []


def test_cancel_and_manual_retry(at: Project, owner: User) -> None:
    for _ in range(TIMES):
        session = settle(submit(at, owner=owner, retry_policy=policy(retry_delay=3600)))
        race(
            partial(chain_cancel, session.pk, by="ann"),
            partial(session_retry, session.pk, session.pk, by="bob"),
        )
    assert check_all() == []


def test_report_and_expiry(at: Project, owner: User) -> None:
    played = agent()
    for _ in range(TIMES):
        session = running(played, submit(at, owner=owner, retry_policy=policy()))
        past = timezone.now() - timedelta(days=1)
        Lease.objects.filter(session=session).update(lost_at=past)
        report = played.reporting(session.pk, "TERMINATED")
        outcomes, expired = race(partial(played.send, report), leases_expire)
        played.tokens.clear()
        session.refresh_from_db()
        # The report won, or found the session settled, or its row locked.
        won = {"TERMINATED": "applied", "ERROR": "stale"}[session.status]
        assert outcomes[0] in {won, "busy"}
        assert expired.settled == (session.status == "ERROR")
    assert check_all() == []


def test_another_executor_does_not_learn_of_a_session_that_is_locked(
    at: Project, owner: User
) -> None:
    played, thief = agent(), agent()
    session = submit(at, owner=owner)
    played.lease()
    thief.tokens = dict(played.tokens)
    with locked(session.pk):
        assert played.report(session.pk, "PREPARING") == "busy"
        assert played.give_back(session.pk) == ["busy"]
        assert thief.report(session.pk, "PREPARING") == "invalid"
        assert thief.give_back(session.pk) == ["invalid"]


def test_acceptance_and_expiry_of_the_lease(at: Project, owner: User) -> None:
    played = agent()
    for _ in range(TIMES):
        session = submit(at, owner=owner)
        played.lease()
        past = timezone.now() - timedelta(days=1)
        Lease.objects.filter(session=session).update(granted_at=past)
        report = played.reporting(session.pk, "PREPARING")
        outcomes, expired = race(partial(played.send, report), leases_expire)
        session.refresh_from_db()
        assert (session.status == "PENDING") == (expired.returned == 1)
        assert (session.status == "PREPARING") == (outcomes == ["applied"])
        chain_cancel(session.pk, by="ann")
        played.lease()
        played.tokens.clear()
        played.lease()
    assert check_all() == []


def test_a_lease_that_is_accepted_between_the_look_and_the_lock_of_expiry(
    at: Project, owner: User
) -> None:
    played = agent()
    session = submit(at, owner=owner)
    played.lease()
    Lease.objects.update(granted_at=timezone.now() - timedelta(days=1))
    with just_before("SKIP LOCKED", partial(played.report, session.pk, "PREPARING")):
        assert leases_expire().returned == 0
    session.refresh_from_db()
    assert session.status == "PREPARING"
    assert check_all() == []


def test_two_creations_under_one_creation_id(at: Project, owner: User) -> None:
    for number in range(TIMES):
        create = partial(submit, at, owner=owner, creation_id=f"job-{number}")
        assert len({session.pk for session in race(create, create, create)}) == 1
    assert Session.objects.count() == SessionSpec.objects.count() == TIMES
    assert SessionEvent.objects.count() == TIMES


def test_one_creation_id_with_two_bodies(at: Project, owner: User) -> None:
    for number in range(TIMES):
        create = partial(submit, at, owner=owner, creation_id=f"job-{number}")
        outcomes = race(partial(create, name="a"), partial(create, name="b"))
        assert sum(isinstance(each, Session) for each in outcomes) == 1
        assert sum(isinstance(each, Conflict) for each in outcomes) == 1


def test_two_executors_lease_at_once(at: Project, owner: User) -> None:
    agents = [agent(max_sessions=1000), agent(max_sessions=1000)]
    for _ in range(TIMES):
        waiting = [submit(at, owner=owner).pk for _ in range(6)]
        granted = race(*[played.lease for played in agents])
        late = agents[0].lease()
        assert sorted([*granted[0], *granted[1], *late]) == sorted(waiting)
    assert check_all() == []


def test_reports_and_logs_of_the_same_sessions(at: Project, owner: User) -> None:
    """Both lock many sessions, children and roots mixed: neither may wait in a circle."""
    played = agent()
    for _ in range(TIMES):
        first = submit(at, owner=owner, retry_policy=policy())
        played.lease()
        played.fail(first.pk)
        retries_dispatch()
        for _ in range(3):
            submit(at, owner=owner)
        held = sorted(played.lease())
        pieces = [LogPiece(each, played.tokens[each], 0, b"x") for each in held]
        reports = [played.reporting(each, "TERMINATED") for each in held]
        outcomes, ends = race(
            partial(played.send, *reports),
            partial(logs_append, played.executor.name, pieces),
        )
        tried = zip(reports, outcomes, strict=True)
        again = [report for report, outcome in tried if outcome == "busy"]
        if again:
            assert set(played.send(*again)) == {"applied"}
        assert {end.next_offset for end in ends} == {1}


def test_two_sends_of_one_piece_of_output(at: Project, owner: User) -> None:
    played = agent()
    for _ in range(TIMES):
        session = running(played, submit(at, owner=owner))
        piece = LogPiece(session.pk, played.tokens[session.pk], 0, b"hello")
        send = partial(logs_append, played.executor.name, [piece])
        assert {end.next_offset for (end,) in race(send, send)} == {5}
        played.succeed(session.pk)
