"""The sentences of decisions with named policies, and what holds of every explanation."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retry.engine.decide import Decision, Mode, Settings
from retry.engine.reasons import REASONS
from retry.evidence.causes import RetryCause
from retry.evidence.termination import Termination
from retry.explain.reasons import advice
from retry.explain.sentences import explain
from tests.unit.retry.build import NOW, PREEMPTED, a_chain, a_container, decided, exited
from tests.unit.retry.named import category, named


def sentences_of(decision: Decision) -> list[str]:
    stored = json.loads(json.dumps(decision._asdict(), default=str))
    return explain(stored, stored["trace"])


def on_code(code: int, **fields: Any) -> dict[str, Any]:
    values = {"operator": "In", "values": [code]}
    return {"action": "Retry", "onExitCodes": values, **fields}


def says(text: str, **fields: Any) -> dict[str, Any]:
    return {"action": "Retry", "onTerminationMessage": {"pattern": text}, **fields}


OOM = Termination(node="n1", containers=(a_container("main", 137, reason="OOMKilled"),))


def test_a_retry_by_a_rule_is_told_from_its_cause_to_its_time() -> None:
    rules = [
        {"name": "moved", "action": "Retry", "onConditions": ["Preempted"]},
        on_code(9, name="nine"),
        {
            "name": "memory",
            "action": "Retry",
            "onConditions": ["OOMKilled"],
            "onExitCodes": {"operator": "NotIn", "values": [1]},
            "retryLimit": 3,
            "backoff": {"initialDelay": "10s", "maxDelay": "5m"},
            "antiAffinity": {"mode": "node"},
            "resources": {"memory": {"factor": 1.5}},
        },
    ]
    chain = a_chain(retry_count=1, counters={"ml/memory": 1}, resources={"memory": "1Gi"})
    decision = decided(
        OOM,
        chain=chain,
        named=[named(on_code(5), name="infra", revision=2), named(*rules, name="ml", revision=7)],
        categories=[category("too_big", {"onConditions": ["OOMKilled"]})],
    )
    counter = "207fb009"
    assert sentences_of(decision) == [
        (
            "The container main was OOM-killed on node n1, so the cause is oom_killed and the "
            "failure category too_big."
        ),
        f"No rule of policy infra (revision 2) matches: {counter} wants another exit code.",
        (
            "Rule 3 of policy ml (revision 7) matches, the 2 before it do not: moved wants another "
            "condition, nine wants another exit code."
        ),
        (
            "Rule ml/memory (on the condition and the exit code) says Retry: 1 of its 3 retries "
            "were used; this one pays from them."
        ),
        "The delay is 10 s x 2^1 = 20 s, under the cap of 5 min, by the backoff of rule ml/memory.",
        "The next attempt avoids node n1.",
        "The next attempt gets 1536Mi of memory, 1.5 times the 1Gi of this one.",
        "The session is retried after 20 s, at 2030-01-01 00:10:20 UTC.",
    ]


GROWS = on_code(1, name="r", resources={"memory": {"factor": 2, "max": "2Gi"}})


def with_memory(amount: Any, **chain: Any) -> Decision:
    resources = {"memory": amount} if amount else {}
    return decided(chain=a_chain(resources=resources, **chain), named=[named(GROWS)])


@pytest.mark.parametrize(
    ("decision", "sentence"),
    [
        # Policies and their rules.
        (
            decided(named=[named(revision=4)]),
            "No rule matches: policy infra (revision 4) has none.",
        ),
        (
            decided(named=[named(on_code(5, name="a"), revision=None)]),
            "No rule of policy infra matches: a wants another exit code.",
        ),
        (
            decided(named=[named(on_code(5, name="a"), says("x", name="b"), on_code(1))]),
            (
                "Rule 3 of policy infra (revision 1) matches, the 2 before it do not: a wants "
                "another exit code, b wants another termination message."
            ),
        ),
        (
            decided(named=[named(on_code(5, name="a"), on_code(1))]),
            (
                "Rule 2 of policy infra (revision 1) matches, the one before it does not: a wants "
                "another exit code."
            ),
        ),
        (
            decided(named=[named(on_code(1))]),
            "The first rule of policy infra (revision 1) matches.",
        ),
        (
            decided(named=[named(*[on_code(5, name=name) for name in "abcde"])]),
            (
                "No rule of policy infra (revision 1) matches: a, b, c, d and e want another "
                "exit code."
            ),
        ),
        (
            decided(named=[named(*[on_code(5, name=name) for name in "abcdefgh"])]),
            (
                "No rule of policy infra (revision 1) matches: a, b, c, d, e and 3 more want "
                "another exit code."
            ),
        ),
        (
            decided(named=[named(*[on_code(5, name=f"r{at}") for at in range(100)])]),
            (
                "No rule of policy infra (revision 1) matches: r0, r1, r2, r3, r4 and 45 more want "
                "another exit code, 50 more do not match either."
            ),
        ),
        # The rule that matches.
        (
            decided(named=[named(on_code(1, name="r", action="Fail"))]),
            "Rule infra/r (on the exit code) says Fail.",
        ),
        (
            decided(named=[named(on_code(1, name="r", retryLimit=0))]),
            (
                "Rule infra/r (on the exit code) says Retry: 0 of its 0 retries were used, so none "
                "is left."
            ),
        ),
        # Default actions.
        (
            decided(named=[named(defaultAction="Fail")]),
            "No rule decides, and the defaultAction of policy infra is Fail.",
        ),
        (
            decided(named=[named(defaultAction="Retry")]),
            (
                "No rule decides, and the defaultAction of policy infra is Retry: 0 of its 150 "
                "retries were used; this one pays from them."
            ),
        ),
        (
            decided(
                chain=a_chain(retry_count=2, counters={"infra/default": 2}),
                named=[named(defaultAction="Retry", retryLimit=2)],
            ),
            (
                "No rule decides, and the defaultAction of policy infra is Retry: 2 of its 2 "
                "retries were used, so none is left."
            ),
        ),
        # What the workload says.
        (
            decided(exited(1, message='{"reprise": {"retry": false}}')),
            "The workload asked in its termination message for no retry.",
        ),
        (
            decided(exited(1, message='{"reprise": {"after": 90, "category": "x"}}')),
            (
                "In its termination message the workload asked to wait at least 1 min 30 s and "
                "gave its failure the category x, which nobody has defined."
            ),
        ),
        (
            decided(
                exited(1, message='{"reprise": {"category": "it"}}'),
                categories=[category("it", {"onConditions": ["Evicted"]})],
            ),
            "In its termination message the workload gave its failure the category it.",
        ),
        # The delay.
        (
            decided(named=[named(on_code(1), backoff={"initialDelay": "10s"})]),
            (
                "The delay is 10 s x 2^0 = 10 s, under the cap of 10 min, by the backoff of policy "
                "infra."
            ),
        ),
        (
            decided(named=[named(on_code(1), backoff={})]),
            "There is no delay, by the backoff of policy infra.",
        ),
        (
            decided(named=[named(on_code(1))], jitter="none"),
            "The delay is 1 min, under the cap of 1 h.",
        ),
        (
            decided(
                exited(1, message='{"reprise": {"after": 7200}}'),
                max_retries=1,
                jitter="none",
                max_retry_delay=None,
            ),
            (
                "The delay is 1 min, under the cap of 1 d, raised to 2 h for the workload, which "
                "asked for it."
            ),
        ),
        # The grace period.
        (
            decided(
                PREEMPTED,
                chain=a_chain(preempted_at=NOW - timedelta(seconds=4), grace_period=30),
                max_retries=1,
            ),
            "The delay counts from 2030-01-01 00:09:56 UTC, when the preemption was seen.",
        ),
        (
            decided(
                PREEMPTED,
                chain=a_chain(preempted_at=NOW, grace_period=30, confirmed=False),
                max_retries=1,
            ),
            (
                "The delay counts from 2030-01-01 00:10:00 UTC, when the preemption was seen; the "
                "run's end is not confirmed, so its grace period of 30 s counts, too."
            ),
        ),
        # Memory.
        (
            with_memory("1536Mi"),
            (
                "The next attempt gets 2Gi of memory, 2 times the 1536Mi of this one, limited by "
                "the maximum of the rule."
            ),
        ),
        (
            with_memory("1536Mi", memory_ceiling=1700 * 2**20),
            (
                "The next attempt gets 1700Mi of memory, 2 times the 1536Mi of this one, limited "
                "by the quota of the project."
            ),
        ),
        (
            with_memory("2Gi"),
            "The memory of the next attempt stays at 2Gi: the maximum of the rule allows no more.",
        ),
        (
            with_memory(None),
            "The rule asks for more memory, but the session requests no memory that could grow.",
        ),
        # What can be done.
        (
            decided(),
            (
                "To retry such failures, set max_retries in the session's retry_policy, or "
                "give its queue a policy with a rule for them."
            ),
        ),
        (
            decided(Termination(reason="InvalidImageName")),
            "Correct the specification and submit it again.",
        ),
        (
            decided(chain=a_chain(retry_count=1), max_retries=1),
            (
                "A higher max_retries allows more; `reprise session retry` makes one more attempt "
                "without it."
            ),
        ),
        (
            decided(settings=Settings(mode=Mode.OFF)),
            "Once retries are on again, `reprise session retry` makes one more attempt.",
        ),
    ],
)
def test_every_step_has_its_sentence(decision: Decision, sentence: str) -> None:
    assert sentence in sentences_of(decision)


def test_an_end_without_containers_says_why_no_container_is_matched() -> None:
    wanted = {"onExitCodes": {"operator": "In", "values": [1]}, "containerName": "main"}
    policies = [named({"action": "Retry", "name": "ours", **wanted})]
    says = "The end tells of no containers, so none has the containerName of a rule."
    assert says in " ".join(sentences_of(decided(Termination(exit_code=1), named=policies)))
    told = Termination(exit_code=1, containers=(a_container("other", 1),))
    assert says not in " ".join(sentences_of(decided(told, named=policies)))


def test_an_age_that_reads_like_its_limit_is_just_past_it() -> None:
    decision = decided(max_retries=1, jitter="none", max_chain_duration=659.9)
    sentence = "The retry would come due 11 min after the chain began, just past its limit."
    assert sentence in sentences_of(decision)


def test_advice_is_not_given_to_one_who_has_helped_himself() -> None:
    stored = decided()._asdict()
    assert explain(stored, [])[-1] == REASONS["no_policy"].advice
    for done in ({"next_session_id": "x"}, {"requested_by": "ann"}):
        assert REASONS["no_policy"].advice not in explain({**stored, **done}, [])


def test_every_refusal_has_advice() -> None:
    for reason, (*_, words) in REASONS.items():
        refused = not reason.endswith("_retry") and reason not in {"never_retried", "gave_way"}
        assert bool(words) == refused
    assert advice("never_retried", RetryCause.QUOTA_EXCEEDED)
    assert advice("of another version", "unknown") == ""


def test_a_time_is_told_in_utc() -> None:
    at = datetime(2030, 5, 1, 12, 0, tzinfo=UTC)
    for due_at in (at, at.isoformat(), "2030-05-01T14:00:00+02:00"):
        fields = {"action": "retry", "state": "scheduled", "delay": 1.0, "due_at": due_at}
        assert explain(fields, []) == [
            "The session is retried after 1 s, at 2030-05-01 12:00:00 UTC."
        ]
