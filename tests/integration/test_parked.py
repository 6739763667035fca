"""Parked chains: exhausted ones that wait for somebody, who retries or gives them up."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from interfaces.http.templates import read_template
from reprise.monitoring.metrics import _Database
from reprise.operations.work import parked_chains
from sessions_app.models import (
    AuditEntry,
    Project,
    RetryDefaults,
    RetryPolicyRevision,
    Session,
    SessionEvent,
)
from sessions_app.models.tenants import Role
from sessions_app.selectors.policies import reading_of
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.parked import parked_expire
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api, admin
from tests.factories import decision, reread
from tests.invariants import check_all


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("ann", project=at, role=Role.MAINTAINER)))


def a_parked(at: Project, **policy: Any) -> Session:
    """A chain whose only attempt failed and is parked."""
    asked = factories.policy(**{"max_retries": 0, "on_exhausted": "park", **policy})
    factories.named_policy("once", project=at, rules=[RULE])
    session = factories.submit(at, retry_policy=asked, retry_policies=["once"])
    return factories.settle(factories.start(session))


RULE = {"name": "never", "action": "Retry", "onCauses": ["kernel_nonzero_exit"], "retryLimit": 0}


YEAR = timedelta(days=365)


def test_what_was_stored_before_there_was_a_bound_parks_for_a_year(at: Project, api: Api) -> None:
    policy = factories.named_policy("long", project=at, rules=[RULE], onExhausted="Park")
    (revision,) = RetryPolicyRevision.objects.filter(policy=policy)
    revision.document["spec"]["parkFor"] = "99999h"
    revision.save()
    RetryDefaults.objects.create(policy={"park_for": 1e9})
    factories.named_policy("once", project=at, rules=[RULE])
    inline = {"retry_policies": ["once"], "retry_policy": {"on_exhausted": "park"}}
    for asked in ({"retry_policies": ["long"]}, inline):
        made = api.post("sessions/", {"project": "acme/work", "command": ["true"], **asked}).json()
        session = factories.settle(factories.start(Session.objects.get(pk=made["id"])))
        held = decision(session)
        assert held.due_at is not None
        waits = held.due_at - held.decided_at
        assert abs(waits - YEAR) < timedelta(minutes=1)
    assert reading_of(revision).document.spec.park_for == "8760h"


def test_a_stored_default_can_be_changed_beside_one_from_before_there_was_a_bound(
    at: Project,
) -> None:
    row = RetryDefaults.objects.create(policy={"park_for": 1e9})
    call = admin().call
    done = call("PATCH", "retry-defaults/cluster/", {"policy": {"max_retries": 2}})
    assert done.status_code == 200, done.content
    row.refresh_from_db()
    assert row.policy == {"park_for": YEAR.total_seconds(), "max_retries": 2}
    refused = call("PATCH", "retry-defaults/cluster/", {"policy": {"park_for": 31_536_001}})
    assert refused.json()["errors"] == {
        "policy.park_for": ["must be at most 31536000 seconds (365 days)"]
    }


def test_a_stored_template_may_have_more_than_is_allowed_now(at: Project) -> None:
    found = read_template({"command": ["true"], "retry_policy": {"park_for": 1e9}})
    assert found.retry_policy.park_for == YEAR.total_seconds()


def types(session: Session) -> list[str]:
    events = SessionEvent.objects.filter(session_id=session.pk).order_by("seq")
    return list(events.values_list("type", flat=True))


def test_an_exhausted_chain_waits_in_its_own_list(at: Project, api: Api) -> None:
    session = a_parked(at, park_for=60)
    shown = api.read(f"sessions/{session.pk}/")["retry_state"]
    assert (shown["state"], shown["reason"]) == ("parked", "rule_limit")
    assert shown["held_for"] == "parked"
    assert shown["due_at"] is not None
    assert shown["max_attempts"] == 1
    (attempt,) = api.read(f"sessions/{session.pk}/attempts/")
    assert attempt["decision"] == "no retry: rule_limit; parked"
    assert types(session)[-1] == "session.retry_parked"
    (listed,) = api.read("sessions/?retry_state=parked")["results"]
    assert listed["id"] == str(session.pk)
    data = api.read(f"sessions/{session.pk}/retry-decision/")
    assert (data["state"], data["held_for"], data["action"]) == ("held", "parked", "fail")
    assert "The chain is parked for up to 1 min, as its policy asks." in data["explanation"]
    assert (held_resume(), retries_dispatch().claimed, parked_expire()) == (0, 0, 0)
    (problem,) = parked_chains()
    assert str(problem.affected) == "1"
    assert check_all() == []


def test_it_is_measured(at: Project) -> None:
    def measured() -> float:
        found = {metric.name: metric for metric in _Database().collect()}
        (sample,) = found["reprise_chains_parked"].samples
        return float(sample.value)

    assert measured() == 0
    session = a_parked(at)
    assert measured() == 1
    chain_cancel(session.pk, by="ann")
    assert measured() == 0


def test_a_retry_by_hand_releases_it(at: Project, api: Api) -> None:
    session = a_parked(at)
    child = api.post(f"sessions/{session.pk}/retry/", {})
    assert child.status_code == 201, child.content
    assert child.json()["retry_counters"] == {"manual": 1}
    assert (decision(session).paid_by, decision(session).held_for) == ("manual", "")
    said = " ".join(api.read(f"sessions/{session.pk}/retry-decision/")["explanation"])
    assert "The chain was parked for up to 1 d" in said
    assert "It was retried at once by hand, by ann" in said
    assert "is not retried" not in said
    assert api.post(f"sessions/{session.pk}/give-up/", None).status_code == 409
    assert check_all() == []


def test_it_can_be_given_up_once(at: Project, api: Api) -> None:
    session = a_parked(at)
    for _ in range(2):
        answer = api.post(f"sessions/{session.pk}/give-up/", None)
        assert answer.status_code == 200, answer.content
        assert answer.json()["retry_state"]["state"] == "exhausted"
    said = " ".join(api.read(f"sessions/{session.pk}/retry-decision/")["explanation"])
    assert "The chain was parked for up to 1 d" in said
    assert "Then somebody gave it up, or its time was over." in said
    assert types(session).count("session.retry_exhausted") == 1
    assert _why_it_ended(session) == ("rule_limit", "kernel_nonzero_exit", "ann")
    (entry,) = AuditEntry.objects.filter(action="retry.give_up")
    assert entry.actor == "ann"
    assert check_all() == []


def _why_it_ended(session: Session) -> tuple[str, str, str]:
    (event,) = SessionEvent.objects.filter(session_id=session.pk, type="session.retry_exhausted")
    return event.data["reason"], event.data["cause"], event.data["by"]


def test_it_can_be_cancelled(at: Project) -> None:
    session = a_parked(at)
    chain_cancel(session.pk, by="ann")
    assert reread(session).retry_state == "cancelled"
    assert parked_expire() == 0
    assert check_all() == []


def test_it_ends_when_its_time_is_over(at: Project) -> None:
    early, late = a_parked(at, park_for=0.001), a_parked_again(at)
    assert parked_expire() == 1
    assert _why_it_ended(early) == ("rule_limit", "kernel_nonzero_exit", "")
    assert reread(early).retry_state == "exhausted"
    assert reread(late).retry_state == "parked"
    assert parked_expire() == 0
    assert check_all() == []


def a_parked_again(at: Project) -> Session:
    policy = factories.policy(max_retries=0, on_exhausted="park")
    session = factories.submit(at, retry_policy=policy, retry_policies=["once"])
    return factories.settle(factories.start(session))


def test_its_page_has_a_button(at: Project, client: Client) -> None:
    session = a_parked(at)
    user = factories.user(project=at, role=Role.MAINTAINER)
    client.force_login(user)
    page = client.get(f"/sessions/{session.pk}/").content.decode()
    assert "Parked" in page
    client.post(f"/sessions/{session.pk}/", {"do": "give_up"})
    assert reread(session).retry_state == "exhausted"
    assert "give-up" not in client.get(f"/sessions/{session.pk}/").content.decode()
