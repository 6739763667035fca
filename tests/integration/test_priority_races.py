"""A change of the priority against a lease, a cancel and itself, on separate connections."""

from functools import partial

import pytest
from django.contrib.auth.models import User

from sessions_app.core.errors import Conflict
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.priority import session_set_priority, sessions_set_priority
from tests.agent import Agent
from tests.factories import reread, submit
from tests.invariants import check_all
from tests.racing import race

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 8


def test_against_a_lease(at: Project, owner: User, played: Agent) -> None:
    for _ in range(TIMES):
        session = submit(at, owner=owner)
        refused, leased = race(
            partial(session_set_priority, session.pk, 5, by="ann"), partial(played.lease)
        )
        # A round passes over what somebody else has locked.
        assert leased in ([session.pk], [])
        assert reread(session).priority == (0 if isinstance(refused, Conflict) else 5)
        if not leased:
            assert refused is None
            assert played.lease() == [session.pk]
        played.start(session.pk)
        played.succeed(session.pk)
    assert check_all() == []


def test_against_a_cancel(at: Project, owner: User) -> None:
    for _ in range(TIMES):
        session = submit(at, owner=owner)
        refused, _ = race(
            partial(session_set_priority, session.pk, 5, by="ann"),
            partial(chain_cancel, session.root_id, by="bob"),
        )
        assert reread(session).status == "CANCELLED"
        assert reread(session).priority == (0 if isinstance(refused, Conflict) else 5)
    assert check_all() == []


def test_against_itself_in_any_order(at: Project, owner: User) -> None:
    sessions = [submit(at, owner=owner).pk for _ in range(4)]
    for _ in range(TIMES):
        one, other = race(
            partial(sessions_set_priority, sessions, 5, by="ann"),
            partial(sessions_set_priority, sessions[::-1], -5, by="bob"),
        )
        assert set(one.values()) == set(other.values()) == {None}
        rows = Session.objects.filter(pk__in=sessions)
        assert len(set(rows.values_list("stored_priority", flat=True))) == 1
    for each in sessions:
        events = SessionEvent.objects.filter(session_id=each, type="session.priority_changed")
        told = list(events.order_by("seq").values_list("data", flat=True))
        before = [0, *(data["priority"] for data in told)]
        assert [data["before"] for data in told] == before[:-1]
    assert check_all() == []
