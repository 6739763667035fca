"""Amounts of resources as users write them."""

from decimal import Decimal

import pytest

from executor.quantity import limit_of, parse, request_of


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", 2),
        ("0.5", Decimal("0.5")),
        ("500m", Decimal("0.5")),
        ("512Mi", 512 * 1024**2),
        ("1.5Gi", 1536 * 1024**2),
        ("1G", 10**9),
        ("3k", 3000),
        ("1e3", 1000),
        ("12E2", 1200),
        ("1E", 10**18),
    ],
)
def test_amounts(text: str, amount: Decimal) -> None:
    assert parse(text) == amount


@pytest.mark.parametrize("text", ["", "lots", "-1", "1 Gi", "1gi", "1e999", "nan", "1MiB", "0x10"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


def test_limits_bound_and_requests_count() -> None:
    resources = {"limits": {"memory": "2Gi"}, "requests": {"memory": "1Gi"}, "cpu": "3"}
    assert limit_of(resources, "memory") == 2 * 1024**3
    assert request_of(resources, "memory") == 1024**3
    assert limit_of(resources, "cpu") == request_of(resources, "cpu") == 3
    assert limit_of(resources, "gpu") is None
    assert request_of(resources, "gpu") == 0
