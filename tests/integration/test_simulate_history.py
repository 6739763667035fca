"""Simulate on a project's own past: what would be decided, against what was."""

import json
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from retry.simulate import ASSUMPTIONS
from sessions_app.models import Project, RetryDecision, Session
from sessions_app.models.tenants import Role
from sessions_app.selectors import past_chains
from sessions_app.services.chains import simulate as service
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.parked import chain_give_up
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api
from tests.factories import named_policy, settle, start, submit, tip

PATH = "retry-policies/simulate/"
FAILED: dict[str, Any] = {"exit_code": 1}
PREEMPTED: dict[str, Any] = {"conditions": ("Preempted",)}
OOM: dict[str, Any] = {"reason": "OOMKilled", "exit_code": 137}
SUCCESS: dict[str, Any] = {"status": "terminated", "exit_code": 0}
CANCELLED: dict[str, Any] = {"status": "cancelled"}


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user(project=at, role=Role.VIEWER)))


def asked(
    api: Api, *, since: datetime | None = None, until: datetime | None = None, **body: Any
) -> Any:
    """The answer about the chains of `acme/work` that began in the last hour."""
    window = {"project": "acme/work", "since": (since or _ago(hours=1)).isoformat()}
    if until is not None:
        window["until"] = until.isoformat()
    response = api.post(PATH, {**body, "history": window})
    assert response.status_code == 200, response.content
    return json.loads(b"".join(response) if response.streaming else response.content)


def _ago(**time: float) -> datetime:
    return timezone.now() - timedelta(**time)


def chain(at: Project, *ends: dict[str, Any], **fields: Any) -> Session:
    """A chain whose attempts ended so, as long as the engine brought them; its root."""
    root = submit(at, **fields)
    for facts in ends:
        session = tip(root)
        if session.finished_at is not None:
            break
        settle(start(session), **facts)
        dispatch()
    root.refresh_from_db()
    return root


def dispatch() -> None:
    """Bring all retries that wait, however long they would have."""
    RetryDecision.objects.filter(state="scheduled").update(due_at=_ago(seconds=1))
    retries_dispatch()


def own(**fields: Any) -> dict[str, Any]:
    return {"retry_policy": {"max_retries": 2, **fields}}


def test_a_chain_as_it_was(api: Api, at: Project) -> None:
    root = chain(at, FAILED, FAILED, FAILED, resources={"memory": "1Gi"}, **own())
    found = asked(api)
    ids = list(Session.objects.order_by("retry_count").values_list("pk", flat=True))
    (past,) = found["chains"]
    assert past["outcome"] == "exhausted"
    assert [each["session_id"] for each in past["attempts"]] == [str(each) for each in ids]
    assert [each["resources"] for each in past["attempts"]] == [{"memory": "1Gi"}] * 2 + [None]
    assert ids[0] == root.pk
    assert found["summary"] == {
        "chains": 1,
        "retries": 2,
        "by_cause": {"kernel_nonzero_exit": 2},
        "by_rule": {},
        "by_reason": {"inline_retry": 2, "max_retries": 1},
        "changed": [],
        "added_attempts": 0,
        "added_run_seconds": 0,
        "assumptions": ASSUMPTIONS,
    }


@pytest.mark.parametrize(
    ("max_retries", "was", "would_be", "added"),
    [
        (0, "exhausted", "not_retried", -2),
        (1, "exhausted", "exhausted", -1),
        (2, "exhausted", "exhausted", 0),
        (3, "exhausted", "retrying", 1),
    ],
)
def test_another_budget(
    api: Api, at: Project, max_retries: int, was: str, would_be: str, added: int
) -> None:
    root = chain(at, FAILED, FAILED, FAILED, **own())
    found = asked(api, retry_policy={"max_retries": max_retries})
    assert found["chains"][0]["outcome"] == would_be
    summary = found["summary"]
    assert summary["added_attempts"] == added
    # Times are the database's and short: only their sign is sure.
    assert (summary["added_run_seconds"] > 0) == (added > 0)
    assert (summary["added_run_seconds"] < 0) == (added < 0)
    differs = {"root": str(root.pk), "was": was, "would_be": would_be}
    assert summary["changed"] == ([differs] if was != would_be else [])


