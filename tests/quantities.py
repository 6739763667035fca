"""Spellings of quantities, by the grammar of Kubernetes' `resource.Quantity` and its tests."""

from decimal import Decimal

_BINARY = {f"1{prefix}i": str(1024**power) for power, prefix in enumerate("KMGTPE", 1)}
AMOUNTS: dict[str, Decimal] = {
    text: Decimal(value)
    for text, value in {
        # <number>: digits, digits.digits, digits. and .digits
        "0": "0",
        "00": "0",
        "007": "7",
        "128974848": "128974848",
        "0.5": "0.5",
        "9.01": "9.01",
        "5.": "5",
        ".5": "0.5",
        ".001": "0.001",
        "9223372036854775807": "9223372036854775807",
        "9223372036854775806.999999999": "9223372036854775806.999999999",
        # <sign>
        "+1": "1",
        "+.5": "0.5",
        "+5.": "5",
        "+0": "0",
        # <decimalSI>
        "0n": "0",
        "100n": "0.0000001",
        "5u": "0.000005",
        "500m": "0.5",
        "1080m": "1.08",
        "2k": "2000",
        "0.0005k": "0.5",
        "2M": "2e6",
        "2G": "2e9",
        "7.123456M": "7123456",
        "1.G": "1e9",
        "2T": "2e12",
        "2.5P": "25e14",
        "1E": "1e18",
        "1.01E": "101e16",
        "+1.k": "1000",
        # <binarySI>
        **_BINARY,
        "0Gi": "0",
        "123Mi": "128974848",
        "1.5Gi": "1610612736",
        ".5Gi": "536870912",
        "+.5Gi": "536870912",
        "5.Gi": "5368709120",
        "100.035Ki": "102435.84",
        "0.05Gi": "53687091.2",
        "0.025Ti": "27487790694.4",
        "7.9999999999Ei": "9223372036739483657.539315303",
        # <decimalExponent>
        "1e3": "1000",
        "1E3": "1000",
        "12E2": "1200",
        "129e6": "129000000",
        "1.3E+6": "1300000",
        "1e+2": "100",
        "1e-1": "0.1",
        "1E-3": "0.001",
        "0.5e0": "0.5",
        "5.e1": "50",
        ".5e1": "5",
        "1e18": "1e18",
        "1e-9": "1e-9",
        "1000e-12": "1e-9",
        "1e03": "1000",
        # What is finer than a nano is rounded away from zero.
        "0.9n": "1e-9",
        "3.001n": "4e-9",
        "1.1E-9": "2e-9",
        "0.00000012345": "124e-9",
        "0.0000000001": "1e-9",
        "0.000000000001Ki": "2e-9",
        "1e-999": "1e-9",
        "1.0000000000000000000000000000000000001": "1.000000001",
        "9223372036854775806.0000000001": "9223372036854775806.000000001",
        "0e999": "0",
    }.items()
}
"""Amounts of a resource with their values in base units, to be accepted on both sides."""
NEGATIVE: dict[str, Decimal] = {
    f"-{text.removeprefix('+')}": -value for text, value in AMOUNTS.items() if value
}
"""They are quantities, but nobody can ask for them."""
UNREADABLE = (
    *("", " ", "lots", "aoeu", "nan", "NaN", "inf", "Infinity", "0x10", "1,5", "1_000", "٣"),
    # White space.
    *(" 1", "1 ", "1Gi\n", "1 Gi", "64 Gi"),
    # Kubernetes reads what has no digits as 0, although its grammar does not.
    *(".", "+", "-", "+.", "Gi", ".Gi", "m"),
    *("1.1.M", "1..", "++1", "+-1", "1+", "1+1.0M"),
    *("1i", ".5i", "-3.01i", "0.1mi", "1gi", "1KI", "1ki", "1K", "1g", "1MiB", "1B", "0.1am"),
    *("1ni", "1kk", "1mm", "1Gm", "1Ki3"),
    # The grammar has signed numbers as exponents; Kubernetes takes whole ones only.
    *("1e", "1E+", "-3.01e-", "e3", "1e1.5", "1e.5", "1ee3", "1e3k", "1e3Ki", "1e 3"),
)
"""What is no quantity."""
TOO_LONG = ("1" * 41, "0" * 41, "1." + "0" * 40, "1e0003", "1e9999")
"""Quantities to Kubernetes, but nobody writes them."""
TOO_LARGE = (
    "9223372036854775808",
    "9223372036854775807.0000000001",
    "8Ei",
    "9.3E",
    "1e19",
    "1e999",
)
"""Kubernetes makes 2^63 - 1 of those in binary units without a word, and overflows with others."""
