"""What held a retry after its decision stands in the trace, and in its explanation, for good."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from retry.engine.decision import SHARED_BUDGET, SWITCH
from sessions_app.locks import database_now
from sessions_app.models import Breaker, Project, RetryDecision, RetrySettings, Session
from sessions_app.services.breakers.sweep import breakers_sweep
from sessions_app.services.chains.breaker_holds import breaker_held_resume
from sessions_app.services.chains.decisions import Hold, decisions_hold
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.over_budget import over_budget_resume
from sessions_app.services.chains.switch_holds import held_resume
from tests import factories
from tests.agent import Api
from tests.graphs import Graph
from tests.integration.test_breakers import asked, chains
from tests.integration.test_shared_budgets import budget, failed
from tests.invariants import check_all

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root_api() -> Api:
    return Api(factories.token(factories.user("root", superuser=True)))


def told(api: Api, session: Session) -> dict[str, Any]:
    found: dict[str, Any] = api.read(f"sessions/{session.pk}/retry-decision/")
    return found


def holds(decision: dict[str, Any]) -> list[str]:
    """Return the names of the steps that came after the decision."""
    return [step["step"] for step in decision["trace"] if "at" in step]


def switch(at: Project, mode: str) -> None:
    RetrySettings.objects.update_or_create(project=at, domain=None, defaults={"mode": mode})


def test_a_shared_budget_is_told_while_it_holds_and_afterwards(
    at: Project, owner: User, root_api: Api
) -> None:
    budget(at)
    (session,) = failed(at, owner, 1)
    retries_dispatch()
    waiting = told(root_api, session)
    assert [step["step"] for step in waiting["trace"][-2:]] == ["shared_budget", "decision"]
    step = waiting["trace"][-2]
    assert (step["scope"], step["result"]) == ("project", "held")
    *_, outcome, held = waiting["explanation"]
    assert outcome == "The retry is held until the shared retry budget of its project has room."
    assert held.startswith("At 20")
    assert held.endswith(
        " it was held: the retry budget that all chains of its project share was spent."
    )

    budget(at, burst=1)
    assert (over_budget_resume(), retries_dispatch().dispatched) == (1, 1)
    assert check_all() == []
    RetryDecision.objects.update(dispatched_at=F("dispatched_at") + timedelta(hours=3))
    after = told(root_api, session)
    assert held in after["explanation"]
    late = r"The next attempt was made at 20.* UTC, 3 h.* later\."
    assert re.fullmatch(late, after["explanation"][-1])


def test_what_holds_it_again_is_told_once(at: Project, owner: User, root_api: Api) -> None:
    budget(at)
    (session,) = failed(at, owner, 1)
    for _ in range(3):
        retries_dispatch()
        RetryDecision.objects.update(state="scheduled", held_for="", held_key="")
    retries_dispatch()
    assert holds(told(root_api, session)) == ["shared_budget"]


def test_of_holds_in_turns_the_first_ones_are_told(at: Project, owner: User, root_api: Api) -> None:
    budget(at)
    (session,) = failed(at, owner, 1)
    holds_in_turns = [Hold(session.pk, SWITCH), Hold(session.pk, SHARED_BUDGET, "cluster")]
    for _ in range(15):
        for hold in holds_in_turns:
            decisions_hold([hold], now=database_now())
    assert holds(told(root_api, session)) == ["switch", "shared_budget"] * 10


def test_a_breaker_that_opens_later_and_a_switch_after_it_are_told(
    at: Project, root_api: Api
) -> None:
    asked(at)
    session, *_ = chains(at, 3)
    breakers_sweep()
    retries_dispatch()
    switch(at, "paused")
    Breaker.objects.update(state="closed")
    assert breaker_held_resume() == 3
    decision = told(root_api, session)
    assert holds(decision) == ["breaker", "switch"]
    breaker, paused = decision["explanation"][-2:]
    words = f"the breaker of its signature, {session_signature(session)}, was open."
    assert breaker.endswith(words)
    assert paused.endswith("retries were off or paused.")
    switch(at, "on")
    assert held_resume() == 3
    assert retries_dispatch().dispatched == 3
    assert holds(told(root_api, session)) == ["breaker", "switch"]
    assert check_all() == []


def session_signature(session: Session) -> str:
    return Session.objects.get(pk=session.pk).failure_signature


def test_graphql_and_the_page_tell_it(at: Project, owner: User, graph: Graph, client: Any) -> None:
    budget(at)
    (session,) = failed(at, owner, 1)
    retries_dispatch()
    read = graph.ask(
        "query($id: ID!) { session(id: $id) { retryDecision { explanation trace } } }",
        id=str(session.pk),
    )
    said = "the retry budget that all chains of its project share was spent."
    assert read["session"]["retryDecision"]["explanation"][-1].endswith(said)
    client.force_login(User.objects.get(username="root"))
    assert said in client.get(f"/sessions/{session.pk}/").content.decode()


def test_a_batch_of_holds_is_a_fixed_number_of_statements(at: Project, owner: User) -> None:
    budget(at)
    counts = []
    for number in (20, 40):
        failed(at, owner, number)
        with CaptureQueriesContext(connection) as queries:
            assert retries_dispatch().held == number
        counts.append(len(queries))
    assert counts[0] == counts[1]