def test_of_the_frozen_policy_only_the_given_fields_change(api: Api, at: Project) -> None:
    chain(at, FAILED, FAILED, FAILED, **own(retry_delay=7, jitter="none"))
    (found,) = asked(api, retry_policy={"jitter_ratio": 0.5})["chains"]
    assert [each["delay"] for each in found["attempts"]] == [7, 7, None]
    (found,) = asked(api, retry_policy={"retry_delay": 9})["chains"]
    assert [each["delay"] for each in found["attempts"]] == [9, 9, None]


def test_named_policies_are_those_of_the_chain_as_they_are_now(api: Api, at: Project) -> None:
    rule = {"name": "oom", "action": "Retry", "onConditions": ["OOMKilled"]}
    named_policy("ml", project=at, rules=[{**rule, "retryLimit": 1}])
    chain(at, OOM, OOM, retry_policies=["ml"])
    (found,) = asked(api)["chains"]
    assert [each["reason"] for each in found["attempts"]] == ["rule_retry", "rule_limit"]
    named_policy("ml", project=at, rules=[{**rule, "retryLimit": 5}])
    found = asked(api)
    assert [each["reason"] for each in found["chains"][0]["attempts"]] == ["rule_retry"] * 2
    assert [each["would_be"] for each in found["summary"]["changed"]] == ["retrying"]


def test_drafts_replace_all_named_policies(api: Api, at: Project) -> None:
    named_policy("ml", project=at, defaultAction="Retry", retryLimit=1)
    chain(at, OOM, OOM, retry_policies=["ml"])
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": "draft"}}
    rule = {"action": "Retry", "name": "oom", "onConditions": ["OOMKilled"]}
    (found,) = asked(api, policies=[{**head, "spec": {"rules": [rule]}}])["chains"]
    assert [each["rule"] for each in found["attempts"]] == ["draft/oom", "draft/oom"]
    (found,) = asked(api, policies=[])["chains"]
    assert [each["reason"] for each in found["attempts"]] == ["no_policy"]


def test_categories_are_the_clusters_unless_others_are_given(api: Api, at: Project) -> None:
    admin = Api(factories.token(factories.user(superuser=True)))
    matchers = [{"onTerminationMessage": {"pattern": "boom"}}]
    made = admin.post("failure-categories/", {"name": "blast", "matchers": matchers})
    assert made.status_code == 201
    chain(at, {**FAILED, "message": "boom"})
    assert asked(api)["chains"][0]["attempts"][0]["failure_category"] == "blast"
    given = [{"name": "other", "matchers": matchers}]
    found = asked(api, failure_categories=given)
    assert found["chains"][0]["attempts"][0]["failure_category"] == "other"


def test_bounds_hold_and_the_switches_of_today_do_not(api: Api, at: Project) -> None:
    admin = Api(factories.token(factories.user(superuser=True)))
    chain(at, FAILED, FAILED, FAILED, **own())
    assert admin.call("PUT", "retry-settings/cluster/", {"mode": "off"}).status_code == 200
    assert asked(api)["summary"]["changed"] == []
    bounds = {"bounds": {"max_retries": 1}}
    assert admin.call("PUT", "retry-defaults/cluster/", bounds).status_code == 200
    assert asked(api)["summary"]["added_attempts"] == -1
    found = asked(api, settings={"enabled": False})
    assert found["chains"][0]["attempts"][0]["reason"] == "retries_disabled"


def test_chains_without_retries_would_be_retried(api: Api, at: Project) -> None:
    root = chain(at, FAILED)
    summary = asked(api, retry_policy={"max_retries": 1})["summary"]
    differs = {"root": str(root.pk), "was": "not_retried", "would_be": "retrying"}
    assert (summary["changed"], summary["added_attempts"]) == ([differs], 1)


def test_a_success_is_the_end(api: Api, at: Project) -> None:
    root = chain(at, FAILED, SUCCESS, **own())
    found = asked(api)
    assert found["chains"][0]["outcome"] == "succeeded"
    assert found["chains"][0]["attempts"][1]["action"] is None
    assert found["summary"]["changed"] == []
    summary = asked(api, retry_policy={"max_retries": 0})["summary"]
    differs = {"root": str(root.pk), "was": "succeeded", "would_be": "not_retried"}
    assert (summary["changed"], summary["added_attempts"]) == ([differs], -1)


