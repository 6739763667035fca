"""Simulate over REST, on given chains: the exact answer, and what is refused."""

import json
from typing import Any
from uuid import UUID, uuid5

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from interfaces.simulate import run as simulations
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.backoff import jitter_fraction
from retry.signatures.signature import signature
from retry.simulate import NAMESPACE
from sessions_app.models import RetryDecision, RetryPolicy, RetrySettings, Session
from tests import factories
from tests.agent import Api
from tests.graphs import Graph
from tests.unit.retry.recorded import recorded

PATH = "retry-policies/simulate/"


@pytest.fixture
def api() -> Api:
    """Somebody who is a member of nothing."""
    return Api(factories.token(factories.user("nobody")))


def answered(response: Any) -> Any:
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "application/json"
    content = b"".join(response) if response.streaming else response.content
    return json.loads(content)


def simulated(api: Api, *terminations: Any, **body: Any) -> Any:
    """The only chain of the answer."""
    chain = {"terminations": list(terminations), **body.pop("chain", {})}
    (found,) = answered(api.post(PATH, {**body, "chains": [chain]}))["chains"]
    return found


def policy(name: str, *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": name}}
    return {**head, "spec": {"rules": list(rules), **spec}}


def retry(*conditions: str, **fields: Any) -> dict[str, Any]:
    return {"action": "Retry", "onConditions": list(conditions), **fields}


def rows_of(chain: Any, *names: str) -> list[Any]:
    return [tuple(attempt[name] for name in names) for attempt in chain["attempts"]]


PREEMPTED = {"conditions": ["Preempted"], "node": "n1"}
OOM = {"conditions": ["OOMKilled"], "exit_code": 137}
FAILED = {"exit_code": 1}


def test_the_answer_by_the_page(api: Api) -> None:
    """A chain worked out by hand from retry.md and api.md."""
    session_id = "11111111-2222-4333-8444-555555555555"
    body = {
        "policies": [
            policy("infra", retry("Preempted", name="gone", antiAffinity={"mode": "node"}),
                   retryLimit=10, backoff={"initialDelay": "10s", "multiplier": 3}),
            policy("ml", retry("OOMKilled", name="oom", retryLimit=3,
                               resources={"memory": {"factor": 1.5, "max": "10Gi"}})),
        ],
        "retry_policy": {"max_retries": 1, "retry_delay": 60},
        "settings": {"enabled": True, "global_max_retries": 20},
        "failure_categories": [
            {"name": "cuda_error", "matchers": [{"onTerminationMessage": {"pattern": "CUDA"}}]}
        ],
        "chains": [
            {
                "session_type": "batch",
                "resources": {"cpu": "2", "memory": "4Gi"},
                "terminations": [
                    PREEMPTED,
                    {"conditions": ["Preempted"], "node": "n2"},
                    {**OOM, "node": "n3"},
                    OOM,
                    {"exit_code": 1, "message": "CUDA error", "session_id": session_id},
                    {"status": "terminated"},
                    {"exit_code": 9},
                ],
            },
            {"terminations": [{"exit_code": 3}]},
            {"terminations": [{"exit_code": 3}, {"exit_code": 4}]},
        ],
    }  # fmt: skip
    found = answered(api.post(PATH, body))
    traces = [each.pop("trace") for chain in found["chains"] for each in chain["attempts"]]
    assert all(isinstance(step, dict) and "step" in step for trace in traces for step in trace)
    assert all(traces[:5])
    assert traces[5] == []

    def made_up(chain: int, attempt: int) -> str:
        return str(uuid5(NAMESPACE, f"{chain}:{attempt}"))

    def inline(session_id: str, count: int) -> float:
        return 60 + 60 * 0.25 * jitter_fraction(session_id, count)

    plain = {"cpu": "2", "memory": "4Gi"}
    nothing = dict.fromkeys(
        ("cause", "failure_category", "action", "reason", "rule", "paid_by", "used", "limit",
         "delay", "avoid_node", "resources", "placement")
    )  # fmt: skip

    def retried(attempt: int, session: str, cause: str, **fields: Any) -> dict[str, Any]:
        head = {"attempt": attempt, "session_id": session, "cause": cause}
        rest = {"failure_category": None, "action": "retry", "avoid_node": None}
        rest["placement"] = None
        return {**head, **rest, **fields}

    gone = {"rule": "infra/gone", "paid_by": "infra/gone", "reason": "rule_retry", "limit": 10}
    oom = {"rule": "ml/oom", "paid_by": "ml/oom", "reason": "rule_retry", "limit": 3}
    own = {"rule": None, "paid_by": "inline/failure", "reason": "inline_retry", "limit": 1}
    spent = nothing | {"action": "fail", "reason": "max_retries", "used": 1, "limit": 1}
    for attempt in (each for chain in found["chains"] for each in chain["attempts"]):
        told = [attempt.pop(name) for name in ("failure_signature", "failure_title")]
        assert all(told) or (told == [None, None] and attempt["action"] is None)
    assert found["chains"][0] == {
        "outcome": "succeeded",
        "attempts": [
            retried(0, made_up(0, 0), "preempted", **gone, used=0, delay=10, avoid_node="n1",
                    resources=plain),
            retried(1, made_up(0, 1), "preempted", **gone, used=1, delay=30, avoid_node="n2",
                    resources=plain),
            retried(2, made_up(0, 2), "oom_killed", **oom, used=0, delay=inline(made_up(0, 2), 2),
                    resources={"cpu": "2", "memory": "6Gi"}),
            retried(3, made_up(0, 3), "oom_killed", **oom, used=1, delay=inline(made_up(0, 3), 3),
                    resources={"cpu": "2", "memory": "9Gi"}),
            retried(4, session_id, "kernel_nonzero_exit", **own, used=0,
                    delay=inline(session_id, 4), resources={"cpu": "2", "memory": "9Gi"},
                    failure_category="cuda_error"),
            {"attempt": 5, "session_id": made_up(0, 5), **nothing},
        ],
    }  # fmt: skip
    assert [chain["outcome"] for chain in found["chains"]] == [
        "succeeded", "retrying", "exhausted",
    ]  # fmt: skip
    assert found["chains"][2]["attempts"][1] == {
        "attempt": 1, "session_id": made_up(2, 1), **spent, "cause": "kernel_nonzero_exit",
    }  # fmt: skip
    assert found["summary"] == {
        "chains": 3,
        "retries": 7,
        "by_cause": {"preempted": 2, "oom_killed": 2, "kernel_nonzero_exit": 3},
        "by_rule": {"infra/gone": 2, "ml/oom": 2},
        "by_reason": {"rule_retry": 4, "inline_retry": 3, "max_retries": 1},
        "changed": [],
    }


def test_the_same_call_gives_the_same_answer(api: Api) -> None:
    body = {
        "retry_policy": {"max_retries": 5, "jitter": "random"},
        "chains": [{"terminations": [FAILED] * 4}] * 3,
    }
    first, second = (api.post(PATH, body).content for _ in "ab")
    assert first == second


def test_armadas_example(api: Api) -> None:
    policies = [
        policy("infra", retry("Preempted", "Evicted", name="gone"), retryLimit=10),
        policy("ml-training", retry("OOMKilled", name="oom", retryLimit=3), retryLimit=5),
    ]
    settings = {"global_max_retries": 20}
    found = simulated(api, *[PREEMPTED] * 10, *[OOM] * 3, OOM, policies=policies, settings=settings)
    assert found["outcome"] == "exhausted"
    assert rows_of(found, "rule", "used", "limit") == [
        *[("infra/gone", used, 10) for used in range(10)],
        *[("ml-training/oom", used, 3) for used in range(4)],
    ]
    # All together have the limit of the cluster.
    low = simulated(
        api, *[PREEMPTED] * 10, *[OOM] * 3, policies=policies, settings={"global_max_retries": 12}
    )
    assert rows_of(low, "reason")[-1] == ("global_limit",)
    assert len(low["attempts"]) == 13
    assert low["outcome"] == "exhausted"


def test_flusters_three_and_a_hundred(api: Api) -> None:
    fluster = {"max_retries": 3, "max_preemption_retries": 100}
    chain = [FAILED, *[PREEMPTED] * 100, FAILED, FAILED]
    found = simulated(api, *chain, FAILED, retry_policy=fluster)
    assert (len(found["attempts"]), found["outcome"]) == (104, "exhausted")
    assert rows_of(found, "reason", "used", "limit")[-1] == ("max_retries", 3, 3)
    found = simulated(api, *chain, PREEMPTED, retry_policy=fluster)
    assert rows_of(found, "reason", "used", "limit")[-1] == ("preemption_budget", 100, 100)


@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_backend_ais_budget_is_for_all_causes(api: Api, max_retries: int) -> None:
    ends = [PREEMPTED, FAILED, OOM, {"lease_expired": True}, FAILED, PREEMPTED]
    found = simulated(api, *ends, retry_policy={"max_retries": max_retries})
    assert len(found["attempts"]) == max_retries + 1
    assert found["outcome"] == ("exhausted" if max_retries else "not_retried")
    assert {budget for (budget,) in rows_of(found, "paid_by")[:-1]} <= {"inline/failure"}


def test_the_facts_are_read_from_a_pod(api: Api) -> None:
    pods = [{"pod": recorded(name)} for name in ("oom-killed", "evicted-by-api", "succeeded")]
    found = simulated(api, *pods, FAILED, retry_policy={"max_retries": 5})
    assert rows_of(found, "cause", "action") == [
        ("oom_killed", "retry"), ("evicted", "retry"), (None, None),
    ]  # fmt: skip
    assert found["outcome"] == "succeeded"


def test_without_a_status_an_end_is_an_error(api: Api) -> None:
    assert rows_of(simulated(api, {}), "cause") == [("unknown",)]
    assert rows_of(simulated(api, {"exit_code": 0}), "cause", "action") == [("unknown", "fail")]


def test_when_ends_come_and_the_chains_deadline(api: Api) -> None:
    own = {"max_retries": 9, "retry_delay": 60, "jitter": "none", "max_chain_duration": 200}
    found = simulated(api, FAILED, FAILED, {"exit_code": 1, "at": 139}, FAILED, retry_policy=own)
    assert rows_of(found, "action", "reason") == [
        ("retry", "inline_retry"),  # due at 60
        ("retry", "inline_retry"),  # at 120
        ("retry", "inline_retry"),  # at 199
        ("fail", "chain_deadline"),
    ]
    assert found["outcome"] == "exhausted"


@pytest.mark.parametrize(
    ("chain", "body", "reason", "outcome"),
    [
        ({"session_type": "interactive"}, {}, "not_batch", "not_retried"),
        ({}, {"settings": {"enabled": False}}, "retries_disabled", "not_retried"),
        ({}, {"settings": {"global_max_retries": 0}}, "global_limit", "exhausted"),
        ({}, {"retry_policy": {"max_retries": 0}}, "no_policy", "not_retried"),
        ({}, {"policies": [policy("p", defaultAction="Fail")], "retry_policy": {}},
         "default_fail", "not_retried"),
    ],
)  # fmt: skip
def test_some_policies_stop_a_chain_at_once(
    api: Api, chain: Any, body: Any, reason: str, outcome: str
) -> None:
    found = simulated(api, FAILED, chain=chain, **{"retry_policy": {"max_retries": 3}, **body})
    assert rows_of(found, "action", "reason", "resources") == [("fail", reason, None)]
    assert found["outcome"] == outcome


def test_a_cancelled_chain_is_over(api: Api) -> None:
    found = simulated(api, {"status": "CANCELLED"}, FAILED, retry_policy={"max_retries": 3})
    assert rows_of(found, "cause", "reason") == [("user_cancelled", "never_retried")]
    assert found["outcome"] == "cancelled"


def test_the_clusters_own_policies_and_defaults_are_not_asked(api: Api) -> None:
    admin = Api(factories.token(factories.user(superuser=True)))
    stored = policy("house", defaultAction="Retry")
    assert admin.post("retry-policies/", stored).status_code == 201
    RetrySettings.objects.update_or_create(
        domain=None, project=None, defaults={"default_policy": "house"}
    )
    defaults = {"policy": {"max_retries": 1}, "bounds": {"max_retries": 1}}
    assert admin.call("PUT", "retry-defaults/cluster/", defaults).status_code == 200
    assert simulated(api, FAILED)["outcome"] == "not_retried"
    found = simulated(api, FAILED, FAILED, retry_policy={"max_retries": 5})
    assert rows_of(found, "limit") == [(5,), (5,)]


def test_nothing_is_changed_and_little_is_asked_of_the_database(api: Api) -> None:
    body = {"policies": [policy("p", defaultAction="Retry")], "chains": [{"terminations": [{}]}]}
    api.post(PATH, body)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        api.post(PATH, {**body, "chains": body["chains"] * 50})
    # Only whose token it is.
    assert len(queries) <= 2
    assert not RetryPolicy.objects.exists()
    assert not RetryDecision.objects.exists()
    assert not Session.objects.exists()


def test_no_chains_are_no_chains(api: Api) -> None:
    summary = {"chains": 0, "retries": 0, "by_cause": {}, "by_rule": {}, "by_reason": {}}
    found = answered(api.post(PATH, {"chains": []}))
    assert found == {"chains": [], "summary": {**summary, "changed": []}}


def test_a_large_answer_is_sent_while_it_is_made(api: Api) -> None:
    body = {"retry_policy": {"max_retries": 9}, "chains": [{"terminations": [FAILED] * 8}] * 200}
    response = api.post(PATH, body)
    assert response.streaming
    found = answered(response)
    assert [len(chain["attempts"]) for chain in found["chains"]] == [8] * 200
    assert found["summary"]["retries"] == 1600
    small = answered(api.post(f"{PATH}?chains=false", body))
    assert small == {"chains": [], "summary": found["summary"]}


@pytest.mark.django_db(transaction=True)
def test_only_so_many_run_at_once(api: Api) -> None:
    body = {"retry_policy": {"max_retries": 9}, "chains": [{"terminations": [FAILED] * 8}] * 200}
    unread = [api.post(PATH, body) for _ in range(simulations.SIMULATIONS)]
    refused = api.post(PATH, {"chains": []})
    assert refused.status_code == 503
    assert refused["Retry-After"]
    assert "simulations are running already" in refused.json()["detail"]
    for response in unread[1:]:
        response.close()
    assert answered(unread[0])["summary"]["chains"] == 200
    assert [api.post(PATH, {"chains": []}).status_code for _ in range(20)] == [200] * 20


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"policies": [policy("p", {"action": "Retry", "onExitCodes": {"operator": "In",
          "values": [300]}})], "chains": []}, "policies[0].spec.rules[0].onExitCodes.values[0]"),
        ({"chains": [{}, {"terminations": [{}, {"exit_code": "1"}]}]},
         "chains[1].terminations[1].exit_code"),
        ({"chains": [{"terminations": [{"nodes": "n"}]}]}, "chains[0].terminations[0].nodes"),
        ({"history": {"since": "2030-01-01T00:00:00Z", "project": "void/ghost"}},
         "history.project"),
        ({}, "chains"),
        ({"unknown": 1, "chains": []}, "unknown"),
    ],
)  # fmt: skip
def test_errors_are_a_400_with_their_path(api: Api, body: Any, path: str) -> None:
    response = api.post(PATH, body)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert list(response.json()["errors"]) == [path]


