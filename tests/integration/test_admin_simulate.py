"""The form that tries a draft policy on the past of a project."""

from typing import Any

import pytest
from django.test import Client

from interfaces.admin import simulation
from interfaces.forms.policy_document import EXAMPLE
from sessions_app.models import (
    AuditLog,
    Project,
    RetryDecision,
    RetryPolicy,
    RetrySettings,
    Session,
)
from sessions_app.services.chains import simulate
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.integration.admin import errors_of, operator, queries, text_of, url

POLICY, PAGE = "sessions_app_retrypolicy", "/admin/sessions_app/retrypolicy/simulate/"
HEAD = "apiVersion: reprise/v1\nkind: RetryPolicy\nmetadata: {name: draft}\nspec:\n"
RETRY = HEAD + "  rules: [{name: code, action: Retry, onExitCodes: {operator: In, values: [1]}}]\n"
FAIL = RETRY.replace("Retry, on", "Fail, on")


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("ml", domain="acme")


def ask(client: Client, project: Project, text: str, days: int = 30) -> Any:
    return client.post(PAGE, {"text": text, "project": project.pk, "days": days})


def failed(project: Project, **fields: Any) -> Session:
    return factories.settle(factories.start(factories.submit(project, **fields)))


def everything() -> tuple[int, ...]:
    kinds: list[Any] = [Session, RetryDecision, RetryPolicy, AuditLog]
    return tuple(kind.objects.count() for kind in kinds)


def test_it_begins_with_the_example_or_with_a_policy_to_change(
    client: Client, project: Project
) -> None:
    assert client.get(PAGE).context["form"]["text"].value() == EXAMPLE
    policy = factories.named_policy("ml", project=project, retryLimit=4)
    page = client.get(f"{PAGE}?policy={policy.pk}")
    assert "retryLimit: 4" in page.context["form"]["text"].value()
    assert page.context["form"]["project"].value() == project.pk
    assert "starts as revision 1 of acme/ml/ml" in text_of(page)
    change = client.get(url(POLICY, "change", policy.pk)).content.decode()
    assert f'href="{PAGE}?policy={policy.pk}"' in change
    assert f'href="{PAGE}"' in client.get(url(POLICY)).content.decode()
    for junk in ("x", "999", "%00", "9" * 30):
        assert client.get(f"{PAGE}?policy={junk}").context["form"]["text"].value() == EXAMPLE


def test_it_tells_what_would_have_been_decided_and_changes_nothing(
    client: Client, project: Project
) -> None:
    first, second = failed(project), failed(project)
    failed(factories.project("other"))
    before = everything()
    page = ask(client, project, RETRY)
    result = page.context["result"]
    assert (result["chains"], result["retries"], result["added_attempts"]) == (2, 2, 2)
    assert result["by_rule"] == {"draft/code": 2}
    assert result["turns"] == [("not_retried", "retrying", 2)]
    text, markup = text_of(page), page.content.decode()
    assert "2 chains of acme/ml, submitted in the last 30 days. Nothing was changed." in text
    assert "2 not retried → retrying" in text
    assert "attempts added +2" in text
    for session in (first, second):
        assert f'href="{url("sessions_app_session", "change", session.pk)}"' in markup
    assert page.context["form"]["text"].value() == RETRY
    assert everything() == before


def test_it_tells_what_breakers_and_shared_budgets_would_have_done(
    client: Client, project: Project
) -> None:
    budget = {"ratio": 0, "burst": 0, "window": 60, "over": "postpone"}
    RetrySettings.objects.create(project=project, retry_budget=budget)
    failed(project)
    page = ask(client, project, RETRY)
    text = text_of(page)
    assert page.context["result"]["held"] == {"shared_budget": 1}
    assert "held by a shared budget 1 (" in text
    assert "retries spared 0" in text
    assert "storm limits are left out" in text


def test_it_counts_what_rules_of_the_cluster_count(client: Client, project: Project) -> None:
    budget = {"ratio": 0, "burst": 1, "window": 3600, "over": "postpone"}
    RetrySettings.objects.create(retry_budget=budget)
    other = factories.project("other", domain="void")
    failed(other, retry_policy=factories.policy())
    failed(project)
    page = ask(client, project, RETRY)
    assert "1 chain of acme/ml" in text_of(page)
    assert page.context["result"]["held"] == {"shared_budget": 1}
    assert "Rules of the cluster count the chains of all its projects" in text_of(page)


def test_savings_of_a_stricter_draft_have_their_sign(client: Client, project: Project) -> None:
    root = failed(project, retry_policy=factories.policy())
    retries_dispatch()
    factories.settle(factories.start(factories.tip(root)), exit_code=0, status="terminated")
    result = ask(client, project, FAIL).context["result"]
    assert (result["added"], result["added_run"][0]) == ("-1", "-")
    assert result["turns"] == [("succeeded", "not_retried", 1)]


def test_several_drafts_apply_in_their_order(client: Client, project: Project) -> None:
    failed(project)
    other = RETRY.replace("name: draft", "name: other")
    for text, rule in ((FAIL + "---\n" + other, {}), (other + "---\r\n" + FAIL, {"other/code": 1})):
        assert ask(client, project, text).context["result"]["by_rule"] == rule
    page = ask(client, project, FAIL + "---\n" + FAIL)
    assert errors_of(page) == {"text": ["Two documents have the name draft."]}
    for text in ("---\n", "\n---\n".join([RETRY] * 17)):
        assert errors_of(ask(client, project, text)) == {"text": ["Give 1 to 16 documents."]}


@pytest.mark.parametrize(
    ("sent", "field", "message"),
    [
        ({"text": HEAD + "  retryLimt: 1"}, "text", "spec.retryLimt (line 5): is not a known"),
        ({"text": ""}, "text", "This field is required."),
        ({"project": ""}, "project", "This field is required."),
        ({"project": "x"}, "project", "Select a valid choice."),
        ({"days": "3650"}, "days", "Select a valid choice."),
    ],
)
def test_errors_stand_at_their_fields(
    client: Client, project: Project, sent: dict[str, str], field: str, message: str
) -> None:
    page = client.post(PAGE, {"text": RETRY, "project": project.pk, "days": "7", **sent})
    (refusal,) = errors_of(page)[field]
    assert refusal.startswith(message)
    assert "result" not in page.context


def test_too_long_a_past_is_refused_with_what_to_do(
    client: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed(project)
    failed(project)
    monkeypatch.setattr(simulate, "MAX_TERMINATIONS", 1)
    (error,) = errors_of(ask(client, project, RETRY))["days"]
    assert error.startswith("Too much for one call: choose fewer days.")


def test_only_some_changed_chains_are_listed(
    client: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        failed(project)
    monkeypatch.setattr(simulation, "CHAINS", 2)
    page = ask(client, project, RETRY)
    assert "The first 2." in text_of(page)
    assert page.content.decode().count(url("sessions_app_session", "change", "x")[:-9]) >= 2
    assert "chains with another outcome 3" in text_of(page)


def test_only_cluster_admins_simulate_here(project: Project) -> None:
    client = Client()
    client.force_login(factories.user("mia", project=project))
    for response in (client.get(PAGE), ask(client, project, RETRY)):
        assert response["Location"].startswith("/admin/login/")


def test_the_page_takes_as_many_statements_for_many_policies(
    client: Client, project: Project
) -> None:
    policy = factories.named_policy("ml", project=project)
    address = f"{PAGE}?policy={policy.pk}"
    few = queries(client, address)
    for _ in range(10):
        factories.named_policy(project=factories.project())
    assert queries(client, address) == few
