"""Traces stand beside their decisions, and go with them."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reprise.upkeep.retention import prune
from sessions_app.models import Project, RetryDecision, RetryTrace, Session
from sessions_app.models.tenants import Role
from sessions_app.selectors.peers import decisions_found
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from tests import factories
from tests.agent import Api
from tests.factories import policy, settle, start, submit, tip
from tests.invariants import check_all


@pytest.fixture
def at() -> Project:
    return factories.project("work", domain="acme")


@pytest.fixture
def member(at: Project) -> Any:
    return factories.user(project=at, role=Role.MAINTAINER)


@pytest.fixture
def root(at: Project) -> Session:
    """A chain of three attempts: one that the engine retried, and one retried by hand, ended."""
    root = submit(at, retry_policy=policy(max_retries=1))
    settle(start(root), exit_code=3, node="node-1")
    retries_dispatch()
    second = settle(start(tip(root)), exit_code=4)
    session_retry(second.pk, root.pk, by="ada")
    settle(start(tip(root)), exit_code=5)
    return root


@pytest.mark.django_db
def test_a_trace_stands_beside_its_decision(root: Session) -> None:
    decisions = list(RetryDecision.objects.select_related("written_trace"))
    assert len(decisions) == RetryTrace.objects.count() == 3
    with CaptureQueriesContext(connection) as queries:
        assert all(each.trace[-1]["step"] == "decision" for each in decisions)
    assert len(queries) == 0


@pytest.mark.django_db
def test_dispatch_does_not_write_it(root: Session) -> None:
    places = "SELECT ctid::text FROM sessions_app_retrytrace"
    again = submit(root.project, retry_policy=policy())
    settle(start(again))
    with connection.cursor() as cursor:
        cursor.execute(places)
        before = cursor.fetchall()
        assert retries_dispatch().dispatched == 1
        cursor.execute(places)
        assert cursor.fetchall() == before


@pytest.mark.django_db
def test_an_archived_decision_keeps_its_trace(root: Session, member: Any, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "session_retention": 1e-6, "event_retention": 0.0}
    api = Api(factories.token(member))
    path = f"sessions/{root.pk}/retry-decision/"
    before = api.read(path)
    assert prune().sessions == 3
    assert not RetryTrace.objects.exists()
    assert api.read(path) == before
    assert check_all() == []


@pytest.mark.django_db
def test_a_trace_goes_with_its_decision(root: Session) -> None:
    """Whoever deletes it: the ORM, or a statement."""
    first, second, third = Session.objects.filter(root=root).order_by("retry_count")
    RetryDecision.objects.filter(pk=third.pk).delete()
    assert set(RetryTrace.objects.values_list("pk", flat=True)) == {first.pk, second.pk}
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM sessions_app_retrydecision")
    assert not RetryTrace.objects.exists()


@pytest.mark.django_db
def test_many_traces_are_read_in_one_statement(at: Project) -> None:
    sessions = [submit(at) for _ in range(5)]
    for each in sessions:
        settle(start(each))
    with CaptureQueriesContext(connection) as queries:
        assert all(each is not None and each.trace for each in decisions_found(sessions))
    assert len(queries) == 1