def test_an_empty_body_is_a_400(api: Api) -> None:
    response = api.post(PATH)
    assert (response.status_code, list(response.json()["errors"])) == (400, ["chains"])


def test_another_query_parameter_is_a_400(api: Api) -> None:
    response = api.post(f"{PATH}?chain=false", {"chains": []})
    assert (response.status_code, list(response.json()["errors"])) == (400, ["chain"])


def test_more_terminations_than_one_call_takes_are_a_413(api: Api) -> None:
    body = b'{"chains": [{"terminations": [' + b",".join([b"{}"] * 100_001) + b"]}]}"
    response = api.post(PATH, body)
    assert response.status_code == 413
    assert "more than 100,000 terminations" in response.json()["detail"]


def test_a_body_over_the_limit_is_a_413(api: Api) -> None:
    response = api.post(PATH, b'{"chains": []}'.ljust(64 * 1024 * 1024 + 1))
    assert response.status_code == 413
    assert api.post(PATH, b'{"chains": []}'.ljust(2 * 1024 * 1024)).status_code == 200


def test_an_executors_token_is_not_for_this() -> None:
    factories.executor("one")
    executor = Api(factories.token(executor_name="one"))
    assert executor.post(PATH, {"chains": []}).status_code == 403
    assert Api().post(PATH, {"chains": []}).status_code == 401


