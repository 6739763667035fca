"""When a breaker opens, what it holds, and what its probe says."""

import pytest
from pydantic import ValidationError

from retry.breakers import (
    CLUSTER,
    BreakerRule,
    OpenBreaker,
    ProbeEnd,
    holder,
    next_delay,
    opens,
    probe_end,
    scope_key,
)

RULE = BreakerRule(chains=10)
EVERYWHERE = OpenBreaker(CLUSTER, None, None, "abc")
PROJECT = OpenBreaker("project:1", 1, None, "abc")
QUEUE = OpenBreaker("queue:7", 1, 7, "abc", "s1")


def test_a_rule_has_defaults_and_bounds() -> None:
    assert BreakerRule().model_dump() == {"chains": 20, "window": 600, "probe_after": 60}
    for wrong in ({"chains": 1}, {"window": 59}, {"probe_after": 0}, {"chains": 2.5}, {"more": 1}):
        with pytest.raises(ValidationError):
            BreakerRule.model_validate(wrong)


@pytest.mark.parametrize(
    ("scope", "chains", "expected"),
    [
        ("project:1", {1: 9}, False),
        ("project:1", {1: 10}, True),
        (CLUSTER, {1: 100}, False),
        (CLUSTER, {1: 50, 2: 50}, False),
        (CLUSTER, {1: 5, 2: 4, 3: 1}, True),
        (CLUSTER, {1: 6, 2: 3, 3: 1}, False),
        (CLUSTER, {1: 3, 2: 3, 3: 3}, False),
        (CLUSTER, {}, False),
    ],
)
def test_the_cluster_needs_several_projects(
    scope: str, chains: dict[int, int], *, expected: bool
) -> None:
    assert opens(RULE, scope, chains) is expected


def test_the_closest_breaker_holds() -> None:
    found = [EVERYWHERE, PROJECT, QUEUE]
    assert holder(found, 7, "abc") == QUEUE
    assert holder(found, 8, "abc") == PROJECT
    assert holder([EVERYWHERE], 8, "abc") == EVERYWHERE
    assert holder(found, 7, "other") is None
    assert holder([], 7, "abc") is None


def test_a_probe_passes_all_breakers_of_its_signature() -> None:
    assert holder([QUEUE], 7, "abc", "s1") is None
    assert holder([QUEUE], 7, "abc", "s2") == QUEUE
    for found in ([QUEUE, PROJECT], [PROJECT, QUEUE, EVERYWHERE]):
        assert holder(found, 7, "abc", "s1") is None
        assert holder(found, 7, "abc", "s2") == QUEUE
    # Of another signature, and of another queue.
    other = PROJECT._replace(signature="other")
    assert holder([QUEUE, other], 7, "other", "s1") == other
    assert holder([QUEUE, PROJECT], 8, "abc", "s1") == PROJECT
    assert holder([PROJECT, EVERYWHERE], 7, "abc") == PROJECT


def test_keys_fit_their_column() -> None:
    longest = OpenBreaker(scope_key(1, 2**63 - 1), 1, 2**63 - 1, "f" * 12)
    assert longest.key == f"queue:{2**63 - 1}/ffffffffffff"
    assert len(longest.scope) <= 32
    assert (scope_key(None, None), scope_key(4, None)) == ("cluster", "project:4")


@pytest.mark.parametrize(
    ("status", "signature", "platform", "expected"),
    [
        ("TERMINATED", "", False, ProbeEnd.CLOSES),
        ("ERROR", "abc", False, ProbeEnd.FAILED),
        ("ERROR", "other", False, ProbeEnd.CLOSES),
        ("ERROR", "abc", True, ProbeEnd.HANDED_ON),
        ("CANCELLED", "", False, ProbeEnd.HANDED_ON),
    ],
)
def test_what_the_end_of_a_probe_says(
    status: str, signature: str, expected: ProbeEnd, *, platform: bool
) -> None:
    assert probe_end("abc", status=status, signature=signature, platform=platform) is expected


def test_delays_double_up_to_an_hour() -> None:
    delays = [60.0]
    while delays[-1] < 3600:
        delays.append(next_delay(delays[-1]))
    assert delays == [60, 120, 240, 480, 960, 1920, 3600]
    assert next_delay(3600) == 3600