def test_a_chain_that_goes_on(api: Api, at: Project) -> None:
    """Its second attempt runs still, or waits to be brought."""
    waiting = settle(start(submit(at, **own())))
    running = start(tip(chain(at, FAILED, **own())))
    found = asked(api)
    assert [each["outcome"] for each in found["chains"]] == ["retrying"] * 2
    assert (found["summary"]["changed"], found["summary"]["added_attempts"]) == ([], 0)
    summary = asked(api, retry_policy={"max_retries": 0})["summary"]
    assert [each["root"] for each in summary["changed"]] == [str(waiting.pk), str(running.root_id)]
    assert summary["added_attempts"] == -2


def test_a_chain_whose_first_attempt_has_not_ended_is_left_out(api: Api, at: Project) -> None:
    start(submit(at))
    submit(at)
    assert asked(api)["summary"]["chains"] == 0


def test_a_cancelled_chain(api: Api, at: Project) -> None:
    """While it ran, while its retry waited, and before it ever ran."""
    ran = chain(at, FAILED, CANCELLED, **own())
    waiting = settle(start(submit(at, **own())))
    never = submit(at, **own())
    for root in (waiting, never):
        chain_cancel(root.pk, by="ann")
    found = asked(api)
    assert [each["outcome"] for each in found["chains"]] == ["cancelled"] * 3
    assert (found["summary"]["changed"], found["summary"]["added_attempts"]) == ([], 0)
    summary = asked(api, retry_policy={"max_retries": 0})["summary"]
    assert [each["root"] for each in summary["changed"]] == [str(ran.pk), str(waiting.pk)]
    assert summary["added_attempts"] == -1


def test_a_retry_by_hand_ends_what_is_simulated(api: Api, at: Project) -> None:
    root = chain(at, FAILED, FAILED, FAILED, **own())
    session_retry(tip(root).pk, root.pk, by="ann")
    settle(start(tip(root)))
    assert Session.objects.count() == 4
    found = asked(api)
    (past,) = found["chains"]
    assert (len(past["attempts"]), past["outcome"]) == (3, "exhausted")
    assert (found["summary"]["changed"], found["summary"]["added_attempts"]) == ([], 0)
    found = asked(api, retry_policy={"max_retries": 5})
    assert found["chains"][0]["outcome"] == "retrying"
    assert found["summary"]["added_attempts"] == 1


@pytest.mark.parametrize("act", ["give up", "cancel", "nothing"])
def test_what_became_of_a_parked_chain_is_no_change(api: Api, at: Project, act: str) -> None:
    """The policy parks it again, and nobody knows whether people would do something else."""
    root = chain(at, FAILED, FAILED, **own(max_retries=1, on_exhausted="park"))
    outcome = {"give up": "exhausted", "cancel": "cancelled", "nothing": "parked"}[act]
    if act == "give up":
        chain_give_up(tip(root).pk, root.pk, by="ann")
    elif act == "cancel":
        chain_cancel(root.pk, by="ann")
    found = asked(api)
    assert found["chains"][0]["outcome"] == outcome
    assert found["summary"]["changed"] == []
    found = asked(api, retry_policy={"max_retries": 2, "on_exhausted": "park"})
    assert found["chains"][0]["outcome"] == "retrying"


def test_a_waiting_retry_that_is_brought_by_hand_ends_it_too(api: Api, at: Project) -> None:
    root = settle(start(submit(at, **own())))
    session_retry(root.pk, root.pk, by="ann")
    settle(start(tip(root)), **SUCCESS)
    found = asked(api)
    assert [len(each["attempts"]) for each in found["chains"]] == [1]
    assert found["chains"][0]["outcome"] == "retrying"
    assert (found["summary"]["changed"], found["summary"]["added_attempts"]) == ([], 0)


def test_recorded_run_times_and_simulated_delays(api: Api, at: Project) -> None:
    """Each attempt took 100 s; with a longer delay the third retry comes too late."""
    limits = {"max_chain_duration": 400, "retry_delay": 10, "jitter": "none"}
    root = chain(at, *[FAILED] * 5, **own(max_retries=9, **limits))
    begin = _ago(minutes=30)
    for session in Session.objects.filter(root=root):
        created = begin + timedelta(seconds=110 * session.retry_count)
        Session.objects.filter(pk=session.pk).update(
            created_at=created,
            started_at=created + timedelta(seconds=40),
            finished_at=None if session.finished_at is None else created + timedelta(seconds=100),
        )

    def reasons(**policy: Any) -> list[str]:
        (found,) = asked(api, retry_policy=policy)["chains"]
        return [each["reason"] for each in found["attempts"]]

    # Due at 110, 220, 330 and 440 s.
    assert reasons() == [*["inline_retry"] * 3, "chain_deadline"]
    # Due at 160, 320 and 480 s.
    assert reasons(retry_delay=60) == [*["inline_retry"] * 2, "chain_deadline"]
    assert reasons(max_chain_duration=None) == ["inline_retry"] * 5
    # The last ran for a minute, and so would the one after it.
    summary = asked(api, retry_policy={"max_chain_duration": None, "max_retries": 5})["summary"]
    assert summary["added_run_seconds"] == 0
    summary = asked(api, retry_policy={"max_retries": 0})["summary"]
    assert (summary["added_attempts"], summary["added_run_seconds"]) == (-5, -240)