def test_simulate_is_no_policy(api: Api) -> None:
    assert api.get(PATH).status_code == 405
    assert UUID(simulated(api, FAILED)["attempts"][0]["session_id"]).version == 5


def test_a_given_end_has_the_title_that_its_message_tells(api: Api) -> None:
    matchers = [{"onSignatureTitle": {"pattern": "^RuntimeError: NCCL timeout after #"}}]
    ends = [f"RuntimeError: NCCL {word} after 1800000 ms" for word in ("timeout", "crash")]
    body = {
        "failure_categories": [{"name": "network", "matchers": matchers}],
        "chains": [{"terminations": [{"exit_code": 1, "message": text}]} for text in ends],
    }
    found = answered(api.post(PATH, body))["chains"]
    assert [each["attempts"][0]["failure_category"] for each in found] == ["network", None]


OUTPUT = "step 7\nRuntimeError: NCCL timeout after 1800000 ms\n"


def known(*keys: str) -> dict[str, Any]:
    """A policy that gives up after failures with these signatures, and retries all others."""
    rule = {"action": "Fail", "onSignatures": list(keys)}
    return policy("known", rule, defaultAction="Retry")


def test_a_given_end_has_the_signature_that_its_output_tells(api: Api) -> None:
    failure = signature(Ended(Termination(exit_code=1)), OUTPUT)
    policies = [known(failure.key)]
    ends = [
        {**FAILED, "log_tail": OUTPUT.replace("1800000", "9")},
        {**FAILED, "log_tail": "error: disk is full"},
        {**FAILED, "message": "error: disk is full", "log_tail": OUTPUT},
        FAILED,
    ]
    found = [simulated(api, end, policies=policies) for end in ends]
    reasons = [each["attempts"][0]["reason"] for each in found]
    assert reasons == ["rule_fail", "default_retry", "default_retry", "default_retry"]


