from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.quantity import parse
from base.podspec.resources import LEAST_BYTES
from retry.engine.memory_growth import Growth, grown
from retry.policies.documents import MemoryGrowth

GIB = 2**30


def growth(memory: Any, factor: float, limit: Any = None, quota: int | None = None) -> Growth:
    found = grown(
        {"cpu": "2", "memory": memory},
        MemoryGrowth.model_validate({"factor": factor, "max": limit}),
        None if quota is None else Decimal(quota),
    )
    assert found is not None
    assert found.resources == {
        "cpu": "2",
        "memory": memory if found.now == str(memory) else found.now,
    }
    return found


@pytest.mark.parametrize(
    ("memory", "factor", "limit", "quota", "now", "held_by"),
    [
        ("1Gi", 1.5, None, None, "1536Mi", ""),
        ("1Gi", 2, None, None, "2Gi", ""),
        ("1Gi", 2, "2Gi", None, "2Gi", ""),
        ("1Gi", 3, "2Gi", None, "2Gi", "max"),
        ("1Gi", 3, None, 2 * GIB, "2Gi", "quota"),
        ("1Gi", 3, "2Gi", GIB + 1024, "1048577Ki", "quota"),
        ("1Gi", 3, "1.5Gi", 2 * GIB, "1536Mi", "max"),
        ("1Gi", 3, "2G", None, "1953125Ki", "max"),
        # Memory never shrinks.
        ("4Gi", 2, "2Gi", None, "4Gi", "max"),
        ("4Gi", 2, None, GIB, "4Gi", "quota"),
        ("4Gi", 2, "4Gi", None, "4Gi", "max"),
        # The family of units is the user's.
        ("1G", 2, None, None, "2G", ""),
        ("1G", 1.0005, None, None, "1000500k", ""),
        ("1000000001", 2, None, None, "2000000002", ""),
        (1024, 2, None, None, "2Ki", ""),
        (1e9, 1.5, None, None, "1500000000", ""),
        # Up to whole bytes, but never above what is allowed.
        ("1001", 1.1, None, None, "1102", ""),
        ("1048580", 1.5, "1048590.5", None, "1048590", "max"),
        ("500m", 3, None, 1, "1", "quota"),
        ("500m", 1.1, None, 0, "500m", "quota"),
        # Nothing that Kubernetes could not hold, however often it grows.
        ("4Ei", 1e300, None, None, str(2**63 - 1), "largest"),
        (2**63 - 1, 2, None, None, str(2**63 - 1), "largest"),
        ("0", 2, None, None, "0", ""),
    ],
)
def test_memory_is_multiplied_up_to_what_is_allowed(
    memory: Any, factor: float, limit: Any, quota: int | None, now: str, held_by: str
) -> None:
    found = growth(memory, factor, limit, quota)
    assert (found.was, found.now, found.held_by) == (str(memory), now, held_by)


TWICE = MemoryGrowth.model_validate({"factor": 2, "max": "5Gi"})


def test_requests_and_limits_grow_each_for_itself() -> None:
    before = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "3Gi"}}
    found = grown(before, TWICE, None)
    assert found == Growth(
        {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "5Gi"}},
        "3Gi",
        "5Gi",
        "max",
    )
    assert before["limits"] == {"memory": "3Gi"}


def test_a_group_without_memory_gets_none() -> None:
    assert grown({"requests": {"memory": "1Gi"}, "limits": {"cpu": "2"}}, TWICE, None) == Growth(
        {"requests": {"memory": "2Gi"}, "limits": {"cpu": "2"}}, "1Gi", "2Gi", ""
    )


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"cpu": "1"},
        {"memory": None},
        {"memory": "plenty"},
        {"limits": {}},
        {"limits": None, "requests": {"cpu": 1}},
    ],
)
def test_sessions_without_memory_do_not_grow(resources: dict[str, Any]) -> None:
    assert grown(resources, TWICE, None) is None


amounts = st.one_of(
    st.integers(0, 2**63 - 1),
    st.builds(
        "{}{}".format,
        st.integers(0, 5000),
        st.sampled_from(("", "m", "k", "M", "G", "Ki", "Mi", "Gi")),
    ),
)


@given(
    memory=amounts,
    factor=st.floats(1, 1e300, exclude_min=True),
    limit=st.none() | amounts.filter(lambda amount: parse(amount) >= LEAST_BYTES),
    quota=st.none() | st.integers(0, 2**50),
)
def test_growth_keeps_within_its_limits_and_never_shrinks(
    memory: Any, factor: float, limit: Any, quota: int | None
) -> None:
    found = growth(memory, factor, limit, quota)
    before, after = parse(memory), parse(found.now)
    assert after >= before
    for most in (parse(limit) if limit is not None else None, quota, 2**63 - 1):
        assert most is None or after <= max(most, before)
    # What was granted can be grown again.
    assert parse(growth(found.now, factor, limit, quota).now) >= after
