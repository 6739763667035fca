"""After a preemption the delay counts from its first observation."""

from datetime import timedelta

import pytest

from retry.evidence.termination import Termination
from tests.unit.retry.build import NOW, PREEMPTED, a_chain, decided, exited


@pytest.mark.parametrize(
    ("observed_before", "confirmed", "backoff", "grace", "due_in"),
    [
        # 30 s of grace, 10 s of backoff, the end confirmed after 4 s: due at 10 s.
        (4, True, 10, 30, 6),
        (4, False, 10, 30, 26),
        (4, False, 60, 30, 56),
        (0, True, 10, 30, 10),
        (0, False, 10, 30, 30),
        # Never before now.
        (25, True, 10, 30, 0),
        (100, False, 10, 30, 0),
    ],
)
def test_a_preempted_run_has_its_grace_period_unless_its_end_is_confirmed(
    observed_before: float, confirmed: bool, backoff: float, grace: float, due_in: float
) -> None:
    chain = a_chain(
        preempted_at=NOW - timedelta(seconds=observed_before),
        confirmed=confirmed,
        grace_period=grace,
    )
    decision = decided(PREEMPTED, chain=chain, max_retries=1, retry_delay=backoff, jitter="none")
    assert decision.due_at == NOW + timedelta(seconds=due_in)
    # The grace period is no part of the delay that is told.
    assert decision.delay == backoff


@pytest.mark.parametrize("end", [exited(1), Termination(lease_expired=True)])
def test_other_ends_wait_from_now(end: Termination) -> None:
    chain = a_chain(preempted_at=NOW - timedelta(seconds=4), confirmed=False, grace_period=30)
    decision = decided(end, chain=chain, max_retries=1, retry_delay=10, jitter="none")
    assert decision.due_at == NOW + timedelta(seconds=10)
