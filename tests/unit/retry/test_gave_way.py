"""Who made room for another session comes back, whatever its policies say."""

from typing import Any

import pytest

from retry.engine.decide import Decision, Mode, Settings
from retry.engine.decision import SWITCH
from retry.evidence.termination import Termination
from retry.explain.sentences import explain
from tests.unit.retry.build import NOW, PREEMPTED, a_chain, decided

STOPPED = Termination(exit_code=143, reason="Preempted")
AT_LIMIT: dict[str, Any] = {"retry_count": 150, "counters": {"scheduler/preemption": 150}}


def decide(termination: Termination = STOPPED, **fields: Any) -> Decision:
    chain = a_chain(**{"gave_way": True, **fields})
    return decided(termination, chain=chain, max_retries=0, max_chain_duration=0.001)


def test_it_comes_back_at_once_without_any_policy_and_beyond_all_limits() -> None:
    decision = decide(**AT_LIMIT)
    assert (decision.action, decision.reason, decision.state) == ("retry", "gave_way", "scheduled")
    assert (decision.paid_by, decision.used, decision.limit) == ("scheduler/preemption", 150, None)
    assert (decision.delay, decision.due_at) == (0.0, NOW)
    assert "make room" in " ".join(explain(decision._asdict(), decision.trace))


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.PAUSED])
def test_it_is_held_while_retries_are_not_on(mode: Mode) -> None:
    chain = a_chain(gave_way=True)
    decision = decided(STOPPED, chain=chain, settings=Settings(mode=mode))
    assert (decision.action, decision.state, decision.held_for) == ("retry", "held", SWITCH)
    assert decision.retry_state == "held"


def test_a_grace_period_still_counts() -> None:
    decision = decide(confirmed=False, grace_period=30.0, preempted_at=NOW)
    assert decision.due_at is not None
    assert (decision.due_at - NOW).total_seconds() == 30


@pytest.mark.parametrize(
    ("termination", "reason"),
    [
        (Termination(exit_code=1), "no_policy"),
        (Termination(status="cancelled"), "never_retried"),
    ],
)
def test_another_end_is_decided_as_any_other(termination: Termination, reason: str) -> None:
    assert decide(termination).reason == reason


def test_a_preemption_by_people_is_decided_by_its_policy() -> None:
    assert decide(PREEMPTED, gave_way=False).reason == "no_policy"
