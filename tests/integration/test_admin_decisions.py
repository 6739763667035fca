"""Tests of how the pages of operators and of users show a decision that named policies made."""

from typing import Any

import pytest
from django.test import Client

from interfaces.templatetags.reprise import coded
from retry.policies.categories import FailureCategory
from sessions_app.models import Project, RetryDecision, RetryPolicy, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.resources.categories import category_create
from tests import factories
from tests.integration.admin import operator, queries, text_of, url

DECISION, SESSION = "sessions_app_retrydecision", "sessions_app_session"
OOM = {"reason": "OOMKilled", "exit_code": 137}
MORE = {
    "name": "more-memory",
    "action": "Retry",
    "onConditions": ["OOMKilled"],
    "retryLimit": 3,
    "antiAffinity": {"mode": "node"},
    "resources": {"memory": {"factor": 2}},
    "backoff": {"initialDelay": "0s"},
}


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("ml", domain="acme")


def out_of_memory(project: Project, **fields: Any) -> Session:
    """A session that ran out of memory, under the policy `grow`."""
    memory: dict[str, Any] = {
        "resources": {"memory": "2Gi", "cpu": "1"},
        "retry_policies": ["grow"],
    }
    session = factories.submit(project, **memory, **fields)
    return factories.settle(factories.start(session), **OOM)


def retried(session: Session) -> Session:
    retries_dispatch()
    return factories.tip(session)


@pytest.fixture
def failed(project: Project) -> Session:
    factories.named_policy("grow", project=project, rules=[MORE], retryLimit=9)
    factories.named_policy("grow", project=project, rules=[MORE])
    matchers = [{"onExitCodes": {"operator": "In", "values": [137]}}]
    document = FailureCategory.model_validate({"name": "too_small", "matchers": matchers})
    category_create(document, position=None, by="root")
    return out_of_memory(project)


def test_a_decision_shows_rule_revision_resources_node_and_category(
    client: Client, failed: Session
) -> None:
    page = client.get(url(DECISION, "change", failed.pk))
    text, policy = text_of(page), RetryPolicy.objects.get()
    assert "Rule grow/more-memory" in text
    assert "Failure category too_small" in text
    assert "Avoided node node-1" in text
    assert "Resources memory 2Gi → 4Gi" in text
    revision = url("sessions_app_retrypolicy", "revision", policy.pk, 2)
    assert f'<a href="{revision}">grow revision 2</a>' in page.content.decode()
    assert "grow/more-memory: 1 of 3" in text_of(client.get(url(DECISION)))


def test_a_sessions_page_shows_the_same(client: Client, failed: Session) -> None:
    child = retried(failed)
    text = text_of(client.get(url(SESSION, "change", failed.pk)))
    assert "category too_small" in text
    assert "Policies used: grow revision 2 ." in text
    assert "memory 2Gi → 4Gi" in text
    assert "Policies grow" in text
    assert "memory 2Gi → 4Gi" in text_of(client.get(url(SESSION, "change", child.pk)))


def test_what_holds_a_retry_is_shown_and_found(client: Client, project: Project) -> None:
    parked = factories.parked(project)
    asked: dict[str, Any] = {"retry_policy": factories.policy(retry_delay=3600)}
    waits, *others = (
        factories.settle(factories.start(factories.submit(project, **asked))) for _ in range(4)
    )
    key = f"project:{project.pk}"
    holds = [("breaker", f"{key}/0123456789ab"), ("shared_budget", key), ("switch", "")]
    for session, (kind, held_key) in zip(others, holds, strict=True):
        RetryDecision.objects.filter(pk=session.pk).update(
            state="held", held_for=kind, held_key=held_key
        )
    breaker, budget, switch = (each.pk for each in others)
    found = {
        kind: {
            row.pk
            for row in client.get(f"{url(DECISION)}?held_for={kind}").context["cl"].result_list
        }
        for kind in ("breaker", "shared_budget", "switch", "parked", "nonsense")
    }
    everything = {parked.pk, waits.pk, breaker, budget, switch}
    assert found == {
        "breaker": {breaker},
        "shared_budget": {budget},
        "switch": {switch},
        "parked": {parked.pk},
        "nonsense": everything,
    }
    rows = text_of(client.get(url(DECISION)))
    assert f"breaker: {key}/0123456789ab" in rows
    assert f"shared budget: {key}" in rows
    page = text_of(client.get(url(DECISION, "change", breaker)))
    assert f"Held for: breaker {key}/0123456789ab ." in page
    assert "Held for: switch." in text_of(client.get(url(DECISION, "change", switch)))
    assert "Held for: parked, until 2" in text_of(client.get(url(DECISION, "change", parked.pk)))
    assert "Held for" not in text_of(client.get(url(DECISION, "change", waits.pk)))


