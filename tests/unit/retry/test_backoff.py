import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retry.policies.backoff import DELAY_CEILING, Backoff, Delay, delay_of, jitter_fraction
from retry.policies.inline import InlinePolicy, JitterMode
from tests.unit.retry.build import SESSION_ID, a_policy
from tests.unit.retry.strategies import fractions, policies


def delay(n: int, *, random: float = 0.5, **policy: Any) -> Delay:
    backoff = Backoff.from_policy(a_policy(**policy))
    return delay_of(backoff, n, session_id=SESSION_ID, retry_count=n, random=random)


def fixed(**policy: Any) -> dict[str, Any]:
    return {"backoff": "fixed", "jitter": "none", **policy}


def exponential(**policy: Any) -> dict[str, Any]:
    return {"backoff": "exponential", "jitter": "none", **policy}


JITTERED = {"jitter": "deterministic", "jitter_ratio": 0.25}


@pytest.mark.parametrize(
    ("policy", "n", "seconds"),
    [
        (fixed(retry_delay=60), 0, 60),
        (fixed(retry_delay=60, **JITTERED), 0, 67.08061557245472),
        (fixed(retry_delay=60, **JITTERED), 1, 74.33077958844314),
        (exponential(retry_delay=1, max_retry_delay=60), 5, 32),
        (exponential(retry_delay=1, max_retry_delay=60), 6, 60),
        (
            exponential(retry_delay=30, backoff_multiplier=3, max_retry_delay=600, **JITTERED),
            2,
            302.28936887884083,
        ),
        (
            exponential(retry_delay=30, backoff_multiplier=3, max_retry_delay=600, **JITTERED),
            3,
            600,
        ),
        (exponential(retry_delay=60, max_retry_delay=None), 10_000, 86_400),
        (exponential(retry_delay=60, backoff_multiplier=10, max_retry_delay=1e9), 5, 86_400),
        # beyond the design's vectors
        (fixed(retry_delay=60, backoff_multiplier=10), 5, 60),
        (fixed(retry_delay=1e308, max_retry_delay=None), 0, 86_400),
        (fixed(retry_delay=60, max_retry_delay=10), 0, 10),
        (exponential(retry_delay=60, backoff_multiplier=0.5), 2, 15),
        (exponential(retry_delay=60, backoff_multiplier=0.5), 10**400, 0),
        (exponential(retry_delay=60, backoff_multiplier=1), 10**400, 60),
        (exponential(retry_delay=60, backoff_multiplier=1.5), 10**400, 3600),
        (exponential(retry_delay=5e-324, backoff_multiplier=1e308), 3, 3600),
        (fixed(retry_delay=60, jitter="random", jitter_ratio=0.5), 0, 75),
        (fixed(retry_delay=60, jitter="deterministic", jitter_ratio=0), 0, 60),
    ],
)
def test_vectors(policy: dict[str, Any], n: int, seconds: float) -> None:
    assert delay(n, **policy).value == seconds


def test_the_parts_add_up() -> None:
    assert delay(2, **exponential(jitter="random", jitter_ratio=0.5)) == Delay(
        base=240.0, extra=60.0, cap=3600.0, value=300.0
    )


def test_a_backoff_without_a_delay_never_waits() -> None:
    backoff = Backoff(0.0, 2.0, 600.0, True, JitterMode.DETERMINISTIC, 1.0)
    waits = [
        delay_of(backoff, n, session_id=SESSION_ID, retry_count=n, random=0.9).value
        for n in (0, 1, 10_000)
    ]
    assert waits == [0, 0, 0]


def test_jitter_depends_on_the_session_and_the_attempt_only() -> None:
    assert jitter_fraction(SESSION_ID, 0) == 0.47204103816364823
    assert jitter_fraction("AAAAAAAA-2222-4333-8444-555555555555", 1) == jitter_fraction(
        "aaaaaaaa-2222-4333-8444-555555555555", 1
    )
    assert jitter_fraction(SESSION_ID, 0) != jitter_fraction(SESSION_ID, 1)


def test_jitter_spreads_evenly() -> None:
    tenths = [0] * 10
    for number in range(5_000):
        tenths[int(jitter_fraction(str(UUID(int=number)), 0) * 10)] += 1
    assert min(tenths) > 400
    assert max(tenths) < 600


@given(
    policy=policies(),
    n=st.integers(0, 2000) | st.integers(min_value=0),
    retry_count=st.integers(min_value=0),
    random=fractions,
    session_id=st.uuids().map(str) | st.text(),
)
@example(
    policy=a_policy(backoff="exponential", retry_delay=5e-324, backoff_multiplier=5e-324),
    n=2**70,
    retry_count=0,
    random=0.0,
    session_id="\ud800",
)
def test_every_delay_is_finite_and_within_its_cap(
    policy: InlinePolicy, n: int, retry_count: int, random: float, session_id: str
) -> None:
    result = delay_of(
        Backoff.from_policy(policy),
        n,
        session_id=session_id,
        retry_count=retry_count,
        random=random,
    )
    assert all(math.isfinite(part) for part in (result.base, result.extra, result.value))
    assert 0 <= result.base <= result.value <= result.cap <= DELAY_CEILING
    assert result.value == min(result.base + result.extra, result.cap)
    assert result.cap <= (policy.max_retry_delay or DELAY_CEILING)


@given(random=st.floats())
def test_no_random_number_breaks_the_delay(random: float) -> None:
    assert 60 <= delay(0, random=random, **fixed(jitter="random")).value <= 75


@given(policy=policies(backoff="exponential", jitter="none", backoff_multiplier=1.7))
def test_exponential_waits_never_shrink_when_the_multiplier_is_above_one(
    policy: InlinePolicy,
) -> None:
    backoff = Backoff.from_policy(policy)
    waits = [
        delay_of(backoff, n, session_id=SESSION_ID, retry_count=n, random=0.0).value
        for n in range(0, 60, 3)
    ]
    assert waits == sorted(waits)
