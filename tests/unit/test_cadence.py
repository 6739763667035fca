"""The times of schedules, also where clocks change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.cadence import Cadence, cron_written, delay_of, time_zone_written, written

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
START = datetime(2030, 1, 1, tzinfo=UTC)


def local(cron: str, begin: str, number: int) -> Iterator[str]:
    """The first times in Berlin after a moment there."""
    after = datetime.fromisoformat(begin).replace(tzinfo=BERLIN)
    for time in islice(Cadence(START, cron, "Europe/Berlin").after(after), number):
        yield f"{time.astimezone(BERLIN):%m-%d %H:%M %Z}"


def test_a_fixed_hour_that_is_skipped_fires_once_right_after() -> None:
    assert list(local("30 2 * * *", "2030-03-30T12:00", 2)) == [
        "03-31 03:00 CEST",
        "04-01 02:30 CEST",
    ]


def test_a_fixed_hour_that_is_repeated_fires_once() -> None:
    assert list(local("30 2 * * *", "2030-10-26T12:00", 2)) == [
        "10-27 02:30 CEST",
        "10-28 02:30 CET",
    ]


def test_hours_with_a_star_go_by_elapsed_time() -> None:
    assert list(local("0 * * * *", "2030-10-27T01:30", 4)) == [
        "10-27 02:00 CEST", "10-27 02:00 CET", "10-27 03:00 CET", "10-27 04:00 CET",
    ]  # fmt: skip
    assert list(local("0 */2 * * *", "2030-03-31T00:30", 2)) == [
        "03-31 04:00 CEST",
        "03-31 06:00 CEST",
    ]


def test_clocks_that_change_by_half_an_hour() -> None:
    def on(cron: str, day: datetime) -> list[str]:
        found = Cadence(START, cron, "Australia/Lord_Howe").times(day, day + timedelta(days=1), 99)
        return [f"{at.astimezone(LORD_HOWE):%H:%M%z}" for at in found]

    # At 02:00 the clock goes back to 01:30 in April, and on to 02:30 in October.
    back = datetime(2030, 4, 7, tzinfo=LORD_HOWE)
    assert on("*/20 2 * * *", back) == ["02:00+1030", "02:20+1030", "02:40+1030"]
    assert on("*/20 1 * * *", back) == [
        *("01:00+1100", "01:20+1100", "01:40+1100", "01:40+1030"),
    ]
    forth = datetime(2030, 10, 6, tzinfo=LORD_HOWE)
    assert on("*/20 2 * * *", forth) == ["02:40+1100"]
    assert on("*/20 3 * * *", forth) == ["03:00+1100", "03:20+1100", "03:40+1100"]


def test_who_asks_in_the_second_pass_of_an_hour_is_told_no_time_of_the_first() -> None:
    now = datetime(2030, 10, 27, 2, 15, tzinfo=BERLIN, fold=1)
    time = Cadence(START, "30 2 * * *", "Europe/Berlin").next(now)
    assert time == datetime(2030, 10, 28, 2, 30, tzinfo=BERLIN)


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0,30 1,2,3 * * *", "15 */3 * * *", "@hourly"]),
    st.integers(0, 230 * 86_400).map(
        lambda seconds: datetime(2030, 3, 20, tzinfo=UTC) + timedelta(seconds=seconds)
    ),
)
def test_asking_again_from_each_time_gives_the_same_times(cron: str, begin: datetime) -> None:
    cadence = Cadence(START, cron, "Europe/Berlin")
    at_once = list(islice(cadence.after(begin), 30))
    assert all(before < after for before, after in pairwise([begin, *at_once]))
    for before, after in pairwise(at_once):
        assert cadence.next(before) == after


def test_an_interval_counts_from_its_begin_or_its_creation() -> None:
    made = Cadence(START, every=90)
    assert made.next(START) == START + timedelta(seconds=90)
    assert made.next(START + timedelta(seconds=90)) == START + timedelta(seconds=180)
    first = START + timedelta(days=1)
    limited = Cadence(START, every=60, first=first, last=first + timedelta(seconds=60))
    assert list(limited.after(START)) == [first, first + timedelta(seconds=60)]
    assert limited.times(first, first, 9) == [first]


def test_from_and_until_are_times_themselves() -> None:
    first, last = START + timedelta(hours=2), START + timedelta(hours=3)
    assert list(Cadence(START, "@hourly", first=first, last=last).after(START)) == [first, last]


def test_what_never_comes_has_no_time() -> None:
    assert Cadence(START, "0 0 31 2 1-5").next(START) is not None  # the day of the week is enough
    assert Cadence(START, "* * */20 * 1L").next(START) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "five fields"),
        ("* * * * * *", "five fields"),
        ("@reboot", "one of @yearly"),
        ("61 * * * *", "bad minute"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("x" * 300, "five fields"),
        ("1-0 * * * *", "bad minute"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cron_written(text)


@given(st.text(alphabet="0123456789*/,-#LWMON @", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        cron = cron_written(text)
    except ValueError:
        return
    assert cron_written(cron) == cron


def test_expressions_are_stored_in_one_form() -> None:
    assert cron_written("  0   3 * * * ") == "0 3 * * *"
    assert cron_written("@Daily") == "@daily"
    assert time_zone_written("Europe/Berlin") == "Europe/Berlin"
    for name in ("", "Berlin", "../../etc/passwd", "Europe"):
        with pytest.raises(ValueError, match="must be a time zone"):
            time_zone_written(name)


def test_the_jitter_of_a_time_stays_the_same() -> None:
    key = UUID(int=1)
    delays = {delay_of(key, START + timedelta(minutes=n), 30) for n in range(200)}
    assert delays == {delay_of(key, START + timedelta(minutes=n), 30) for n in range(200)}
    assert len(delays) > 20
    assert {0 <= each.total_seconds() <= 30 for each in delays} == {True}
    assert delay_of(key, START, 0) == timedelta()
    assert written(START) == "2030-01-01T00:00:00Z"