def test_the_window_is_of_the_roots(api: Api, at: Project) -> None:
    root = chain(at, FAILED, FAILED, **own())
    factories.project("other", domain="acme")
    began = root.created_at
    later = began + timedelta(microseconds=1)
    assert asked(api, since=began)["summary"]["chains"] == 1
    assert asked(api, since=began, until=later)["summary"]["chains"] == 1
    assert asked(api, since=later)["summary"]["chains"] == 0
    assert asked(api, since=began - timedelta(hours=2), until=began)["summary"]["chains"] == 0


def test_only_the_chains_of_the_project(api: Api, at: Project) -> None:
    other = factories.project("other", domain="acme")
    chain(other, FAILED)
    mine = chain(at, FAILED)
    (found,) = asked(api)["chains"]
    assert found["attempts"][0]["session_id"] == str(mine.pk)


@pytest.mark.parametrize("attempts", [(1, 2, 3, 3, 1, 2, 3), (1,) * 7, (3,) * 7])
@pytest.mark.parametrize("slice_size", [1, 2, 3, 7, 1000])
def test_slices_make_no_difference(
    api: Api,
    at: Project,
    monkeypatch: pytest.MonkeyPatch,
    slice_size: int,
    attempts: tuple[int, ...],
) -> None:
    roots = [chain(at, *[FAILED] * each, **own()) for each in attempts]
    monkeypatch.setattr(past_chains, "SLICE", slice_size)
    found = asked(api)
    assert [each["attempts"][0]["session_id"] for each in found["chains"]] == [
        str(root.pk) for root in sorted(roots, key=lambda root: root.pk)
    ]
    assert tuple(len(each["attempts"]) for each in found["chains"]) == attempts


def test_the_number_of_queries_does_not_grow_with_the_chains(api: Api, at: Project) -> None:
    for name in ("a", "b"):
        named_policy(name, project=at, defaultAction="Retry", retryLimit=1)

    def cost(chains: int) -> int:
        for number in range(chains):
            chain(at, FAILED, FAILED, retry_policies=["a", "b"][: 1 + number % 2], **own())
        asked(api)
        with CaptureQueriesContext(connection) as queries:
            asked(api)
        return len(queries)

    assert cost(2) == cost(12)


