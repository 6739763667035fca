"""Tests of what simulate takes and refuses, with the path of each fault."""

import json
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.http.parsing import BodyTooLarge
from interfaces.simulate import parser
from interfaces.simulate.parser import SimulateCall, SimulateParser
from interfaces.simulate.render import simulation_text
from retry.evidence.termination import ContainerFacts, Termination
from retry.simulate import NAMESPACE, SHIPPED, Tally, made_up_id, simulate
from sessions_app.core.errors import InvalidInput, TooLarge
from tests.unit.retry.recorded import recorded


def parsed(body: Any, **meta: str) -> SimulateCall:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    context = {"request": SimpleNamespace(META=meta)}
    return SimulateParser().parse(BytesIO(text), None, context)["call"]


def refused(body: Any) -> dict[str, list[str]]:
    with pytest.raises(InvalidInput) as caught:
        parsed(body)
    return caught.value.errors


def ended(**termination: Any) -> Any:
    """The ending that is read of one termination."""
    call = parsed({"chains": [{"terminations": [termination]}]})
    assert call.chains is not None
    (ending,) = call.chains[0].endings
    return ending


def policy(name: str = "p", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": name}}
    return {**head, "spec": spec}


CHAIN = {"terminations": [{"exit_code": 1}]}


def test_everything_that_may_be_given() -> None:
    call = parsed(
        {
            "policies": [policy("a", defaultAction="Fail"), {**policy("b"), "status": {"x": 1}}],
            "retry_policy": {"max_retries": 3},
            "settings": {"enabled": False, "global_max_retries": 20},
            "failure_categories": [{"name": "c", "matchers": [{"onPodMessage": {"pattern": "x"}}]}],
            "chains": [
                {
                    "terminations": [{"status": "ERROR", "at": 5}],
                    "session_type": "Batch",
                    "resources": {"cpu": 2, "memory": "4Gi"},
                }
            ],
        }
    )
    assert [each.name for each in call.draft.named or ()] == ["a", "b"]
    assert [each.name for each in call.draft.categories or ()] == ["c"]
    assert call.draft.policy is not None
    assert call.draft.policy.model_fields_set == {"max_retries"}
    assert (call.draft.enabled, call.draft.global_max_retries) == (False, 20)
    assert call.history is None
    assert call.chains is not None
    (chain,) = call.chains
    assert (chain.session_type, chain.resources) == ("batch", {"cpu": 2, "memory": "4Gi"})
    assert (chain.endings[0].at, chain.endings[0].termination.status) == (5.0, "error")


def test_the_order_of_the_members_does_not_matter() -> None:
    before = parsed({"policies": [policy()], "chains": [CHAIN]})
    after = parsed({"chains": [CHAIN], "policies": [policy()]})
    assert before.chains == after.chains
    assert [each.name for each in after.draft.named or ()] == ["p"]


@pytest.mark.parametrize("absent", [{}, {"policies": None, "retry_policy": None, "settings": None}])
def test_absent_fields_keep_their_defaults(absent: dict[str, Any]) -> None:
    call = parsed({**absent, "history": {"since": "2030-01-01T00:00:00Z"}})
    assert (call.draft.named, call.draft.policy, call.draft.categories) == (None, None, None)
    assert (call.draft.enabled, call.draft.global_max_retries) == (True, None)
    assert call.chains is None
    assert call.history is not None
    assert call.history.since.isoformat() == "2030-01-01T00:00:00+00:00"


def test_a_termination_is_read_as_the_engine_reads_it() -> None:
    session_id = "AAAAAAAA-2222-4333-8444-555555555555"
    ending = ended(
        session_id=session_id, status="cancelled", exit_code=3, conditions=["Evicted"],
        reason="r", message="m\x00", pod_message="p\ud800", node="n", at=1.5, lease_expired=True,
        containers=[{"name": "main", "init": True, "exit_code": 3, "finished_at": 7}],
    )  # fmt: skip
    assert ending.session_id == session_id.lower()
    assert ending.at == 1.5
    assert ending.termination == Termination(
        "cancelled", 3, ("Evicted",), "r", "m\ufffd", "p\ufffd", "n", True,
        (ContainerFacts("main", True, 3, finished_at="7.0"),),
    )  # fmt: skip


def test_every_field_of_a_termination_is_optional_and_null_is_absent() -> None:
    nulls = dict.fromkeys(
        ("session_id", "status", "exit_code", "conditions", "reason", "message", "node", "at",
         "lease_expired", "containers")
    )  # fmt: skip
    assert ended(**nulls) == ended()
    assert ended().termination == Termination()
    assert ended().at is None


def test_a_session_without_an_id_gets_one_of_its_place() -> None:
    call = parsed({"chains": [CHAIN, {"terminations": [{}, {}]}]})
    ids = [ending.session_id for chain in call.chains or () for ending in chain.endings]
    assert ids == [made_up_id(0, 0), made_up_id(1, 0), made_up_id(1, 1)]
    assert len(set(ids)) == 3
    assert UUID(ids[0]).version == 5
    assert str(NAMESPACE) == "565844ca-7ace-57fb-a79a-95e5356b5f18"


@pytest.mark.parametrize(
    ("pod", "status"),
    [("succeeded", "terminated"), ("oom-killed", "error"), ("exit-3", "error")],
)
def test_the_facts_of_a_pod_are_the_pods(pod: str, status: str) -> None:
    ending = ended(pod=recorded(pod), message="beside")
    assert ending.termination == Termination.from_json({"pod": recorded(pod), "message": "beside"})
    assert ending.termination.status == status
    assert ended(pod=recorded(pod), status="cancelled").termination.status == "cancelled"


@pytest.mark.parametrize("pod", [None, 7, "x", [], {}, {"status": {"phase": 3, "conditions": "x"}}])
def test_a_pod_is_free(pod: Any) -> None:
    assert ended(pod=pod, exit_code=3).termination.exit_code == 3


WRONG = [
    ({"exit_code": "3"}, ".exit_code"),
    ({"exit_code": True}, ".exit_code"),
    ({"exit_code": 1.5}, ".exit_code"),
    ({"exit_code": 2**31}, ".exit_code"),
    ({"status": "failed"}, ".status"),
    ({"status": 1}, ".status"),
    ({"session_id": "x"}, ".session_id"),
    ({"session_id": 7}, ".session_id"),
    ({"conditions": "OOMKilled"}, ".conditions"),
    ({"conditions": ["OOMKilled", 1]}, ".conditions[1]"),
    ({"reason": 1}, ".reason"),
    ({"message": ["x"]}, ".message"),
    ({"node": {}}, ".node"),
    ({"at": "5"}, ".at"),
    ({"at": -1}, ".at"),
    ({"at": 1e12}, ".at"),
    ({"at": float("nan")}, ".at"),
    ({"lease_expired": 1}, ".lease_expired"),
    ({"containers": {}}, ".containers"),
    ({"containers": [7]}, ".containers[0]"),
    ({"containers": [{}, {"init": "no"}]}, ".containers[1].init"),
    ({"containers": [{"exit_code": "1"}]}, ".containers[0].exit_code"),
    ({"containers": [{"image": "x"}]}, ".containers[0].image"),
    ({"exitCode": 3}, ".exitCode"),
    ({"message": "\ud800", "exit_code": "3"}, ".exit_code"),
    ("x", ""),
    (None, ""),
]


@pytest.mark.parametrize(("termination", "place"), WRONG)
def test_a_wrong_termination_is_named_by_its_place(termination: Any, place: str) -> None:
    chains = [CHAIN, CHAIN, CHAIN, {"terminations": [{}, termination]}]
    path = f"chains[3].terminations[1]{place}"
    found = refused({"chains": chains})
    assert len(found) == 1
    assert path in "".join(found)


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"policies": {}, "chains": []}, ["policies"]),
        ({"policies": [policy(str(n)) for n in range(17)], "chains": []}, ["policies"]),
        ({"policies": [policy(), policy()], "chains": []}, ["policies[1].metadata.name"]),
        ({"policies": [policy("inline")], "chains": []}, ["policies[0].metadata.name"]),
        ({"policies": [7], "chains": []}, ["policies[0]"]),
        ({"policies": [policy(retrylimit=3)], "chains": []}, ["policies[0].spec.retrylimit"]),
        (
            {
                "policies": [
                    policy("a"),
                    policy(
                        rules=[
                            {"action": "Retry", "onConditions": ["Evicted"]},
                            {"action": "Retry", "onExitCodes": {"operator": "In", "values": [0]}},
                        ]
                    ),
                ],
                "chains": [],
            },
            ["policies[1].spec.rules[1].onExitCodes.values[0]"],
        ),
        ({"retry_policy": {"max_retry": 1}, "chains": []}, ["retry_policy.max_retry"]),
        ({"retry_policy": {"max_retries": "1"}, "chains": []}, ["retry_policy.max_retries"]),
        ({"settings": {"enabled": "yes"}, "chains": []}, ["settings.enabled"]),
        ({"settings": {"global_max_retries": -1}, "chains": []}, ["settings.global_max_retries"]),
        ({"settings": {"mode": "off"}, "chains": []}, ["settings.mode"]),
        ({"failure_categories": [{"name": "c"}], "chains": []}, ["failure_categories[0].matchers"]),
        ({"chains": {}}, ["chains"]),
        ({"chains": [7]}, ["chains[0]"]),
        ({"chains": [{"terminations": {}}]}, ["chains[0].terminations"]),
        ({"chains": [{"session_type": "x"}]}, ["chains[0].session_type"]),
        ({"chains": [{"resources": {"memory": "x"}}]}, ["chains[0].resources"]),
        ({"chains": [{"resources": []}]}, ["chains[0].resources"]),
        ({"chains": [{"attempts": []}]}, ["chains[0].attempts"]),
        ({"chain": [], "chains": []}, ["chain"]),
        ({}, ["chains"]),
        ({"chains": None}, ["chains"]),
        ({"chains": [], "history": {"since": "2030-01-01T00:00:00Z"}}, ["history"]),
        ({"history": {}}, ["history.since"]),
        ({"history": {"since": "2030-01-01"}}, ["history.since"]),
        ({"history": {"since": 5}}, ["history.since"]),
        ({"history": {"since": "2030-01-01T00:00:00Z", "project": 3}}, ["history.project"]),
        ({"history": {"since": "2030-01-01T00:00:00Z", "days": 3}}, ["history.days"]),
        (
            {"history": {"since": "2030-01-01T00:00:00Z", "until": "2030-01-01T00:00:00Z"}},
            ["history.until"],
        ),
        ({"policies": ["\x00"], "chains": []}, ["policies[0]"]),
        (b"[]", ["body"]),
        (b"{", ["body"]),
        (b'{"chains": [}', ["body"]),
        (b"\xff", ["body"]),
        (b'{"chains": [], "chains": []}', ["chains"]),
        (b'{"chains": [], "policies": [{"kind": 1, "kind": 2}]}', ["body"]),
        (b'{"chains": [{"terminations": [' + b"[" * 10**5, ["chains[0].terminations[0]"]),
        (b'{"policies": ' + b"[" * 10**5, ["policies"]),
        (b'{"policies": ' + b"[" * 70 + b"]" * 70 + b', "chains": []}', ["policies"]),
    ],
)
def test_errors_are_named(body: Any, paths: list[str]) -> None:
    assert list(refused(body)) == paths


