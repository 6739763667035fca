"""Chains whose policy sets no number of retries."""

from typing import Any

import pytest

from sessions_app.models import Project, RetrySettings, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api, agent
from tests.invariants import check_all

CLUSTER = "retry-settings/cluster/"
FOREVER = {"max_retries": "unlimited", "retry_delay": 1e-6, "jitter": "none"}
PREEMPTED = {"conditions": ("Preempted",)}


@pytest.fixture
def api(at: Project) -> Api:
    agent().lease()
    return Api(factories.token(factories.user("root", superuser=True)))


def create(api: Api, **policy: Any) -> dict[str, Any]:
    body = factories.body(retry_policy={**FOREVER, **policy})
    answer = api.post("sessions/", body)
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def fail(session: Session, times: int, **facts: Any) -> Session:
    """Let the newest attempt fail and be retried so many times; return the newest then."""
    for _ in range(times):
        ended = factories.settle(factories.tip(session), **facts)
        assert ended.retry_state == "scheduled", factories.decision(ended).reason
        assert retries_dispatch().dispatched == 1
    return factories.tip(session)


def limited(api: Api, limit: int | None) -> None:
    answer = api.call("PATCH", CLUSTER, {"global_max_retries": limit})
    assert answer.status_code == 200
    assert answer.json()["global_max_retries"] == limit


def test_a_chain_goes_on_past_every_number(api: Api) -> None:
    limited(api, None)
    made = create(api, max_chain_duration=86_400)
    assert "warnings" not in made
    assert (made["max_retries"], made["retry_policy"]["max_retries"]) == ("unlimited",) * 2
    last = fail(Session.objects.get(), 6)
    shown = api.read(f"sessions/{last.pk}/")
    assert (last.retry_count, shown["max_retries"]) == (6, "unlimited")
    assert shown["retry_counters"] == {"inline/failure": 6}
    state = shown["retry_state"]
    assert (state["attempt"], state["max_attempts"]) == (6, None)
    assert state["summary"] == "attempt 7"
    assert state["budgets"] == [{"name": "inline/failure", "used": 6, "limit": None}]
    before = api.read(f"sessions/{last.parent_id}/retry-decision/")
    sentence = "5 retries for failures were used, with no limit of their own; this one pays from it"
    assert any(sentence in each for each in before["explanation"])
    assert (before["used"], before["limit"]) == (5, None)
    rows = api.read(f"sessions/{last.pk}/attempts/")
    assert rows[-2]["decision"].endswith("pays inline/failure 6")
    assert check_all() == []


def test_the_limit_of_all_chains_binds_it(api: Api) -> None:
    assert api.read(CLUSTER)["global_max_retries"] == 150
    create(api)
    limited(api, 2)
    last = factories.settle(fail(Session.objects.get(), 2))
    assert (last.retry_state, factories.decision(last).reason) == ("exhausted", "global_limit")
    assert api.read(f"sessions/{last.pk}/")["retry_state"]["max_attempts"] == 3


def test_unlimited_preemptions_leave_failures_their_limit(api: Api) -> None:
    create(api, max_retries=1, max_preemption_retries="unlimited")
    last = fail(fail(Session.objects.get(), 3, **PREEMPTED), 1)
    assert last.max_retries == 1
    ended = factories.settle(last)
    assert factories.decision(ended).reason == "max_retries"
    assert ended.retry_counters == {"inline/preemption": 3, "inline/failure": 1}


def test_a_later_bound_takes_the_place_of_the_word(api: Api) -> None:
    made = create(api)
    answer = api.call("PATCH", "retry-defaults/domains/acme/", {"bounds": {"max_retries": 1}})
    assert answer.status_code == 200
    last = factories.settle(fail(Session.objects.get(), 1))
    assert factories.decision(last).reason == "max_retries"
    told = api.read(f"sessions/{made['id']}/retry-decision/")
    bound = {"step": "bound", "field": "max_retries", "was": "unlimited", "now": 1}
    assert {**bound, "layer": "domain"} in told["trace"]


