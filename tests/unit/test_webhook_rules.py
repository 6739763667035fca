"""Tests of what an answer means, and when a webhook is tried again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.webhooks.rules import (
    DELAYS,
    TYPES,
    Answer,
    Result,
    known_types,
    retry_after,
    verdict_of,
)

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (200, Result.DELIVERED),
        (204, Result.DELIVERED),
        (299, Result.DELIVERED),
        (None, Result.AGAIN),
        (101, Result.AGAIN),
        (301, Result.AGAIN),
        (308, Result.AGAIN),
        (400, Result.AGAIN),
        (404, Result.AGAIN),
        (410, Result.GONE),
        (500, Result.AGAIN),
    ],
)
def test_only_success_is_success(code: int | None, result: Result) -> None:
    assert verdict_of(Answer(code), attempts=1, jitter=0.5).result is result


def test_it_is_tried_for_a_day_or_so_and_then_given_up() -> None:
    verdicts = [verdict_of(Answer(500), attempts=n, jitter=0.5) for n in range(1, 9)]
    assert [each.delay for each in verdicts] == [*DELAYS, None]
    assert verdicts[-1].result is Result.GIVEN_UP
    assert 24 < sum(DELAYS) / 3600 < 36


def test_delays_are_spread() -> None:
    spread = [verdict_of(Answer(500), attempts=2, jitter=each).delay for each in (0.0, 1.0)]
    assert spread == [pytest.approx(240), pytest.approx(360)]


@pytest.mark.parametrize(
    ("code", "asked", "delay"),
    [
        (429, 60.0, 60.0),
        (503, 60.0, 60.0),
        (503, 1.0, 5.0),  # no sooner than without it
        (500, 60.0, 5.0),
        (503, 1e9, 86_400.0),
    ],
)
def test_a_receiver_may_put_it_off(code: int, asked: float, delay: float) -> None:
    assert verdict_of(Answer(code, retry_after=asked), attempts=1, jitter=0.5).delay == delay


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("9" * 400, 999_999_999.0),
        ("Thu, 31 Jan 2030 12:01:00 GMT", 60.0),
        ("Thu, 31 Jan 2030 11:00:00 GMT", 0.0),
        ("-1", None),
        ("soon", None),
        ("\u0661", None),
        ("Thu, 99 Jan 2030 12:01:00 GMT", None),
        ("Mon, 20 Nov 1995 19:12:08 +99999999999999999999", None),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


@given(
    st.text()
    | st.lists(
        st.sampled_from(["Mon,", "20", "Nov", "1995", "19:12:08", ":", "-1", "GMT", "(", "\0"])
        | st.integers().map("{:+}".format),
        max_size=7,
    ).map(" ".join)
)
def test_whatever_a_receiver_asks_for_raises_nothing(header: str) -> None:
    seconds = retry_after(header, NOW)
    assert seconds is None or 0 <= seconds < float("inf")


@pytest.mark.parametrize(
    ("wanted", "known"),
    [
        ("session.error", True),
        ("session.retry_*", True),
        ("*", True),
        ("session.nonsense", False),
        ("sessions.*", False),
        ("session.*error", False),
        ("", False),
    ],
)
def test_types_are_those_of_the_log(wanted: str, known: bool) -> None:
    assert known_types(wanted) is known
    assert "session.terminated" in TYPES
