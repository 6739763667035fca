"""Chains under named policies: rules decide, counters are kept apart, edits take effect."""

import json
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from retry.evidence.termination import Termination
from retry.policies.categories import FailureCategory
from retry.policies.documents import PolicyDocument
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import FailureCategory as CategoryRow
from sessions_app.models import Project, RetryDecision, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.resources.policies import policy_apply
from tests.factories import decision, policy, project, settle, start, submit, tip, token, user
from tests.invariants import check_all

OOM = {"reason": "OOMKilled", "exit_code": 137}
PREEMPTED = {"conditions": ("Preempted",)}
AT_ONCE: dict[str, Any] = {"initialDelay": "0s"}
INFRA = {
    "retryLimit": 10,
    "backoff": AT_ONCE,
    "rules": [{"name": "moved", "action": "Retry", "onConditions": ["Preempted", "Evicted"]}],
}
MEMORY = {
    "retryLimit": 5,
    "backoff": AT_ONCE,
    "rules": [
        {
            "name": "more-memory",
            "action": "Retry",
            "onConditions": ["OOMKilled"],
            "retryLimit": 3,
            "antiAffinity": {"mode": "node"},
            "resources": {"memory": {"factor": 2, "max": "6Gi"}},
        }
    ],
}


def named(at: Project, name: str, spec: dict[str, Any]) -> str:
    document = PolicyDocument.model_validate(
        {
            "apiVersion": "reprise/v1",
            "kind": "RetryPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }
    )
    policy_apply(document, ConfigScope(project=at), by="test")
    return name


def category(name: str, *matchers: dict[str, Any]) -> None:
    checked = FailureCategory.model_validate({"name": name, "matchers": list(matchers)})
    CategoryRow.objects.create(
        name=name,
        position=CategoryRow.objects.count(),
        matchers=[matcher.document() for matcher in checked.matchers],
    )


def next_attempt(session: Session) -> Session:
    """The child of a session whose retry is due at once."""
    retries_dispatch()
    return tip(session)


def test_rules_count_apart_and_the_first_match_decides(at: Project) -> None:
    names = [named(at, "infra", INFRA), named(at, "ml", MEMORY)]
    session = submit(at, retry_policies=names)
    ends = [PREEMPTED] * 10 + [OOM] * 3
    for facts in ends:
        session = next_attempt(settle(start(session), **facts))
    assert session.retry_counters == {"infra/moved": 10, "ml/more-memory": 3}
    assert session.retry_count == len(ends)
    last = settle(start(session), **OOM)
    assert (last.retry_state, decision(last).reason) == ("exhausted", "rule_limit")
    assert decision(last).rule == "ml/more-memory"
    assert decision(last).policy_revisions == {"infra": 1, "ml": 1}
    assert check_all() == []


def test_memory_grows_attempt_by_attempt_up_to_its_maximum(at: Project) -> None:
    names = [named(at, "ml", MEMORY)]
    session = submit(at, retry_policies=names, resources={"memory": "1Gi", "cpu": 1})
    seen, specs = [], set()
    for _ in range(3):
        session = next_attempt(settle(start(session), **OOM))
        seen.append(session.spec.resources)
        specs.add(session.spec_id)
        assert session.avoid_node == "node-1"
    assert [resources["memory"] for resources in seen] == ["2Gi", "4Gi", "6Gi"]
    assert {resources["cpu"] for resources in seen} == {"1"}
    assert len(specs) == 3
    first = Session.objects.get(pk=session.root_id)
    assert first.spec.resources["memory"] == "1Gi"
    assert decision(first).resources == {"memory": "2Gi", "cpu": "1"}


def test_an_unchanged_child_shares_its_parents_specification(at: Project) -> None:
    session = submit(at, retry_policies=[named(at, "infra", INFRA)], resources={"memory": "1Gi"})
    child = next_attempt(settle(start(session), **PREEMPTED))
    assert child.spec_id == session.spec_id
    assert decision(session).resources is None


def test_an_edit_counts_from_the_next_failure_on(at: Project) -> None:
    session = submit(at, retry_policies=[named(at, "infra", INFRA)])
    child = next_attempt(settle(start(session), **PREEMPTED))
    strict = {"rules": [{"action": "Fail", "onConditions": ["Preempted"]}]}
    named(at, "infra", strict)
    settle(start(child), **PREEMPTED)
    assert decision(session).policy_revisions == {"infra": 1}
    assert decision(child).policy_revisions == {"infra": 2}
    assert (decision(child).action, decision(child).reason) == ("fail", "rule_fail")


def test_rules_speak_before_the_sessions_own_policy(at: Project) -> None:
    refuse = {"rules": [{"name": "broken", "action": "Fail", "onExitCodes": {
        "operator": "In", "values": [3]}}]}  # fmt: skip
    names = [named(at, "refuse", refuse)]
    refused = settle(submit(at, retry_policies=names, retry_policy=policy()), exit_code=3)
    assert (decision(refused).reason, refused.retry_state) == ("rule_fail", "not_retried")
    other = settle(submit(at, retry_policies=names, retry_policy=policy()), exit_code=4)
    assert (decision(other).reason, decision(other).paid_by) == ("inline_retry", "inline/failure")


def test_the_default_action_is_asked_last(at: Project) -> None:
    names = [named(at, "quiet", {"rules": []}), named(at, "open", {"defaultAction": "Retry"})]
    session = settle(submit(at, retry_policies=names))
    assert (decision(session).reason, decision(session).rule) == ("default_retry", "open/default")
    own = settle(submit(at, retry_policies=names, retry_policy=policy()))
    assert decision(own).paid_by == "inline/failure"


def test_a_category_is_given_and_rules_ask_for_it(at: Project) -> None:
    category("cuda_error", {"onTerminationMessage": {"pattern": "CUDA error [0-9]+"}})
    category("unlucky", {"onExitCodes": {"operator": "In", "values": [13]}})
    rule = {"name": "gpu", "action": "Retry", "onFailureCategory": ["cuda_error"]}
    names = [named(at, "gpu", {"rules": [rule]})]
    seen = {}
    for message, code in (("CUDA error 700", 13), ("", 13), ("", 1)):
        session = settle(submit(at, retry_policies=names), message=message, exit_code=code)
        seen[message, code] = (session.failure_category, decision(session).reason)
    assert seen == {
        ("CUDA error 700", 13): ("cuda_error", "rule_retry"),
        ("", 13): ("unlucky", "no_policy"),
        ("", 1): ("", "no_policy"),
    }
    assert check_all() == []


def message_of(**words: Any) -> str:
    return json.dumps({"reprise": words})


def test_the_message_of_the_workload_counts(at: Project) -> None:
    category("cuda_error", {"onExitCodes": {"operator": "In", "values": [99]}})
    ended = settle(submit(at, retry_policy=policy()), message=message_of(retry=False))
    assert (decision(ended).reason, ended.retry_state) == ("workload_said_no", "not_retried")
    later = settle(submit(at, retry_policy=policy()), message=message_of(after=120))
    assert decision(later).delay == 120
    called = settle(submit(at, retry_policy=policy()), message=message_of(category="cuda_error"))
    assert called.failure_category == "cuda_error"
    unknown = settle(submit(at, retry_policy=policy()), message=message_of(category="nobody's"))
    assert (unknown.failure_category, decision(unknown).action) == ("", "retry")


def test_a_session_shows_its_policies(at: Project, client: Client) -> None:
    owner = user(project=at)
    names = [named(at, "infra", INFRA), named(at, "ml", MEMORY)]
    session = settle(submit(at, owner=owner, retry_policies=names), **PREEMPTED)
    headers = {"Authorization": f"Bearer {token(owner)}"}
    shown = client.get(f"/api/v2/sessions/{session.pk}/", headers=headers).json()
    assert shown["retry_policies"] == names
    state = shown["retry_state"]
    assert (state["state"], state["rule"], state["attempt"]) == ("scheduled", "infra/moved", 0)
    assert state["budgets"] == [
        {"name": "infra/moved", "used": 0, "limit": 10},
        {"name": "ml/more-memory", "used": 0, "limit": 3},
    ]
    assert state["max_attempts"] == 14
    body = client.get(f"/api/v2/sessions/{session.pk}/retry-decision/", headers=headers).json()
    assert (body["rule"], body["paid_by"]) == ("infra/moved", "infra/moved")
    assert body["policy_revisions"] == {"infra": 1, "ml": 1}
    assert any("infra/moved" in sentence for sentence in body["explanation"])


def test_the_statements_of_a_settle_do_not_grow_with_policies(
    at: Project, django_assert_max_num_queries: Any
) -> None:
    names = [named(at, f"p{number}", INFRA) for number in range(8)]
    sessions = [submit(at, retry_policies=names) for _ in range(20)]
    sessions_settle({sessions[0].pk: End(Termination(conditions=("Preempted",)))})
    rest = {session.pk: End(Termination(conditions=("Preempted",))) for session in sessions[1:]}
    with django_assert_max_num_queries(12):
        sessions_settle(rest)


@pytest.mark.django_db(transaction=True)
def test_edits_while_a_thousand_sessions_fail() -> None:
    """Each decision is by one whole revision: the limit and the revision that it tells agree."""
    at = project()
    owner = user(project=at)
    named(at, "edited", INFRA | {"retryLimit": 1})
    sessions = [submit(at, owner=owner, retry_policies=["edited"]) for _ in range(1000)]
    failing = [sessions[::2], sessions[1::2]]
    over = []

    def edit() -> None:
        for limit in range(2, 40):
            named(at, "edited", INFRA | {"retryLimit": limit})
        over.append(True)
        connection.close()

    def fail(mine: list[Session]) -> None:
        for first in range(0, len(mine), 20):
            sessions_settle(
                {
                    session.pk: End(Termination(conditions=("Preempted",)))
                    for session in mine[first : first + 20]
                }
            )
        connection.close()

    threads = [Thread(target=edit), *(Thread(target=fail, args=(mine,)) for mine in failing)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert over == [True]
    rows = RetryDecision.objects.values_list("limit", "policy_revisions", "reason")
    assert len(rows) == 1000
    assert {reason for _, _, reason in rows} == {"rule_retry"}
    assert all(revisions == {"edited": limit} for limit, revisions, _ in rows)
    assert len({limit for limit, _, _ in rows}) > 1
    assert check_all() == []
