"""Columns that a dispatch leaves as they are tell indexes in which retry state a session stays."""

from importlib import import_module
from unittest.mock import patch

import pytest
from django.db import connection

from sessions_app.core.states import ENDED_STATES, RetryState, resting
from sessions_app.models import Project, RetryDecision, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import API, Api

migration = import_module("sessions_app.migrations.0031_resting_filled")


def failed(at: Project, **policy: object) -> Session:
    """A failed session whose retry is due at once."""
    session = factories.start(factories.submit(at, retry_policy=factories.policy(**policy)))
    return factories.settle(session, exit_code=1)


def as_the_release_before_writes(session: Session, state: str) -> None:
    """It does not know the new columns."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE sessions_app_session SET retry_state = %s WHERE id = %s", [state, session.pk]
        )


def found(api: Api, state: str) -> set[str]:
    listed = api.read(f"sessions/?retry_state={state}")
    return {each["id"] for each in listed["results"]}


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user(project=at)))


@pytest.mark.parametrize("state", list(RetryState))
def test_a_session_rests_in_the_states_that_last(state: RetryState) -> None:
    lasts = {*ENDED_STATES, RetryState.HELD, RetryState.PARKED}
    assert resting(state) == (state.value if state in lasts else "")


def test_lists_follow_a_chain_through_its_retry_states(at: Project, api: Api) -> None:
    session = failed(at)
    assert found(api, "scheduled") == {str(session.pk)}
    assert found(api, "retried") == set()
    retries_dispatch()
    assert found(api, "scheduled") == set()
    assert found(api, "retried") == {str(session.pk)}
    child = factories.settle(factories.start(factories.tip(session)), status="terminated")
    assert found(api, "succeeded") == {str(child.pk)}
    assert found(api, "retried") == {str(session.pk)}


def test_scheduled_retries_are_read_page_by_page(at: Project, api: Api) -> None:
    ids = sorted((str(failed(at).pk) for _ in range(5)), reverse=True)
    for ordering, expected in (("-created_at", ids), ("created_at", ids[::-1])):
        path = f"sessions/?retry_state=scheduled&page_size=2&ordering={ordering}"
        read: list[str] = []
        while path:
            page = api.read(path)
            read += [each["id"] for each in page["results"]]
            path = (page["next"] or "").partition(API)[2]
        assert read == expected


@pytest.mark.parametrize("state", [*ENDED_STATES, RetryState.HELD])
def test_a_server_of_the_release_before_may_write_a_retry_state(
    at: Project, api: Api, state: RetryState
) -> None:
    session = failed(at)
    as_the_release_before_writes(session, state)
    session.refresh_from_db()
    assert session.resting == state
    assert found(api, state) == {str(session.pk)}
    as_the_release_before_writes(session, "scheduled")
    session.refresh_from_db()
    assert session.resting == ""


def test_a_server_of_the_release_before_may_write_a_decision(at: Project, api: Api) -> None:
    session = failed(at)
    decision = RetryDecision.objects.filter(session=session)
    values = dict(decision.values().get())
    decision.delete()
    RetryDecision.objects.create(**values | {"project_id": None})
    assert found(api, "scheduled") == {str(session.pk)}


def test_the_migration_fills_the_columns_in_slices(at: Project, api: Api) -> None:
    ended = {str(failed(at, max_retries=0).pk) for _ in range(5)}
    waiting = {str(failed(at).pk) for _ in range(5)}
    with connection.cursor() as cursor:
        cursor.execute("UPDATE sessions_app_session SET resting = ''")
        cursor.execute("UPDATE sessions_app_retrydecision SET project_id = NULL")
    assert found(api, "scheduled") == set()
    with patch.object(migration, "SLICE", 2):
        migration.fill(None, connection.schema_editor())
    assert set(Session.objects.values_list("resting", flat=True)) == {"", "not_retried"}
    assert found(api, "not_retried") == ended
    assert found(api, "scheduled") == waiting


def test_a_dispatch_writes_to_no_index_of_the_failed_session() -> None:
    """No index contains a column that it changes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname FROM pg_indexes WHERE tablename = 'sessions_app_session' "
            "AND (indexdef ~ '\\mtip\\M' OR indexdef ~ '\\mretry_state\\M' "
            "OR indexdef ~ '\\mevent_seq\\M')"
        )
        assert cursor.fetchall() == []