def test_a_refusal_is_told_in_words(client: Client, project: Project) -> None:
    session = factories.settle(factories.start(factories.submit(project)))
    text = text_of(client.get(url(DECISION, "change", session.pk)))
    assert "no retry: nobody asked for retries no_policy" in text


def test_commands_are_set_apart_and_nothing_is_run() -> None:
    assert coded("say `reprise get` & <b>") == "say <code>reprise get</code> &amp; &lt;b&gt;"
    assert coded("`<b>`") == "<code>&lt;b&gt;</code>"
    assert coded("one ` alone <b>") == "one ` alone &lt;b&gt;"


def test_the_author_and_the_slot_of_a_waiting_retry_are_shown(
    client: Client, failed: Session
) -> None:
    RetryDecision.objects.filter(pk=failed.pk).update(paced=True, requested_by="olga")
    text = text_of(client.get(url(DECISION, "change", failed.pk)))
    assert "requested by olga, delayed by the storm limits" in text


def test_a_policy_that_is_gone_is_named_without_a_link(client: Client, failed: Session) -> None:
    RetryPolicy.objects.all().delete()
    assert "grow revision 2 (deleted)" in text_of(client.get(url(DECISION, "change", failed.pk)))
    factories.named_policy("grow", retryLimit=1)
    factories.named_policy("grow", retryLimit=2)
    # Another policy has the name now, and a second revision, too.
    text = text_of(client.get(url(DECISION, "change", failed.pk)))
    assert "grow revision 2 (deleted)" in text


def test_pages_take_as_many_statements_for_a_longer_chain(client: Client, failed: Session) -> None:
    tip = retried(failed)
    addresses = [url(SESSION, "change", failed.pk), f"/sessions/{failed.pk}/"]
    few = [queries(client, address) for address in addresses]
    for _ in range(2):
        factories.settle(factories.start(tip), **OOM)
        tip = retried(failed)
    assert [queries(client, address) for address in addresses] == few


def test_users_see_rule_budget_category_and_memory(project: Project, failed: Session) -> None:
    child = retried(failed)
    client = Client()
    client.force_login(factories.user("mia", project=project))
    text = text_of(client.get(f"/sessions/{failed.pk}/"))
    for words in (
        "category too_small",
        "rule grow/more-memory",
        "next attempt: memory 2Gi → 4Gi",
        "avoids node node-1",
        "Policies grow",
    ):
        assert words in text
    text = text_of(client.get(f"/sessions/{child.pk}/"))
    assert "grow/more-memory 1 of 3" in text
    assert "memory 2Gi → 4Gi" in text


def test_the_reason_is_said_to_users_as_the_command_says_it(project: Project) -> None:
    client = Client()
    client.force_login(factories.user("mia", project=project))
    for policy, words in (
        ({}, "Not retried : nobody asked for retries"),
        ({"max_retries": 1, "retry_on_exit_codes": [9]}, "its policy does not retry after this"),
    ):
        session = factories.submit(project, retry_policy=policy)
        factories.settle(factories.start(session))
        assert words in text_of(client.get(f"/sessions/{session.pk}/"))
    session = factories.submit(project, retry_policy=factories.policy(max_retries=1))
    factories.settle(factories.start(session))
    retries_dispatch()
    last = factories.settle(factories.start(factories.tip(session)))
    for address in (f"/sessions/{last.pk}/", "/"):
        assert "Gave up : its retries are used up" in text_of(client.get(address))
