"""Columns that a dispatch leaves as they are tell indexes in which retry state a session stays."""

import pytest
from django.db import connection

from sessions_app.core.states import ENDED_STATES, RetryState, resting
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import API, Api


def failed(at: Project, **policy: object) -> Session:
    """A failed session whose retry is due at once."""
    session = factories.start(factories.submit(at, retry_policy=factories.policy(**policy)))
    return factories.settle(session, exit_code=1)


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


def test_a_dispatch_writes_to_no_index_of_the_failed_session() -> None:
    """No index contains a column that it changes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname FROM pg_indexes WHERE tablename = 'sessions_app_session' "
            "AND (indexdef ~ '\\mtip\\M' OR indexdef ~ '\\mretry_state\\M' "
            "OR indexdef ~ '\\mevent_seq\\M')"
        )
        assert cursor.fetchall() == []