@pytest.mark.parametrize(
    ("policy", "limit", "endless"),
    [
        ({}, None, True),
        ({"max_preemption_retries": "unlimited"}, None, True),
        ({"max_preemption_retries": 5}, None, False),
        ({"max_chain_duration": 60}, None, False),
        ({}, 150, False),
    ],
)
def test_a_chain_without_any_limit_is_accepted_with_a_warning(
    api: Api, policy: dict[str, Any], limit: int | None, endless: bool
) -> None:
    limited(api, limit)
    made = create(api, **policy)
    assert any("have no limit" in text for text in made.get("warnings", [])) is endless


def test_what_bounds_a_default_takes_the_warning_away(api: Api) -> None:
    limited(api, None)
    layer = "retry-defaults/projects/acme/work/"
    assert api.call("PUT", layer, {"policy": {"max_retries": "unlimited"}}).status_code == 200
    assert "warnings" in api.post("sessions/", factories.body()).json()
    assert api.read(f"{layer}?effective=true")["effective"]["max_retries"]["value"] == "unlimited"
    upper = "retry-defaults/cluster/"
    assert api.call("PUT", upper, {"bounds": {"max_chain_duration": 60}}).status_code == 200
    assert "warnings" not in api.post("sessions/", factories.body()).json()


@pytest.mark.parametrize("wrong", ["Unlimited ", "infinite", "3", "", ["unlimited"], -1, 1.5])
@pytest.mark.parametrize("field", ["max_retries", "max_preemption_retries"])
def test_other_words_are_refused_with_what_is_allowed(api: Api, field: str, wrong: Any) -> None:
    answer = api.post("sessions/", factories.body(retry_policy={field: wrong}))
    assert answer.status_code == 400
    ((name, (text,)),) = answer.json()["errors"].items()
    assert name == f"retry_policy.{field}"
    assert ("between 0 and" if wrong == -1 else "from 0 to") in text
    assert wrong == -1 or 'or "unlimited"' in text
    assert not Session.objects.exists()


def test_a_retry_by_hand_changes_to_and_from_the_word(api: Api) -> None:
    create(api, max_retries=0)
    session = factories.settle(Session.objects.get())
    for asked, stored in (("unlimited", 2**31 - 1), (2, 2), ("unlimited", 2**31 - 1)):
        body = {"changes": {"retry_policy": {"max_retries": asked}}}
        answer = api.post(f"sessions/{session.pk}/retry/", body)
        assert answer.status_code == 201, answer.content
        child = factories.tip(session)
        assert (answer.json()["max_retries"], child.max_retries) == (asked, stored)
        assert child.policy["max_retries"] == asked
        session = factories.settle(child, conditions=(), reason="InvalidImageName")
    last = api.post(f"sessions/{session.pk}/retry/", {})
    assert last.json()["max_retries"] == "unlimited"


def test_settings_of_other_scopes_have_no_limit_to_remove(api: Api, at: Project) -> None:
    path = "retry-settings/projects/acme/work/"
    assert api.call("PUT", path, {"mode": "paused"}).status_code == 200
    assert api.call("PATCH", path, {"global_max_retries": None}).status_code == 200
    assert not RetrySettings.objects.get(project=at).global_unlimited
    limited(api, None)
    assert api.call("PUT", CLUSTER, {"mode": "on"}).json()["global_max_retries"] == 150
    limited(api, None)
    assert api.call("DELETE", CLUSTER).status_code == 204
    assert api.read(CLUSTER)["global_max_retries"] == 150


def test_the_limit_of_all_chains_is_simulated(api: Api) -> None:
    ends = [{"exit_code": 1}] * 152
    body = {"retry_policy": {"max_retries": "unlimited"}, "chains": [{"terminations": ends}]}
    path = "retry-policies/simulate/"

    def outcome(**more: Any) -> Any:
        answer = api.post(path, {**body, **more})
        assert answer.status_code == 200, answer.content
        return answer.json()["chains"][0]

    assert outcome()["attempts"][-1]["reason"] == "global_limit"
    assert outcome(settings={"enabled": True})["outcome"] == "exhausted"
    found = outcome(settings={"global_max_retries": None})
    assert (found["outcome"], len(found["attempts"])) == ("retrying", 152)