def test_too_long_a_past_is_a_413_that_says_what_to_do(
    api: Api, at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(at, FAILED, FAILED, FAILED, **own())
    monkeypatch.setattr(service, "MAX_TERMINATIONS", 3)
    assert asked(api)["summary"]["chains"] == 1
    chain(at, FAILED)
    window = {"project": "acme/work", "since": _ago(hours=1).isoformat()}
    response = api.post(PATH, {"history": window})
    assert response.status_code == 413
    assert "narrow it by since and until" in response.json()["detail"]


def test_nothing_is_changed(api: Api, at: Project) -> None:
    chain(at, FAILED, FAILED, **own())
    before = [list(model.objects.values()) for model in (Session, RetryDecision)]
    asked(api, retry_policy={"max_retries": 9})
    assert [list(model.objects.values()) for model in (Session, RetryDecision)] == before


def test_only_readers_may_ask_for_a_projects_past(at: Project) -> None:
    """Only readers of the project may ask; for others it does not exist."""
    neighbour = factories.project("other", domain="acme")
    chain(at, FAILED)
    viewer = factories.user(project=at, role=Role.VIEWER)
    admin = factories.user(superuser=True)
    allowed = [
        factories.token(viewer),
        factories.token(viewer, read_only=True),
        factories.token(admin),
        factories.token(admin, project=at),
        factories.token(factories.user(domain=at.domain, role=Role.VIEWER)),
    ]
    for secret in allowed:
        assert asked(Api(secret))["summary"]["chains"] == 1
    hidden = [
        factories.token(factories.user(project=neighbour, role=Role.MAINTAINER)),
        factories.token(factories.user()),
        factories.token(admin, project=neighbour),
    ]
    window = {"project": "acme/work", "since": _ago(hours=1).isoformat()}
    for secret in hidden:
        response = Api(secret).post(PATH, {"history": window})
        missing = Api(secret).post(PATH, {"history": {**window, "project": "acme/ghost"}})
        assert (response.status_code, list(response.json()["errors"])) == (400, ["history.project"])
        assert response.content.replace(b"work", b"ghost") == missing.content


def test_the_project_is_that_of_the_token(at: Project) -> None:
    chain(at, FAILED)
    scoped = Api(factories.token(factories.user(project=at), project=at))
    response = scoped.post(PATH, {"history": {"since": _ago(hours=1).isoformat()}})
    assert response.json()["summary"]["chains"] == 1


POLICIES: dict[str, dict[str, Any]] = {
    "infra": {
        "retryLimit": 2,
        "backoff": {"initialDelay": "3s", "multiplier": 2.5, "jitterRatio": 0.5},
        "rules": [
            {"name": "gone", "action": "Retry", "onConditions": ["Preempted", "Evicted"],
             "antiAffinity": {"mode": "node"}},
            {"action": "Fail", "onExitCodes": {"operator": "In", "values": [42]}},
        ],
    },
    "memory": {
        "rules": [
            {"action": "Retry", "onConditions": ["OOMKilled"], "retryLimit": 2,
             "resources": {"memory": {"factor": 1.5, "max": "2Gi"}}},
        ],
    },
    "last": {"defaultAction": "Retry", "retryLimit": 1},
}  # fmt: skip
ENDS = [
    FAILED, FAILED, OOM, PREEMPTED, {"exit_code": 42}, {"exit_code": 7, "node": "n9"},
    {"lease_expired": True}, {"conditions": ("Evicted",)}, SUCCESS, CANCELLED,
    {"exit_code": 3, "message": '{"reprise": {"after": 99}}'},
    {"exit_code": 3, "message": '{"reprise": {"retry": false}}'},
]  # fmt: skip


def some_chain(at: Project, random: Random) -> Session:
    inline: dict[str, Any] = {
        "max_retries": random.randrange(4),
        "retry_delay": random.choice([1, 60, 600]),
        "backoff": random.choice(["fixed", "exponential"]),
        "eligible_causes": random.choice([["unknown"], ["kernel_nonzero_exit", "oom_killed"]])
        if random.random() < 0.2
        else ["kernel_nonzero_exit", "oom_killed", "preempted", "evicted", "agent_transient"],
        "no_retry_on_exit_codes": random.choice([[], [7]]),
    }
    if random.random() < 0.5:
        inline["max_preemption_retries"] = random.randrange(3)
    names = random.sample(list(POLICIES), random.randrange(4))
    ends = [random.choice(ENDS) for _ in range(random.randrange(1, 8))]
    memory = {"resources": {"memory": "1Gi"}} if random.random() < 0.8 else {}
    return chain(at, *ends, retry_policy=inline, retry_policies=names, **memory)


_STORED = ("action", "reason", "cause", "paid_by", "used", "limit", "delay", "avoid_node", "rule")


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_under_its_own_policies_comes_out_as_it_did(
    api: Api, at: Project, seed: int
) -> None:
    random = Random(seed)
    for name, spec in POLICIES.items():
        named_policy(name, project=at, **spec)
    for _ in range(12):
        some_chain(at, random)
    found = asked(api)
    summary = found["summary"]
    assert (summary["chains"], summary["changed"], summary["added_attempts"]) == (12, [], 0)
    assert summary["added_run_seconds"] == 0
    simulated = {
        each["session_id"]: each
        for chain in found["chains"]
        for each in chain["attempts"]
        if each["action"]
    }
    decisions = {str(each.pk): each for each in RetryDecision.objects.all()}
    assert simulated.keys() == decisions.keys()
    for session_id, decision in decisions.items():
        again = simulated[session_id]
        stored = {name: getattr(decision, name) for name in _STORED}
        nulls = {name: None for name in ("paid_by", "rule", "avoid_node") if not stored[name]}
        assert {name: again[name] for name in _STORED} == {**stored, **nulls}
        if decision.resources is not None:
            assert again["resources"] == decision.resources
        assert [step["step"] for step in again["trace"]] == [
            step["step"] for step in decision.trace
        ]
