"""Cancel and manual retry of many chains at once: an outcome each, a fixed number of statements."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.engine.decide import Mode
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.core.states import RetryState, Status
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Project, Session
from sessions_app.services.chains.children import MANUAL
from sessions_app.services.chains.manual_retry import Granted, sessions_retry
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.services.sessions.cancel import chains_cancel
from tests import factories
from tests.audit import audited_acts
from tests.invariants import check_all


@pytest.fixture
def project() -> Project:
    return factories.project("work")


def failed(project: Project, **fields: Any) -> Session:
    return factories.settle(factories.start(factories.submit(project, **fields)))


def statements(act: object, *arguments: object) -> int:
    with CaptureQueriesContext(connection) as captured:
        act(*arguments, by="ann")  # type: ignore[operator]
    return len(captured)


def test_cancel_gives_each_chain_its_outcome(project: Project) -> None:
    pending = factories.submit(project)
    running = factories.start(factories.submit(project))
    waiting = failed(project, retry_policy=factories.policy(retry_delay=3600))
    over, unknown = failed(project), uuid4()

    outcomes = chains_cancel([pending.pk, running.pk, waiting.pk, over.pk, unknown], by="ann")

    assert [outcomes[s.pk] for s in (pending, running, waiting)] == [None, None, None]
    assert isinstance(outcomes[over.pk], Conflict)
    assert isinstance(outcomes[unknown], NotFound)
    for session in (pending, running, waiting, over):
        session.refresh_from_db()
    assert (pending.status, waiting.retry_state) == (Status.CANCELLED, RetryState.CANCELLED)
    assert over.retry_state == RetryState.NOT_RETRIED
    assert audited_acts().filter(action="session.cancel", actor="ann").count() == 3
    assert check_all() == []
    assert set(chains_cancel([pending.pk, waiting.pk], by="bob").values()) == {None}
    assert not audited_acts().filter(actor="bob").exists()


def test_retry_gives_each_session_its_outcome(project: Project) -> None:
    failures = [failed(project) for _ in range(3)]
    live = factories.submit(project)
    older = failures[2]
    sessions_retry({older.pk: older.pk}, by="ann")
    newer = Session.objects.get(parent=older)
    wanted = {s.pk: s.root_id for s in (*failures, live, newer)} | {uuid4(): uuid4()}

    outcomes = sessions_retry(wanted, by="ann")

    children = [outcomes[failures[0].pk], outcomes[failures[1].pk]]
    assert all(isinstance(child, Granted) and child.child_id for child in children)
    assert [type(outcome) for outcome in outcomes.values()][2:] == [
        Conflict,
        Conflict,
        Conflict,
        NotFound,
    ]
    assert Session.objects.get(parent=failures[0]).retry_counters == {MANUAL: 1}
    assert check_all() == []


def test_switched_off_projects_are_refused_and_the_others_not(project: Project) -> None:
    other = factories.project("other")
    retry_settings_put(ConfigScope(project=other), mode=Mode.OFF, global_max_retries=None, by="x")
    here, there = failed(project), failed(other)
    outcomes = sessions_retry({here.pk: here.pk, there.pk: there.pk}, by="ann")
    assert isinstance(outcomes[here.pk], Granted)
    assert isinstance(outcomes[there.pk], Conflict)


def test_many_take_as_many_statements_as_few(project: Project) -> None:
    def mixed(count: int) -> list[Session]:
        policy = factories.policy(retry_delay=3600)
        return [
            session
            for _ in range(count)
            for session in (
                factories.submit(project),
                failed(project, retry_policy=policy),
                failed(project),
            )
        ]

    few, many = (statements(chains_cancel, [s.pk for s in mixed(n)]) for n in (2, 20))
    assert many - few in {0, 1}  # many events are copied, beside all other rows
    few, many = (statements(sessions_retry, {s.pk: s.pk for s in mixed(n)}) for n in (2, 20))
    assert many - few in {0, 1}
