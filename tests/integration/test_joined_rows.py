"""Tests that our own statements read what the ORM would have made."""

from typing import Any

import pytest

from sessions_app.db.joined_rows import JoinedRows, Part
from sessions_app.models import Domain, Project, RetryDecision, Session
from tests import factories

READ = JoinedRows(
    """
    SELECT {columns} FROM sessions_app_session s
    JOIN sessions_app_project p ON p.id = s.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    LEFT JOIN sessions_app_retrydecision r ON r.session_id = s.id
    ORDER BY s.id
    """,
    (
        Part(Session, "s"),
        Part(Project, "p", "project"),
        Part(Domain, "d", "project.domain"),
        Part(RetryDecision, "r", "decision", back="session"),
    ),
)


def insides(made: Any) -> Any:
    """All that is in an instance, and in those that it refers to; a reference back is cut."""
    if made is None:
        return None
    state = made._state
    plain = {name: value for name, value in vars(made).items() if name != "_state"}
    cached = {
        name: each.pk if name == "session" else insides(each)
        for name, each in state.fields_cache.items()
    }
    return type(made), plain, state.adding, state.db, cached


def test_instances_are_as_the_orm_makes_them(at: Project, django_assert_num_queries: Any) -> None:
    factories.settle(factories.submit(at, retry_policy=factories.policy(max_retries=1)))
    factories.submit(at)
    related = ("project__domain", "decision")
    expected = list(Session.objects.select_related(*related).order_by("id"))
    found = READ.read([])
    assert [insides(each) for each in found] == [insides(each) for each in expected]
    assert {each.project.domain.name for each in found} == {at.domain.name}
    with django_assert_num_queries(0):
        assert found[0].decision.session is found[0]
        with pytest.raises(RetryDecision.DoesNotExist):
            _ = found[1].decision


def test_deferred_columns_are_read_on_access(at: Project) -> None:
    factories.submit(at)
    read = JoinedRows(
        "SELECT {columns} FROM sessions_app_session s", (Part(Session, "s", without="node"),)
    )
    (found,) = read.read([])
    assert isinstance(found, Session)
    assert found.get_deferred_fields() == {"node"}
    assert found.node == ""
