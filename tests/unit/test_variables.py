"""Variables of the environment: what each kind takes, and how what it refuses is told."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.variables.__main__ import page, text_of
from base.variables.kinds import (
    FLAG,
    NETWORK,
    NO,
    PATHS,
    PORT,
    SECRET,
    SHARE,
    YES,
    Kind,
    WrongValueError,
    above_zero,
    choice,
    listed,
    seconds,
    whole,
)
from base.variables.reading import declared, misspelt, read, variable

MODE = choice("on", "off")


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example.

    Of declarations.
    """

    https: bool = variable(FLAG, False, "only HTTPS")
    lease_ttl: float = variable(seconds(), 300.0, "how long")
    pool: int | None = variable(whole(1), None, "how many", absent="as many as needed")
    networks: tuple[str, ...] = variable(listed(NETWORK), ("10.0.0.0/8",), "where")
    token: str = variable(SECRET, "", "who")
    database: str = variable(Kind(str, "x", refuses_empty=True), "db", "what", name="DATABASE_URL")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *((FLAG, word, True) for word in (*YES, "TRUE", "Yes")),
        *((FLAG, word, False) for word in (*NO, "Off")),
        (whole(1, 9), "9", 9),
        (seconds(), "0", 0.0),
        (seconds(), "1e3", 1000.0),
        (above_zero("bytes"), "0.5", 0.5),
        (SHARE, "1", 1.0),
        (PORT, "65535", 65535),
        (MODE, "on", "on"),
        (listed(NETWORK), " 10.0.0.0/8, ,fd00::/8,", ("10.0.0.0/8", "fd00::/8")),
        (PATHS, "/a:b", (Path("/a"), Path("b"))),
    ],
)
def test_allowed_values_are_read(kind: Kind[object], text: str, value: object) -> None:
    assert kind.read(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (FLAG, "ja", "'ja' is not one of 1, true, yes, on, 0, false, no, off"),
        (FLAG, " 1", "' 1' is not one of 1, true, yes, on, 0, false, no, off"),
        (whole(1, 9), "0", "'0' is not a whole number from 1 to 9"),
        (whole(1, 9), "10", "'10' is not a whole number from 1 to 9"),
        (whole(1, 9), "1.0", "'1.0' is not a whole number from 1 to 9"),
        (seconds(most=9), "-1", "'-1' is not a number of seconds from 0 to 9"),
        (seconds(most=9), "5m", "'5m' is not a number of seconds from 0 to 9"),
        (seconds(most=9), "nan", "'nan' is not a number of seconds from 0 to 9"),
        (seconds(most=9), "inf", "'inf' is not a number of seconds from 0 to 9"),
        (above_zero("bytes", 9), "0", "'0' is not a number of bytes above 0, up to 9"),
        (SHARE, "1.1", "'1.1' is not a number from 0 to 1"),
        (PORT, "tcp://10.0.0.1:80", "'tcp://10.0.0.1:80' is not a whole number from 1 to 65535"),
        (MODE, "On", "'On' is not one of on, off"),
        (listed(NETWORK), "::1,ten", "'ten' does not appear to be"),
        (listed(NETWORK), "10.0.0.1/8", "10.0.0.1/8 has host bits set"),
        (listed(MODE), "on,of", "'of' is not one of on, off"),
        (listed(MODE), " ,", "must not be empty: unset the variable instead"),
    ],
)
def test_wrong_values_are_refused(kind: Kind[object], text: str, message: str) -> None:
    with pytest.raises(WrongValueError) as refusal:
        kind.read(text)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("kind", [FLAG, whole(), seconds(), SHARE, PORT, MODE, listed(NETWORK)])
@given(text=st.text())
def test_nothing_else_is_raised(kind: Kind[object], text: str) -> None:
    with suppress(WrongValueError):
        kind.read(text)


def test_a_secret_is_not_told() -> None:
    def parse(text: str) -> str:
        raise ValueError(text)

    for kind in (Kind(parse, "good", secret=True), listed(Kind(parse, "good", secret=True))):
        with pytest.raises(WrongValueError, match=r"^the value is not good$"):
            kind.read("hunter2")
    assert "hunter2" not in repr(read(Example, {"REPRISE_TOKEN": "hunter2"}))


def test_all_wrong_values_are_told_at_once() -> None:
    environ = {"REPRISE_HTTPS": "ja", "REPRISE_LEASE_TTL": "9", "REPRISE_POOL": "0"}
    found, wrong = read(Example, environ)
    assert [line.partition(":")[0] for line in wrong] == ["REPRISE_HTTPS", "REPRISE_POOL"]
    assert found == Example(lease_ttl=9.0)


def test_an_empty_value_is_none() -> None:
    environ = {each.name: "" for each in declared(Example) if each.name != "DATABASE_URL"}
    assert read(Example, environ) == (Example(), [])
    assert read(Example, {"DATABASE_URL": ""})[0].database == ""


def test_names_close_to_a_setting_are_mentioned() -> None:
    environ = dict.fromkeys(
        ("REPRISE_HTPS", "REPRISE_LEASE_TLL", "REPRISE_HTTPS", "REPRISE_RANK", "HTPS"), "1"
    )
    assert misspelt(Example, environ) == [
        "REPRISE_HTPS is set, and nothing reads it; did you mean REPRISE_HTTPS?",
        "REPRISE_LEASE_TLL is set, and nothing reads it; did you mean REPRISE_LEASE_TTL?",
    ]


def test_defaults_are_told_as_they_would_be_written() -> None:
    written = {each.name: text_of(each.default) for each in declared(Example)}
    assert read(Example, written) == (Example(), [])
    assert text_of(31_536_000.0) == "31536000"
    assert text_of(0.5) == "0.5"


def test_the_page_has_a_row_for_each() -> None:
    rows = page([__name__]).partition("## An example\n\nOf declarations.\n\n")[2].splitlines()
    assert rows[2] == f"| `REPRISE_HTTPS` | `0` | {FLAG.allowed} | only HTTPS |"
    assert "| `REPRISE_POOL` | as many as needed |" in rows[4]
    assert len(rows) == 2 + 6
