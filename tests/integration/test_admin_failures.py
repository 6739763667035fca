"""Failures, breakers and shared budgets in the admin."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sessions_app.locks import database_now
from sessions_app.models import Breaker, FailureSignature, Project, RetryBudgetMinute, Session
from tests import factories
from tests.audit import audited_acts
from tests.integration.admin import errors_of, messages_of, operator, queries, text_of, url

FAILURES, BREAKERS = "sessions_app_failuresignature", "sessions_app_breaker"
KEY = "0123456789ab"


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("work", domain="acme")


def failed(project: Project) -> Session:
    return factories.settle(factories.start(factories.submit(project)), exit_code=3)


def listed(client: Client, query: str = "") -> set[Any]:
    return {row.pk for row in client.get(url(FAILURES) + query).context["cl"].result_list}


def choose(client: Client, kind: str, action: str, *chosen: Any) -> Any:
    sent = {"action": action, "_selected_action": [each.pk for each in chosen]}
    return client.post(url(kind), sent, follow=True)


def switch_page(client: Client, query: str) -> Any:
    return client.get(f"{url('sessions_app_retrysettings', 'add')}?{query}", follow=True)


def acts(kind: str) -> list[tuple[str, str]]:
    found = audited_acts().filter(object_type=kind, actor="root").order_by("pk")
    return [(each.action, each.object_id) for each in found]


def test_a_failure_leads_to_its_sessions_and_to_its_page(client: Client, project: Project) -> None:
    session = failed(project)
    failure = factories.failure(session, title="<script>alert(1)</script>", recovered_chains=1)
    for address in (url(FAILURES), url(FAILURES, "change", failure.pk)):
        page = client.get(address)
        assert "kernel nonzero exit" in text_of(page)
        markup = page.content.decode()
        assert "<script>alert(1)" not in markup
        assert f'href="/projects/acme/work/failures/{failure.key}/"' in markup
        own = f"?signature={failure.key}&amp;project__id__exact={project.pk}"
        assert f'href="{url("sessions_app_session")}{own}"' in markup
    sessions = client.get(f"{url('sessions_app_session')}{own.replace('&amp;', '&')}")
    assert [row.pk for row in sessions.context["cl"].result_list] == [session.pk]
    assert url("sessions_app_session", "change", session.pk) in markup


def test_failures_are_found_by_key_cause_project_and_muting(
    client: Client, project: Project
) -> None:
    far = factories.project("far", domain="globex")
    first = factories.failure(failed(project), key=KEY)
    second = factories.failure(failed(project), key="fedcba987654", muted=True)
    third = factories.failure(failed(far), key=KEY, cause="oom_killed")
    other = factories.failure(failed(far), key="other")
    everything = {first.pk, second.pk, third.pk, other.pk}
    cases = {
        "": everything,
        f"?q={KEY}": {first.pk, third.pk},
        "?q=FEDCB": {second.pk},
        "?q=f": {second.pk},
        "?q=other": {other.pk},
        "?q=zzz": set(),
        f"?q={KEY}0": set(),
        "?retry_cause=oom_killed": {third.pk},
        "?retry_cause=nonsense": everything,
        "?muted__exact=1": {second.pk},
        f"?project__id__exact={far.pk}&q=0": {third.pk},
    }
    assert {query: listed(client, query) for query in cases} == cases


def test_failures_are_muted_and_heard_again(client: Client, project: Project) -> None:
    first, second = (factories.failure(failed(project), key=key) for key in (KEY, "0" * 12))
    assert messages_of(choose(client, FAILURES, "mute", first)) == ["1 failure is muted."]
    assert messages_of(choose(client, FAILURES, "mute", first, second)) == ["1 failure is muted."]
    assert FailureSignature.objects.filter(muted=True).count() == 2
    page = choose(client, FAILURES, "unmute", first, second)
    assert messages_of(page) == ["2 failures are no longer muted."]
    assert not FailureSignature.objects.filter(muted=True).exists()
    muted = [("failure.mute", KEY), ("failure.mute", "0" * 12)]
    assert acts("failure")[:2] == muted
    assert sorted(acts("failure")[2:]) == [("failure.unmute", "0" * 12), ("failure.unmute", KEY)]
    history = client.get(url(FAILURES, "history", first.pk), follow=True)
    assert len(history.context["cl"].result_list) == 2


@pytest.mark.parametrize("action", ["mute", "unmute"])
@pytest.mark.parametrize("kind", [FAILURES, BREAKERS])
def test_muting_many_takes_a_fixed_number_of_statements(
    client: Client, project: Project, kind: str, action: str
) -> None:
    session, muted = failed(project), action == "unmute"

    def cost(count: int) -> int:
        keys = [f"{count:06x}{number:06x}" for number in range(count)]
        chosen: list[Any] = [factories.failure(session, key=key, muted=muted) for key in keys]
        if kind == BREAKERS:
            chosen = [factories.breaker(project, signature=key) for key in keys]
            Breaker.objects.update(muted=muted)
        with CaptureQueriesContext(connection) as captured:
            choose(client, kind, action, *chosen)
        assert type(chosen[0]).objects.exclude(muted=muted).count() >= count
        return len(captured)

    cost(1)
    assert cost(20) == cost(2)


def test_an_operator_opens_a_breaker_of_any_scope(client: Client, project: Project) -> None:
    queue = factories.queue(project, "batch")
    scopes: list[tuple[dict[str, Any], str]] = [
        ({}, "cluster"),
        ({"project": project.pk}, "acme/work"),
        ({"queue": queue.pk}, "acme/work/batch"),
    ]
    for scope, address in scopes:
        sent = {"signature": KEY, "reason": "it is down", **scope}
        page = client.post(url(BREAKERS, "add"), sent, follow=True)
        assert page.status_code == 200
        (made,) = [each for each in Breaker.objects.all() if each.address == address]
        assert (made.state, made.opened_by, made.reason) == ("open", "root", "it is down")
        assert made.probe_at is not None
        again = client.post(url(BREAKERS, "add"), sent, follow=True)
        assert messages_of(again) == [f"Conflict: the breaker of {KEY} is open already."]
        history = client.get(url(BREAKERS, "history", made.pk), follow=True)
        assert [row.action for row in history.context["cl"].result_list] == ["breaker.open"]
    assert [verb for verb, _ in acts("breaker")] == ["breaker.open"] * 3


def test_a_failure_that_can_have_no_breaker_is_refused(client: Client, project: Project) -> None:
    lost = factories.failure(failed(project), key=KEY, cause="agent_transient")
    said = "Conflict: this failure can have no breaker: "
    for scope in ({}, {"project": project.pk}):
        page = client.post(url(BREAKERS, "add"), {"signature": KEY, **scope}, follow=True)
        assert messages_of(page)[0].startswith(f"{said}its cause is agent_transient, ")
    FailureSignature.objects.filter(pk=lost.pk).update(cause="kernel_nonzero_exit", muted=True)
    sent = {"signature": KEY, "project": project.pk}
    page = client.post(url(BREAKERS, "add"), sent, follow=True)
    assert messages_of(page) == [f"{said}the project has muted it."]
    assert not Breaker.objects.exists()


def test_a_breaker_that_makes_no_sense_is_refused_at_its_field(
    client: Client, project: Project
) -> None:
    far = factories.queue(factories.project("far", domain="globex"), "batch")
    for sent, field in (
        ({}, "signature"),
        ({"signature": "other"}, "signature"),
        ({"signature": f"{KEY}0"}, "signature"),
        ({"signature": KEY, "reason": "x" * 257}, "reason"),
        ({"signature": KEY, "reason": "a\x1bb"}, "reason"),
        ({"signature": KEY, "project": "999"}, "project"),
        ({"signature": KEY, "project": "x", "queue": far.pk}, "project"),
        ({"signature": KEY, "project": project.pk, "queue": far.pk}, "queue"),
    ):
        assert list(errors_of(client.post(url(BREAKERS, "add"), sent))) == [field], sent
    assert not Breaker.objects.exists()


def test_breakers_are_closed_muted_and_heard_again(client: Client, project: Project) -> None:
    breaker = factories.breaker(project)
    assert messages_of(choose(client, BREAKERS, "mute", breaker)) == ["1 breaker is muted."]
    breaker.refresh_from_db()
    assert (breaker.state, breaker.muted) == ("open", True)
    choose(client, BREAKERS, "close", breaker)
    breaker.refresh_from_db()
    assert (breaker.state, breaker.muted, breaker.closed_by) == ("closed", True, "root")
    assert messages_of(choose(client, BREAKERS, "unmute", breaker)) == [
        "1 breaker is no longer muted."
    ]
    assert messages_of(choose(client, BREAKERS, "unmute", breaker)) == [
        "0 breakers are no longer muted."
    ]
    breaker.refresh_from_db()
    assert (breaker.state, breaker.muted) == ("closed", False)
    key = str(breaker.pk)
    verbs = ("breaker.mute", "breaker.close", "breaker.unmute")
    assert acts("breaker") == [(verb, key) for verb in verbs]


@pytest.mark.parametrize("scope", ["cluster", "domain", "project", "queue"])
def test_a_shared_budget_shows_how_it_stands(client: Client, project: Project, scope: str) -> None:
    queue = factories.queue(project, "batch")
    budget = '{"ratio": 0.5, "burst": 3, "window": 3600}'
    if scope == "queue":
        page, key = url("sessions_app_queue", "change", queue.pk), f"queue:{queue.pk}"
        type(queue).objects.filter(pk=queue.pk).update(retry_budget={"burst": 3, "ratio": 0.5})
    else:
        of = {"cluster": "1", "domain": project.domain.pk, "project": project.pk}[scope]
        page = f"{url('sessions_app_retrysettings', 'add')}?{scope}={of}"
        key = "cluster" if scope == "cluster" else f"{scope}:{of}"
        assert 'id="budget"' not in client.get(page, follow=True).content.decode()
        client.post(page, {"mode": "on", "retry_budget": budget})
    now = database_now()
    RetryBudgetMinute.objects.create(scope=key, minute=now, first_attempts=9, retries=5)
    text = text_of(client.get(page, follow=True))
    assert "5 of 7 allowed" in text
    assert "first attempts 9" in text
    assert "left 2" in text
    assert "spent no" in text


def test_a_spent_budget_says_since_when(client: Client, project: Project) -> None:
    factories.spent_budget(project)
    page = client.get(
        f"{url('sessions_app_retrysettings', 'add')}?project={project.pk}", follow=True
    )
    assert "0 of 0 allowed" in text_of(page)
    assert re.search(r"spent (just now|\d+ (s|min) ago)", text_of(page))


def test_a_budgets_standing_takes_as_many_statements_for_many_held(
    client: Client, project: Project
) -> None:
    factories.spent_budget(project)
    page = switch_page(client, f"project={project.pk}").request["PATH_INFO"]
    few = queries(client, page)
    key = f"project:{project.pk}"
    for _ in range(3):
        session = failed(project)
        row = factories.decision(session)
        row.state, row.held_for, row.held_key = "held", "shared_budget", key
        row.save()
    assert queries(client, page) == few
    assert "held retries 3" in text_of(client.get(page))


def test_a_project_leads_to_what_its_retries_were_worth(client: Client, project: Project) -> None:
    for address in (
        url("sessions_app_project"),
        url("sessions_app_project", "change", project.pk),
    ):
        assert 'href="/projects/acme/work/worth/"' in client.get(address).content.decode()
