import json
from typing import Any

import pytest

from retry.engine.decide import Decision, Mode, Settings
from retry.evidence.causes import RetryCause
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.explain.endings import ending_message
from retry.explain.sentences import explain
from retry.policies.merge import Bound, Layer, MergedBounds
from tests.unit.retry.build import PREEMPTED, a_chain, a_container, decided, exited
from tests.unit.retry.named import named
from tests.unit.retry.recorded import NAMES, composed, recorded


def sentences_of(decision: Decision) -> list[str]:
    stored = json.loads(json.dumps(decision._asdict(), default=str))
    sentences = explain(stored, stored["trace"])
    assert all(not sentence[0].islower() and sentence.endswith(".") for sentence in sentences)
    return sentences


def test_a_retry_is_told_from_its_cause_to_its_time() -> None:
    oom = Termination(node="n1", containers=(a_container("main", 137, reason="OOMKilled"),))
    decision = decided(
        oom,
        chain=a_chain(retry_count=2),
        max_retries=3,
        backoff="exponential",
        jitter="random",
        jitter_ratio=0.1,
        max_chain_duration=86_400,
    )
    assert sentences_of(decision) == [
        "The container main was OOM-killed on node n1, so the cause is oom_killed.",
        "2 of 3 retries for failures were used; this one pays from it.",
        "The delay is 1 min x 2^2 = 4 min, plus 12 s of jitter, under the cap of 1 h.",
        "The retry comes due 14 min 12 s after the chain began, within its limit of 1 d.",
        "The session is retried after 4 min 12 s, at 2030-01-01 00:14:12 UTC.",
    ]


@pytest.mark.parametrize(
    ("decision", "sentence"),
    [
        (
            decided(exited(3)),
            "The container exited with code 3, so the cause is kernel_nonzero_exit.",
        ),
        (
            decided(Termination(reason="ErrImagePull", pod_message="no such image.", node="n1")),
            (
                "The image could not be pulled on node n1, so the cause is image_pull_failure. "
                "The cluster said: no such image."
            ),
        ),
        (decided(exited(3)), "The retry policy has no retries for failure causes."),
        (
            decided(
                chain=a_chain(signature="0a1b2c3d4e5f", failures=["0a1b2c3d4e5f"]),
                max_retries=3,
                stop_after_same=2,
            ),
            (
                "The last 2 failures are the same one, 0a1b2c3d4e5f, and the retry policy allows "
                "fewer than 2."
            ),
        ),
        (
            decided(max_retries=3, retry_window=86_400),
            ("0 of 3 retries for failures were used in the last 1 d; this one pays from it."),
        ),
        (
            decided(max_retries=3, reset_on_progress=True),
            "0 of 3 retries for failures were used since the last progress; this one pays from it.",
        ),
        (
            decided(chain=a_chain(retry_count=7), max_retries="unlimited"),
            "7 retries for failures were used, with no limit of their own; this one pays from it.",
        ),
        (
            decided(
                PREEMPTED,
                named=[named({"name": "any", "action": "Retry", "onConditions": ["Preempted"]})],
                settings=Settings(global_max_retries=None),
            ),
            (
                "Rule infra/any (on the condition) says Retry: 0 of its retries were used, with no "
                "limit of their own; this one pays from them."
            ),
        ),
        (
            decided(
                max_retries="unlimited", bounds=MergedBounds(max_retries=Bound(5, Layer.DOMAIN))
            ),
            "A bound set by domain changes max_retries from unlimited to 5.",
        ),
        (decided(exited(3)), "No policy asks for a retry."),
        (decided(exited(3)), "The session is not retried."),
        (
            decided(chain=a_chain(session_type="interactive")),
            "Only batch sessions are retried; this one is interactive.",
        ),
        (
            decided(cause=RetryCause.QUOTA_EXCEEDED),
            "The cause quota_exceeded is never retried.",
        ),
        (
            decided(Termination(status="cancelled")),
            "The session was cancelled, so its chain ends here.",
        ),
        (decided(settings=Settings(mode=Mode.OFF)), "Retries are switched off."),
        (
            decided(settings=Settings(mode=Mode.PAUSED), max_retries=1),
            "The retry is held until retries are switched on again.",
        ),
        (
            decided(chain=a_chain(retry_count=4), settings=Settings(global_max_retries=3)),
            "The chain was retried 4 times and no chain may be retried more than 3.",
        ),
        (
            decided(max_retries=1, eligible_causes=[]),
            "The retry policy excludes the cause kernel_nonzero_exit.",
        ),
        (
            decided(exited(3), max_retries=1, no_retry_on_exit_codes=[3]),
            "The retry policy excludes exit code 3.",
        ),
        (
            decided(exited(3), max_retries=1, retry_on_exit_codes=[4]),
            "Exit code 3 is not among those that the retry policy retries.",
        ),
        (
            decided(chain=a_chain(retry_count=3), max_retries=3),
            "3 of 3 retries for failures were used, so none is left.",
        ),
        (
            decided(chain=a_chain(retry_count=3), max_retries=3),
            "The retries of the chain are exhausted, so it ends here.",
        ),
        (
            decided(PREEMPTED, max_preemption_retries=5),
            "0 of 5 retries for preemptions were used; this one pays from it.",
        ),
        (
            decided(max_retries=1, jitter="none"),
            "The delay is 1 min, under the cap of 1 h.",
        ),
        (
            decided(
                chain=a_chain(retry_count=9), max_retries=10, backoff="exponential", jitter="none"
            ),
            "The delay is 1 min x 2^9, cut to the cap of 1 h.",
        ),
        (
            decided(
                max_retries=1,
                jitter="none",
                max_retry_delay=10,
                bounds=MergedBounds(min_retry_delay=Bound(120.0, Layer.DOMAIN)),
            ),
            "The delay is 2 min, cut to the cap of 10 s, raised to the bound's least, 2 min.",
        ),
        (
            decided(max_retries=1, jitter="none", max_chain_duration=100),
            "The retry would come due 11 min after the chain began, past its limit of 1 min 40 s.",
        ),
        (
            decided(max_retries=9, bounds=MergedBounds(max_retries=Bound(5, Layer.DOMAIN))),
            "A bound set by domain changes max_retries from 9 to 5.",
        ),
        (
            decided(
                max_retries=1,
                bounds=MergedBounds(max_chain_duration=Bound(7200.0, Layer.PROJECT)),
            ),
            "A bound set by project changes max_chain_duration from no limit to 2 h.",
        ),
    ],
)
def test_every_step_has_its_sentence(decision: Decision, sentence: str) -> None:
    assert sentence in sentences_of(decision)