def test_all_faults_are_told_at_once_up_to_a_hundred() -> None:
    bad = {"terminations": [{"exit_code": "x"}]}
    found = refused({"policies": [7], "chains": [bad, CHAIN, bad], "x": 1})
    assert set(found) == {
        "policies[0]",
        "chains[0].terminations[0].exit_code",
        "chains[2].terminations[0].exit_code",
        "x",
    }
    assert len(refused({"chains": [bad] * 1000})) == 100


def test_more_terminations_than_one_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MAX_TERMINATIONS", 3)
    parsed({"chains": [{"terminations": [{}] * 2}, {"terminations": [{}]}]})
    with pytest.raises(TooLarge, match="more than 3 terminations in one call; send them in parts"):
        parsed({"chains": [{"terminations": [{}] * 2}, {"terminations": [{}] * 2}]})
    with pytest.raises(TooLarge, match="more than 3 chains"):
        parsed({"chains": [{}] * 4})


def test_a_body_that_is_too_long_is_not_read_first() -> None:
    body = BytesIO(b" " * 20_000_000)
    meta = {"CONTENT_LENGTH": str(64 * 1024 * 1024 + 1)}
    with pytest.raises(BodyTooLarge, match="over the limit of 67108864 bytes"):
        SimulateParser().parse(body, None, {"request": SimpleNamespace(META=meta)})
    # As much is taken as a client needs to have sent before it looks for the answer.
    assert body.tell() == 16 * 1024 * 1024


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.sampled_from(["error", "Retry", "OOMKilled", "reprise/v1", "2030-01-01T00:00:00Z"])
    | st.just("\ud800")
)  # fmt: skip
keys = st.sampled_from(
    ["policies", "retry_policy", "settings", "failure_categories", "chains", "history",
     "terminations", "session_type", "resources", "exit_code", "conditions", "containers", "pod",
     "at", "status", "session_id", "spec", "rules", "metadata", "name", "since", "project",
     "max_retries", "x\x00"]
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
given_terminations = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["error", "Terminated", "cancelled", None]),
        "exit_code": st.integers(-1, 300) | st.none(),
        "conditions": st.lists(
            st.sampled_from(["OOMKilled", "Preempted", "x", "\ud800"]), max_size=2
        ),
        "message": st.text(max_size=5) | st.just('{"reprise": {"after": 5}}'),
        "at": st.floats(0, 1e11) | st.integers(0, 10**11),
        "pod": anything,
        "containers": st.lists(
            st.fixed_dictionaries({}, optional={"name": st.text(max_size=2), "exit_code": scalars}),
            max_size=2,
        ),
    },
)
bodies = st.fixed_dictionaries(
    {
        "chains": st.lists(
            st.fixed_dictionaries({"terminations": st.lists(given_terminations, max_size=4)}),
            max_size=3,
        )
    },
    optional={"retry_policy": st.just({"max_retries": 2}), "policies": st.just([policy()])},
)


@given(body=st.dictionaries(keys, anything, max_size=4) | bodies)
def test_any_body_is_simulated_or_refused_in_words(body: Any) -> None:
    try:
        call = parsed(body)
    except InvalidInput as error:
        refusal = error
    else:
        check(call)
        return
    assert refusal.errors


def check(call: SimulateCall) -> None:
    if call.chains is None:
        assert call.history is not None
        return
    tally = Tally()
    rulebook = call.draft.over(SHIPPED)
    simulated = simulate(((chain, rulebook) for chain in call.chains), tally)
    text = b"".join(simulation_text(simulated, tally.summary, chains=True))
    found = json.loads(text, parse_constant=pytest.fail)
    assert len(found["chains"]) == len(call.chains) == found["summary"]["chains"]
    decided = [each for chain in found["chains"] for each in chain["attempts"] if each["action"]]
    assert sum(found["summary"]["by_reason"].values()) == len(decided)
    assert sum(found["summary"]["by_cause"].values()) == found["summary"]["retries"]
