"""The demonstration at scale judges its chains: what is broken by hand is found."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from reprise.scale.judgement import (
    Scope,
    astray,
    causes,
    chains_left,
    shares,
    totals,
    waiting_chains,
)
from scheduler.models import Lease
from sessions_app.locks import database_now
from sessions_app.models import Project, RetrySettings, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories


class Chain:
    """A session that failed, its retry, which succeeded, and the scope of both."""

    def __init__(self) -> None:
        self.at: Project = factories.project("work")
        self.scope = Scope([self.at.pk], database_now() - timedelta(seconds=1))
        self.root = factories.submit(self.at, retry_policy=factories.policy())
        factories.settle(factories.start(self.root), exit_code=3)
        self.root.decision.due_at = timezone.now() - timedelta(seconds=1)
        self.root.decision.save()
        retries_dispatch()
        self.child = factories.start(factories.tip(self.root))
        factories.settle(self.child, exit_code=0, status="terminated")

    def wrong(self, *acknowledged: UUID) -> list[str]:
        return astray(self.scope, [str(each) for each in acknowledged or (self.root.pk,)])


@pytest.fixture
def chain() -> Chain:
    return Chain()


def test_a_sound_chain(chain: Chain) -> None:
    assert chain.wrong() == []
    assert chains_left(chain.scope) == 0
    found = totals(chain.scope)
    assert found[:5] == (1, 2, 1, 0, 0)
    assert found.seconds > 0
    assert causes(chain.scope) == [("kernel_nonzero_exit", 1, 1, 0, 0)]


def test_earlier_sessions_do_not_count(chain: Chain) -> None:
    later = Scope([chain.at.pk], database_now())
    assert astray(later, []) == []
    assert totals(later).sessions == 0
    assert shares(later) == []


def test_a_session_that_is_lost(chain: Chain) -> None:
    wanted = ["sessions that were acknowledged and are not there: 1"]
    assert chain.wrong(chain.root.pk, uuid4()) == wanted


def test_a_session_that_nobody_was_told_of(chain: Chain) -> None:
    factories.settle(factories.submit(chain.at), exit_code=3)
    assert chain.wrong() == ["sessions that are there and were not acknowledged: 1"]


def test_a_chain_that_goes_on(chain: Chain) -> None:
    one = factories.submit(chain.at, retry_policy=factories.policy(retry_delay=3600))
    for _ in range(2):
        assert chains_left(chain.scope) == 1
        assert chain.wrong(chain.root.pk, one.pk) == ["sessions that have not ended: 1"]
        factories.settle(one)


def test_a_parked_chain_waits_for_a_person(chain: Chain) -> None:
    rule = {"name": "never", "action": "Retry", "onCauses": ["kernel_nonzero_exit"]}
    factories.named_policy("parks", rules=[{**rule, "retryLimit": 0}], onExhausted="Park")
    one = factories.submit(chain.at, image="a:1", retry_policies=["parks"])
    factories.settle(factories.start(one), exit_code=3)
    assert one.retry_state == "parked"
    assert chains_left(chain.scope) == 0
    assert waiting_chains(chain.scope) == [(one.pk, one.pk, True, "a:1")]
    assert chain.wrong(chain.root.pk, one.pk) == []


def test_a_chain_that_is_held_has_not_ended(chain: Chain) -> None:
    one = factories.settle(factories.submit(chain.at, retry_policy=factories.policy()), exit_code=3)
    RetrySettings.objects.create(project=chain.at, mode="paused")
    one.decision.due_at = timezone.now() - timedelta(seconds=1)
    one.decision.save()
    retries_dispatch()
    assert waiting_chains(chain.scope) == [(one.pk, one.pk, False, "")]
    assert chains_left(chain.scope) == 0
    assert chain.wrong(chain.root.pk, one.pk) == ["sessions that have not ended: 1"]


def test_a_chain_with_two_tips(chain: Chain) -> None:
    Session.objects.filter(pk=chain.root.pk).update(tip=True)
    assert "sessions that lack an attempt, or have one twice: 1" in chain.wrong()


def test_a_retry_of_nothing(chain: Chain) -> None:
    other = factories.settle(factories.submit(chain.at), exit_code=3)
    Session.objects.filter(pk=chain.child.pk).update(parent=other)
    wanted = "sessions that have a retry that is not the child of the attempt before: 1"
    assert wanted in chain.wrong(chain.root.pk, other.pk)


def test_attempts_at_one_time(chain: Chain) -> None:
    early = datetime(2020, 1, 1, tzinfo=chain.root.created_at.tzinfo)
    Session.objects.filter(pk=chain.child.pk).update(created_at=early)
    assert chain.wrong() == ["sessions that began an attempt before the one before had ended: 1"]


def test_a_lease_that_was_left(chain: Chain) -> None:
    executor = factories.executor("one")
    Lease.objects.create(
        session=chain.child,
        executor=executor,
        fencing_token=7,
        granted_at=timezone.now(),
        queue_id=chain.child.queue_id,
        scheduling_key=1,
    )
    assert chain.wrong() == ["sessions that still have a lease: 1"]


def test_shares_are_of_the_time_in_which_all_queues_had_work() -> None:
    at = factories.project("work")
    began = database_now() - timedelta(seconds=1)
    for factor, starts in ((1.0, (0, 1, 2, 3)), (4.0, (0, 4))):
        queue = factories.queue(at, priority_factor=factor)
        for start in starts:
            session = factories.settle(factories.submit(at, queue=queue.name), exit_code=3)
            Session.objects.filter(pk=session.pk).update(
                scheduled_at=began + timedelta(seconds=start),
                finished_at=began + timedelta(seconds=start + 1),
            )
    # Until second 3: one session at a time of the first queue, one for a second of the other.
    one, four = shares(Scope([at.pk], began))
    assert [*one] == [1.0, 1, pytest.approx(0.75), pytest.approx(0.8)]
    assert [*four] == [4.0, 1, pytest.approx(0.25), pytest.approx(0.2)]
