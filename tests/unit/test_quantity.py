"""Quantities, read as Kubernetes reads them."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.podspec.quantity import AMOUNT_PATTERN, in_one_unit, parse, parse_resource, shortest
from tests.quantities import AMOUNTS, NEGATIVE, TOO_LARGE, TOO_LONG, UNREADABLE

ALL = AMOUNTS | NEGATIVE
SPELLINGS = r"[+-]?([0-9]{1,6}(\.[0-9]{0,12})?|\.[0-9]{1,12})([KMGT]i|[numkMGT]|[eE][+-]?[0-9])?"


@pytest.mark.parametrize("text", ALL)
def test_quantities_have_the_values_of_kubernetes(text: str) -> None:
    assert parse(text) == ALL[text]


@pytest.mark.parametrize(
    ("number", "value"),
    [(2, "2"), (-3, "-3"), (0.1, "0.1"), (1e-7, "1e-7"), (1e-12, "1e-9"), (2**63 - 1, 2**63 - 1)],
)
def test_plain_numbers_are_quantities(number: float, value: str) -> None:
    assert parse(number) == Decimal(value)


@pytest.mark.parametrize("text", [*UNREADABLE, *TOO_LONG])
def test_a_malformed_quantity_is_quoted_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity like") as caught:
        parse(text)
    assert repr(text[:40]) in str(caught.value)


@pytest.mark.parametrize("text", [*TOO_LARGE, "-8Ei", 2**63, -(2**63), 10**400, 1e300])
def test_quantities_that_kubernetes_refuses_are_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"less than 2\^63"):
        parse(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_only_finite_numbers(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        parse(value)


@pytest.mark.parametrize("value", [True, None, [], {}])
def test_only_text_and_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="a number or text"):
        parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", AMOUNTS)
def test_amounts_of_resources_are_as_documents_say(text: str) -> None:
    assert parse_resource(text) == AMOUNTS[text]
    assert re.search(AMOUNT_PATTERN, text)


@pytest.mark.parametrize("text", NEGATIVE)
def test_resources_are_not_negative(text: str) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        parse_resource(text)
    assert not re.search(AMOUNT_PATTERN, text)


@given(st.text(max_size=12) | st.from_regex(r"[0-9.]{1,5}[numkMGTPEi]{0,2}", fullmatch=True))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = parse(text)
    except ValueError:
        return
    assert quantity.is_finite()
    assert any(digit in text for digit in "0123456789")


@given(st.from_regex(SPELLINGS, fullmatch=True))
def test_a_value_is_the_nearest_that_kubernetes_holds(text: str) -> None:
    """Nothing is finer than a nano, and a parsed value that is written parses to the same again."""
    quantity = parse(text)
    assert quantity * 10**9 == int(quantity * 10**9)
    assert parse(f"{quantity:f}") == quantity
    assert parse(text.lstrip("+-")) == quantity.copy_abs()


@pytest.mark.parametrize(
    ("amount", "binary", "decimal"),
    [
        (0, "0", "0"),
        (1, "1", "1"),
        (1024, "1Ki", "1024"),
        (1000, "1000", "1k"),
        (3 * 2**30, "3Gi", "3221225472"),
        (1536 * 2**20, "1536Mi", "1610612736"),
        (5 * 10**18, "4882812500000000Ki", "5E"),
    ],
)
def test_whole_amounts_are_spelled_short(amount: int, binary: str, decimal: str) -> None:
    assert (shortest(amount), shortest(amount, decimal=True)) == (binary, decimal)
    assert parse(binary) == parse(decimal) == amount


@pytest.mark.parametrize(
    ("wanted", "available", "of_bytes", "shown"),
    [
        ("64Gi", "32Gi", True, ["64Gi", "32Gi"]),
        ("1E", "68719476736", True, ["1000000000G", "68.719G"]),
        ("1Ei", "16Gi", True, ["1073741824Gi", "16Gi"]),
        ("2Ti", "0", True, ["2Ti", "0Ti"]),
        ("17179869184", "4Gi", True, ["16Gi", "4Gi"]),
        ("17179869184000m", "4Gi", True, ["16Gi", "4Gi"]),
        ("4500m", "4", False, ["4500m", "4000m"]),
        ("16", "0.5", False, ["16", "0.5"]),
        ("1k", "4", False, ["1000", "4"]),
    ],
)
def test_amounts_are_told_in_one_unit_that_people_read(
    wanted: str, available: str, of_bytes: bool, shown: list[str]
) -> None:
    assert in_one_unit([parse(wanted), parse(available)], wanted, of_bytes=of_bytes) == shown