@pytest.mark.parametrize("cause", list(RetryCause))
def test_every_cause_has_words_of_its_own(cause: RetryCause) -> None:
    sentence = sentences_of(decided(Termination(node="n1"), cause=cause))[0]
    assert sentence.endswith(f", so the cause is {cause}.")
    assert not sentence.startswith("The session failed")


def test_steps_of_another_version_do_not_spoil_the_rest() -> None:
    trace: list[dict[str, Any]] = [{"step": "divination"}, {}, {"step": "no_policy"}]
    assert explain({}, trace) == ["No policy asks for a retry.", "The session is not retried."]


@pytest.mark.parametrize("granted", [0, 1])
def test_a_retry_by_hand_is_told_with_its_author(granted: int) -> None:
    decision = decided(max_retries=granted)
    fields = {"action": decision.action, "state": "dispatched", "dispatched_by": "ada"}
    assert explain(fields, decision.trace)[-1] == "It was retried at once by hand, by ada."


PARKED = "The chain {} parked for up to 1 d, as its policy asks."
WAITS = (
    "The retries of the chain are exhausted. It waits until somebody retries it or gives it up, or "
    "until its time is over."
)
EXHAUSTED = "The retries of the chain are exhausted, so it ends here."
SLOTTED = "for a free slot: it was over the limit of retries a minute"
ASKED = {"state": "scheduled", "held_for": "", "requested_by": "ann"}
RELEASED = {"state": "dispatched", "held_for": "", "dispatched_by": "ann", "next_session_id": "s"}


