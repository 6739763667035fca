from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.quantity import parse, parse_resource


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("128974848", "128974848"),
        ("100n", "0.0000001"),
        ("5u", "0.000005"),
        ("500m", "0.5"),
        ("2k", "2000"),
        ("2M", "2e6"),
        ("2G", "2e9"),
        ("2T", "2e12"),
        ("2P", "2e15"),
        ("2E", "2e18"),
        ("1Ki", "1024"),
        ("123Mi", "128974848"),
        ("1.5Gi", "1610612736"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("129e6", "129000000"),
        ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("1e+2", "100"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
        ("-1Ki", "-1024"),
        (2, "2"),
        (0.1, "0.1"),
    ],
)
def test_quantities_are_exact(text: str | float, value: str) -> None:
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1Gi\n",
        "Gi",
        ".",
        "1KI",
        "1ki",
        "1 Gi",
        "1e",
        "e3",
        "1e1.5",
        "1e9999",
        "1,5",
        "٣",
        "NaN",
        "Infinity",
        "9" * 41,
    ],
)
def test_what_is_no_quantity_is_quoted_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity like") as caught:
        parse(text)
    assert repr(text[:40]) in str(caught.value)


@pytest.mark.parametrize("text", ["16E", "1e999", 2**63, 10**400, 1e300])
def test_what_kubernetes_cannot_hold_is_refused(text: str | float) -> None:
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


def test_resources_are_not_negative() -> None:
    assert parse_resource("0") == 0
    assert parse_resource("2Gi") == 2 * 1024**3
    with pytest.raises(ValueError, match="must not be negative"):
        parse_resource("-1m")


@given(st.text(max_size=12) | st.from_regex(r"[0-9.]{1,5}[numkMGTPEi]{0,2}", fullmatch=True))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = parse(text)
    except ValueError:
        return
    assert quantity.is_finite()
    assert any(digit in text for digit in "0123456789")
