"""Retry defaults, bounds and switches through the admin."""

import json
from typing import Any

import pytest
from django.test import Client

from retry.policies.inline import InlinePolicy
from sessions_app.models import Project, RetryDefaults, RetrySettings
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.switch_holds import held_resume
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.integration.admin import errors_of, messages_of, operator, text_of, url

DEFAULTS, SETTINGS = "sessions_app_retrydefaults", "sessions_app_retrysettings"


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("work", domain="acme")


def where(**scope: int) -> str:
    return "?" + "&".join(f"{level}={key}" for level, key in scope.items())


def setting(**fields: Any) -> dict[str, Any]:
    """Return what the form sends when these fields are set here."""
    return fields | {f"set_{name}": "on" for name in fields}


def put(client: Client, scope: str, **sent: Any) -> Any:
    return client.post(url(DEFAULTS, "add") + scope, sent)


def lines(page: Any) -> dict[str, tuple[str, str, str]]:
    return {line.name: (line.effective, line.layer, line.bound) for line in page.context["policy"]}


def rest(scope: str) -> Any:
    root = factories.user("rest", superuser=True)
    return Api(factories.token(root)).read(f"retry-defaults/{scope}/?effective=true")


def test_each_field_shows_what_is_in_effect_and_which_layer_says_so(
    client: Client, project: Project
) -> None:
    put(client, "?cluster=1", **setting(max_retries="2", retry_delay="30"), bound_max_retries="9")
    put(client, where(domain=project.domain.pk), **setting(retry_delay="45"))
    put(client, where(project=project.pk), **setting(backoff="exponential"), bound_max_retries="5")
    page = client.get(url(DEFAULTS, "add") + where(project=project.pk), follow=True)
    shown = lines(page)
    assert set(shown) == set(InlinePolicy.model_fields)
    assert shown["max_retries"] == ("2", "cluster", "at most 5 (project)")
    assert shown["retry_delay"] == ("45", "domain", "")
    assert shown["backoff"] == ("exponential", "project", "")
    assert shown["jitter"] == ("deterministic", "shipped", "")
    effective = rest("projects/acme/work")["effective"]
    assert {name: layer for name, (_, layer, _) in shown.items()} == {
        name: each["layer"] for name, each in effective.items()
    }


def test_the_form_stores_the_same_as_rest(client: Client, project: Project) -> None:
    sent = setting(
        max_retries="4",
        max_preemption_retries="",
        retry_delay="1.5",
        backoff="exponential",
        max_retry_delay="",
        jitter="none",
        jitter_ratio="0",
        eligible_causes=["evicted", "oom_killed"],
        retry_on_exit_codes="75, 137 75",
        no_retry_on_exit_codes="",
        emit_retry_events="false",
    )
    bounds = {"bound_min_retry_delay": "0.5", "bound_max_chain_duration": "600"}
    assert put(client, where(project=project.pk), **sent, **bounds).status_code == 302
    row = RetryDefaults.objects.get()
    assert row.policy == {
        "max_retries": 4,
        "max_preemption_retries": None,
        "retry_delay": 1.5,
        "backoff": "exponential",
        "max_retry_delay": None,
        "jitter": "none",
        "jitter_ratio": 0.0,
        "eligible_causes": ["evicted", "oom_killed"],
        "retry_on_exit_codes": [75, 137],
        "no_retry_on_exit_codes": [],
        "emit_retry_events": False,
    }
    assert row.bounds == {"min_retry_delay": 0.5, "max_chain_duration": 600.0}
    again = client.get(url(DEFAULTS, "change", row.pk)).context["form"]
    stored = {name: again[name].value() for name in again.fields if again[name].value()}
    assert client.post(url(DEFAULTS, "change", row.pk), stored).status_code == 302
    row.refresh_from_db()
    assert row.policy["eligible_causes"] == ["evicted", "oom_killed"]
    assert row.policy["max_retry_delay"] is None
    (first,) = audited_acts().filter(object_id="acme/work").order_by("pk")[:1]
    assert (first.actor, first.action) == ("root", "retry_defaults.create")
    assert first.data["before"] == {}
    assert first.data["after"]["policy"]["max_retries"] == 4