@pytest.mark.parametrize(
    ("fields", "sentences"),
    [
        (
            {},
            [PARKED.format("is"), WAITS],
        ),
        (
            {"retry_state": "exhausted", "state": "final", "held_for": ""},
            [
                f"{PARKED.format('was')} Then somebody gave it up, or its time was over.",
                EXHAUSTED,
            ],
        ),
        (
            {"retry_state": "cancelled", "state": "cancelled", "held_for": ""},
            [PARKED.format("was"), "The session was cancelled, so its chain ends here."],
        ),
        (
            {**RELEASED, "retry_state": "retried"},
            [PARKED.format("was"), "It was retried at once by hand, by ann."],
        ),
        (
            {**ASKED, "retry_state": "scheduled"},
            [PARKED.format("was"), f"ann asked for another attempt, which waits {SLOTTED}."],
        ),
    ],
)
def test_a_chain_that_was_parked_is_told_with_its_end(
    fields: dict[str, Any], sentences: list[str]
) -> None:
    decision = decided(chain=a_chain(retry_count=1), max_retries=1, on_exhausted="park")
    told = explain({**decision._asdict(), **fields}, decision.trace)
    spent = "1 of 1 retries for failures were used, so none is left."
    after = told[told.index(spent) + 1 :]
    assert after[: len(sentences)] == sentences
    assert "is not retried" not in " ".join(told)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"paced": True},
            "It was over the limit of retries a minute, and postponed to a later slot.",
        ),
        (
            {"paced": True, "requested_by": "ann"},
            f"ann asked for another attempt, which waits {SLOTTED}.",
        ),
        (
            {"requested_by": "ann", "dispatched_by": "ann", "state": "dispatched"},
            f"ann asked for another attempt, which waited {SLOTTED}.",
        ),
        ({"dispatched_by": "bob"}, "It was retried at once by hand, by bob."),
    ],
)
def test_the_outcome_is_told_last(fields: dict[str, Any], sentence: str) -> None:
    stored = {"action": "retry", "state": "scheduled", "delay": 5.0} | fields
    assert explain(stored, [])[1:] == [sentence]


def because(termination: Termination) -> str:
    """The first sentence, and the message of a session that ended like this."""
    first = sentences_of(decided(termination))[0]
    assert first.startswith(ending_message(Ended(termination)).partition(":")[0])
    return first


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "deleted-graceful",
            "The pod on node lab-node was deleted by somebody, so the cause is agent_transient.",
        ),
        (
            "refused-sysctl",
            (
                "Node lab-node refused the pod (SysctlForbidden), so the cause is start_failure. "
                'The cluster said: Pod was rejected: forbidden sysctl: "net.core.somaxconn" not '
                "allowlisted."
            ),
        ),
        (
            "out-of-cpu",
            (
                "Node lab-node refused the pod (OutOfcpu), so the cause is agent_transient. The "
                "cluster said: Pod was rejected: Node didn't have enough resource: cpu, requested: "
                "64000, used: 0, capacity: 2000."
            ),
        ),
        (
            "kueue-preempted",
            (
                "The run was preempted on node lab-node, so the cause is preempted. The cluster "
                "said: Preempted to accommodate a workload "
                "(UID: 0f3f0e6c-6a53-4c27-b5a4-3c86f0f6b0b1) due to "
                "prioritization in the ClusterQueue."
            ),
        ),
        (
            "oom-killed",
            "The container main was OOM-killed on node lab-node, so the cause is oom_killed.",
        ),
        (
            "sidecar-crash-loop",
            (
                "The container main exited with code 3 on node lab-node, so the cause is "
                "kernel_nonzero_exit."
            ),
        ),
    ],
)
def test_the_cluster_has_its_say(name: str, sentence: str) -> None:
    pod = recorded(name) if name in NAMES else composed(name)
    assert because(Termination.from_json({"pod": pod})) == sentence


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"conditions": ["PodDeleted", "PodVanished"]}, "The pod was deleted by somebody"),
        ({"reason": "PodVanished", "node": "n1"}, "The pod on node n1 has vanished"),
        ({"conditions": ["NodeLost"], "node": "n1"}, "Node n1 does not answer"),
        ({"conditions": ["NodeShutdown"]}, "Its node was shut down"),
        ({"lease_expired": True, "conditions": ["PodDeleted"]}, "The platform lost the run"),
        ({"reason": "OutOfexample.com/gpu"}, "The platform lost the run or could not take it"),
        ({"conditions": ["Preempted"], "rank": 3}, "Rank 3 was preempted"),
        (
            {"containers": [{"name": "main", "exit_code": 4}], "rank": 0},
            "The container main of rank 0 exited with code 4",
        ),
        (
            {"reason": "PodDeleted", "rank": 2, "node": "n1"},
            "The pod of rank 2 on node n1 was deleted by somebody",
        ),
    ],
)
def test_the_author_of_an_end_is_told(facts: dict[str, Any], sentence: str) -> None:
    termination = Termination.from_json(facts)
    assert ending_message(Ended(termination)) == sentence
    assert because(termination).startswith(f"{sentence}, so the cause is")