def test_graphql_takes_the_output_of_a_given_end(api: Api) -> None:
    failure = signature(Ended(Termination(exit_code=1)), OUTPUT)
    query = """query($policies: [JSON], $chains: [JSON]) {
        simulateRetryPolicy(policies: $policies, chains: $chains) {
            chains { attempts { reason } } } }"""
    chains = [{"terminations": [{**FAILED, "log_tail": OUTPUT}]}]
    graph = Graph(api.token)
    found = graph.ask(query, policies=[known(failure.key)], chains=chains)
    (chain,) = found["simulateRetryPolicy"]["chains"]
    assert chain["attempts"] == [{"reason": "rule_fail"}]


def test_each_attempt_has_its_signature_and_title_whatever_the_policy_asks(api: Api) -> None:
    failure = signature(Ended(Termination(exit_code=1)), OUTPUT)
    ends = ({**FAILED, "log_tail": OUTPUT}, {"conditions": ["Evicted"]}, {"status": "terminated"})
    found = simulated(api, *ends, retry_policy={"max_retries": 5, "max_preemption_retries": 5})
    evicted = signature(Ended(Termination(conditions=("Evicted",))))
    assert rows_of(found, "failure_signature", "failure_title") == [
        (failure.key, failure.title),
        (evicted.key, evicted.title),
        (None, None),
    ]
    query = """query($chains: [JSON]) { simulateRetryPolicy(chains: $chains) {
        chains { attempts { failureSignature failureTitle } } } }"""
    told = Graph(api.token).ask(query, chains=[{"terminations": [ends[0]]}])
    (chain,) = told["simulateRetryPolicy"]["chains"]
    assert chain["attempts"] == [{"failureSignature": failure.key, "failureTitle": failure.title}]


def test_equal_outputs_in_a_row_end_a_given_chain(api: Api) -> None:
    inline = {"max_retries": 5, "stop_after_same": 2}
    end = {**FAILED, "log_tail": OUTPUT}
    found = simulated(api, end, end, retry_policy=inline)
    assert rows_of(found, "reason") == [("inline_retry",), ("repeating_failure",)]


@pytest.mark.parametrize(
    ("tail", "status"),
    [("x" * 16_384, 200), ("x" * 16_385, 400), (7, 400), (None, 200), ("\x00 \ud800", 200)],
)
def test_a_given_output_has_a_bound(api: Api, tail: Any, status: int) -> None:
    body = {"chains": [{"terminations": [{**FAILED, "log_tail": tail}]}]}
    response = api.post(PATH, json.dumps(body).encode())
    assert response.status_code == status
    if status == 400:
        assert list(response.json()["errors"]) == ["chains[0].terminations[0].log_tail"]