def test_limits_are_numbers_or_a_word(client: Client, project: Project) -> None:
    sent = setting(max_retries="unlimited", max_preemption_retries="7")
    assert put(client, where(project=project.pk), **sent).status_code == 302
    row = RetryDefaults.objects.get()
    assert row.policy == {"max_retries": "unlimited", "max_preemption_retries": 7}
    page = client.get(url(DEFAULTS, "change", row.pk))
    shown = page.context["form"]["max_retries"]
    assert (shown.value(), 'inputmode="text"' in str(shown)) == ("unlimited", True)
    assert "maximum number of retries after failures, or unlimited" in text_of(page)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", "-1"), ("max_retries", "x"), ("max_retries", ""), ("max_retries", "1.5"),
        ("max_retries", "1000001"), ("max_retries", "9" * 400), ("retry_delay", "0"),
        ("retry_delay", "nan"), ("retry_delay", "1e999"), ("retry_delay", ""),
        ("backoff", "cubic"), ("backoff", ""), ("jitter", "\x00"), ("jitter_ratio", "1.1"),
        ("eligible_causes", "user_cancelled"), ("eligible_causes", "nonsense"),
        ("retry_on_exit_codes", "0"), ("retry_on_exit_codes", "256"),
        ("retry_on_exit_codes", "x" * 3000), ("no_retry_on_exit_codes", "1 two"),
        ("max_chain_duration", "-5"), ("emit_retry_events", "perhaps"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_at_its_field(
    client: Client, project: Project, field: str, value: str
) -> None:
    page = put(client, where(project=project.pk), **setting(**{field: value}))
    assert list(errors_of(page)) == [field]
    assert not RetryDefaults.objects.exists()
    assert not audited_acts().exists()


@pytest.mark.parametrize("field", ["max_retries", "max_chain_duration", "min_retry_delay"])
def test_a_bad_bound_is_refused_at_its_field(client: Client, field: str) -> None:
    page = put(client, "?cluster=1", **{f"bound_{field}": "-3"})
    assert list(errors_of(page)) == [f"bound_{field}"]


def test_a_value_over_a_bound_of_the_cluster_is_refused_in_the_words_of_rest(
    client: Client, project: Project
) -> None:
    put(client, "?cluster=1", bound_max_retries="3", bound_min_retry_delay="10")
    page = put(client, where(project=project.pk), **setting(max_retries="4", retry_delay="5"))
    assert errors_of(page) == {
        "max_retries": ["max_retries is 4, over the bound of 3 set by cluster"],
        "retry_delay": ["retry_delay is 5, under the bound min_retry_delay of 10 set by cluster"],
    }
    assert "over the bound of 3 set by cluster" in text_of(page)
    assert RetryDefaults.objects.count() == 1


def test_a_field_is_inherited_when_its_box_is_emptied_and_never_by_mistake(
    client: Client, project: Project
) -> None:
    scope = where(project=project.pk)
    page = put(client, scope, max_retries="7", **setting(retry_delay="9"))
    assert errors_of(page) == {
        "max_retries": ["Tick the box beside it, or leave it empty to inherit."]
    }
    put(client, scope, **setting(max_retries="7", retry_delay="9"))
    put(client, scope, max_retries="7", **setting(retry_delay="9"))
    assert RetryDefaults.objects.get().policy == {"retry_delay": 9.0}


def test_deleting_inherits_everything_again_and_is_audited(
    client: Client, project: Project
) -> None:
    put(client, where(project=project.pk), **setting(max_retries="7"))
    row = RetryDefaults.objects.get()
    client.post(url(DEFAULTS, "delete", row.pk), {"post": "yes"})
    assert not RetryDefaults.objects.exists()
    entry = audited_acts().latest("pk")
    assert entry.action == "retry_defaults.delete"
    assert entry.data["before"]["policy"] == {"max_retries": 7}


@pytest.mark.parametrize("kind", [DEFAULTS, SETTINGS])
@pytest.mark.parametrize("scope", ["", "?domain=99", "?project=x", "?project=" + "9" * 30])
def test_an_operator_is_asked_for_the_scope(client: Client, kind: str, scope: str) -> None:
    page = client.get(url(kind, "add") + scope)
    assert page.status_code == 200
    assert "The whole cluster" in text_of(page)
    assert [*messages_of(page)] == (["There is no such domain or project."] if scope else [])


def switch(client: Client, scope: str, **sent: Any) -> Any:
    return client.post(url(SETTINGS, "add") + scope, sent)


def waiting(project: Project, count: int) -> None:
    for _ in range(count):
        policy = factories.policy(retry_delay=3600)
        factories.settle(factories.start(factories.submit(project, retry_policy=policy)))


def test_moving_a_switch_is_asked_twice_and_says_how_many_wait(
    client: Client, project: Project
) -> None:
    other = factories.project("other", domain="elsewhere")
    waiting(project, 3)
    waiting(other, 2)
    for scope, count in (
        ("?cluster=1", 5),
        (where(domain=project.domain.pk), 3),
        (where(project=other.pk), 2),
    ):
        page = switch(client, scope, mode="off")
        assert page.context["waiting"].scheduled.value == count
        assert f"{count} scheduled retries will be held when due" in text_of(page)
    assert not RetrySettings.objects.exists()
    assert not audited_acts().exists()

    done = switch(client, where(project=other.pk), mode="off", confirmed="on to off")
    assert done.status_code == 302
    entry = audited_acts().latest("pk")
    assert (entry.actor, entry.object_id) == ("root", "elsewhere/other")
    assert (entry.data["before"], entry.data["after"]["mode"]) == ({}, "off")


def test_a_confirmation_is_good_for_its_own_move_only(client: Client) -> None:
    page = switch(client, "?cluster=1", mode="off", confirmed="on to paused")
    assert page.status_code == 200
    assert not RetrySettings.objects.exists()


def test_switching_on_tells_of_the_held_ones_and_lets_them_go(
    client: Client, project: Project
) -> None:
    switch(client, where(project=project.pk), mode="paused", confirmed="on to paused")
    policy = factories.policy()
    factories.settle(factories.start(factories.submit(project, retry_policy=policy)))
    retries_dispatch()
    row = RetrySettings.objects.get()
    page = client.post(url(SETTINGS, "change", row.pk), {"mode": "on"})
    assert page.context["waiting"].held.value == 1
    assert "1 held retry can start" in text_of(page)
    client.post(url(SETTINGS, "change", row.pk), {"mode": "on", "confirmed": "paused to on"})
    assert held_resume() == 1


def test_the_limit_over_all_chains_is_the_clusters_and_needs_no_confirmation(
    client: Client, project: Project
) -> None:
    assert switch(client, "?cluster=1", mode="on", global_max_retries="20").status_code == 302
    assert RetrySettings.objects.get().global_max_retries == 20
    for wrong in ("-1", "x", "9" * 30, "1000001"):
        page = switch(client, "?cluster=1", mode="on", global_max_retries=wrong)
        assert list(errors_of(page)) == ["global_max_retries"], wrong
    switch(client, "?cluster=1", mode="on", global_max_retries="unlimited")
    row = RetrySettings.objects.get()
    assert (row.global_max_retries, row.global_unlimited) == (None, True)
    page = client.get(url(SETTINGS, "change", row.pk))
    assert page.context["form"]["global_max_retries"].value() == "unlimited"
    assert "unlimited" in text_of(client.get(url(SETTINGS)))
    switch(client, "?cluster=1", mode="on", global_max_retries="")
    assert RetrySettings.objects.get().most_retries == 150
    assert list(errors_of(switch(client, "?cluster=1", mode="sideways"))) == ["mode"]
    switch(client, where(project=project.pk), mode="on", global_max_retries="3")
    assert not RetrySettings.objects.filter(project=project, global_max_retries=3).exists()


LIMITS = {"retries_per_minute": "600", "queue_retries_per_minute": "60"}


def test_default_policy_and_storm_limits_are_the_clusters(client: Client, project: Project) -> None:
    factories.named_policy("wide")
    sent = {"mode": "on", "default_policy": "wide", **LIMITS}
    assert switch(client, "?cluster=1", **sent).status_code == 302
    row = RetrySettings.objects.get()
    stored = (row.default_policy, row.retries_per_minute, row.queue_retries_per_minute)
    assert stored == ("wide", 600, 60)
    after = audited_acts().latest("pk").data["after"]
    assert (after["default_policy"], after["retries_per_minute"]) == ("wide", 600)
    assert "600" in text_of(client.get(url(SETTINGS)))
    form = client.get(url(SETTINGS, "change", row.pk)).context["form"]
    assert {name: str(form[name].value()) for name in sent} == sent
    switch(client, where(project=project.pk), **sent)
    assert RetrySettings.objects.filter(project=project, default_policy="").exists()
    switch(client, "?cluster=1", mode="on")
    row.refresh_from_db()
    assert (row.default_policy, row.retries_per_minute) == ("", None)


def test_an_unknown_default_policy_is_named_before_the_switch_is_asked_about(
    client: Client, project: Project
) -> None:
    factories.named_policy("narrow", project=project)
    for name in ("missing", "narrow", "<b>"):
        page = switch(client, "?cluster=1", mode="off", default_policy=name)
        assert errors_of(page) == {"default_policy": [f"unknown retry policies: {name}"]}
    for field in LIMITS:
        page = switch(client, "?cluster=1", mode="on", **{field: "0"})
        assert list(errors_of(page)) == [field]
    assert not RetrySettings.objects.exists()


def test_a_confirmation_keeps_what_was_typed_beside_the_switch(client: Client) -> None:
    factories.named_policy("wide")
    page = switch(client, "?cluster=1", mode="paused", default_policy="wide", **LIMITS)
    kept = {field.html_name: field.value() or "" for field in page.context["form"]}
    switch(client, "?cluster=1", **kept, confirmed=page.context["move"])
    row = RetrySettings.objects.get()
    assert (row.mode, row.default_policy, row.retries_per_minute) == ("paused", "wide", 600)


RULE = {"chains": 5, "window": 600, "probe_after": 60}


@pytest.mark.parametrize("scope", ["cluster", "project"])
def test_the_cluster_and_projects_have_a_breaker(
    client: Client, project: Project, scope: str
) -> None:
    at = "?cluster=1" if scope == "cluster" else where(project=project.pk)
    sent = {"mode": "on", "breaker": '{"chains": 5}', "retry_budget": '{"burst": 9}'}
    assert switch(client, at, **sent).status_code == 302
    row = RetrySettings.objects.get()
    assert (row.breaker, (row.retry_budget or {})["burst"]) == (RULE, 9)
    form = client.get(url(SETTINGS, "change", row.pk)).context["form"]
    assert json.loads(form["breaker"].value()) == RULE
    for wrong in ('{"chains": 1}', "[]", '{"chain": 3}', "x", "[" * 5_000, '{"window": NaN}'):
        assert list(errors_of(switch(client, at, mode="on", breaker=wrong))) == ["breaker"], wrong
    assert switch(client, at, mode="on").status_code == 302
    row.refresh_from_db()
    assert (row.breaker, row.retry_budget) == (None, None)


def test_a_domain_has_no_breaker(client: Client, project: Project) -> None:
    sent = {"mode": "on", "breaker": '{"chains": 5}'}
    assert switch(client, where(domain=project.domain.pk), **sent).status_code == 302
    assert RetrySettings.objects.get().breaker is None


def test_a_switch_is_not_deleted(client: Client) -> None:
    switch(client, "?cluster=1", mode="paused", confirmed="on to paused")
    row = RetrySettings.objects.get()
    assert client.post(url(SETTINGS, "delete", row.pk), {"post": "yes"}).status_code == 403
