import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.units.durations import in_words, parse_duration

LONGEST = 9_223_372_036.854_775_807


# The table of Go's own test of ParseDuration, and more; negative ones apart.
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5s", 5),
        ("30s", 30),
        ("1478s", 1478),
        ("5.0s", 5),
        ("5.6s", 5.6),
        ("5.s", 5),
        (".5s", 0.5),
        ("1.0s", 1),
        ("1.00s", 1),
        ("1.004s", 1.004),
        ("1.0040s", 1.004),
        ("100.00100s", 100.001),
        ("10ns", 10e-9),
        ("11us", 11e-6),
        ("12\u00b5s", 12e-6),
        ("12\u03bcs", 12e-6),
        ("13ms", 13e-3),
        ("14s", 14),
        ("15m", 900),
        ("16h", 57_600),
        ("3h30m", 12_600),
        ("10.5s4m", 250.5),
        ("1h2m3s4ms5us6ns", 3723.004005006),
        ("39h9m14.425s", 140_954.425),
        ("52763797000ns", 52.763797),
        ("0.3333333333333333333h", 1200),
        ("9007199254740993ns", 9_007_199.254740993),
        ("9223372036854775807ns", LONGEST),
        ("9223372036854775.807us", LONGEST),
        ("9223372036s854ms775us807ns", LONGEST),
        ("0.100000000000000000000h", 360),
        ("0.830103483285477580700h", 2988.37253982772),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("1m1m", 120),
        ("00001s", 1),
        ("0s", 0),
    ],
)
def test_durations_read_as_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "-",
        "s",
        ".",
        "-.",
        ".s",
        "+.s",
        "00",
        "0.0",
        "1 s",
        " 1s",
        "1s ",
        "1s\n",
        "1d",
        "1S",
        "1H",
        "1sec",
        "1h 30m",
        "1h30",
        "1.5.5s",
        "1e3s",
        "1,5s",
        "\u0661s",
        "inf",
        "nan",
        "\x85\x85",
        "\uffff",
        "hello \uffff world",
        "-5s",
        "+5s",
        "-0",
        "1s" * 40,
        "1" * 64 + "s",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a duration like 500ms, 30s or 1h30m$"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    ["9223372036854775808ns", "9223372036854775.808us", "3000000h", "2562047h48m", "9" * 60 + "s"],
)
def test_durations_too_long_for_go_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at most 2\\^63 - 1 nanoseconds"):
        parse_duration(text)


@given(st.text(max_size=80) | st.text(alphabet="0123456789.hmsnuµ ", max_size=20))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert 0 <= seconds <= 2**63 / 1e9


@given(st.integers(0, 2_562_046), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_durations_printed_by_go_are_read(
    hours: int, minutes: int, seconds: int, milli: int
) -> None:
    expected = hours * 3600 + minutes * 60 + seconds + milli / 1000
    assert parse_duration(f"{hours}h{minutes}m{seconds}.{milli:03}s") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (float("nan"), "0 s"),
        (5e-324, "less than 1 ms"),
        (0.001, "0.001 s"),
        (0.25, "0.25 s"),
        (1, "1 s"),
        (7.0806, "7.081 s"),
        (59.999, "59.999 s"),
        (59.9996, "1 min"),
        (60, "1 min"),
        (67.08061557245472, "1 min 7 s"),
        (119.7, "2 min"),
        (252, "4 min 12 s"),
        (3599.6, "1 h"),
        (3600, "1 h"),
        (3600.0, "1 h"),
        (5400, "1 h 30 min"),
        (86_400, "1 d"),
        (93_784.4, "1 d 2 h 3 min 4 s"),
        (1e9, "11574 d 1 h 46 min 40 s"),
        (1e10, "over 100 years"),
        (10**400, "over 100 years"),
        (float("inf"), "over 100 years"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@given(st.floats() | st.integers())
def test_any_duration_has_short_words(seconds: float) -> None:
    assert 0 < len(in_words(seconds)) < 30
