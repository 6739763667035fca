"""Parts of a log for people: pages, searches, the line of the error."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from sessions_app.models import LogChunk
from sessions_app.services.sessions import log_pages
from sessions_app.services.sessions.log_pages import (
    PAGE_BYTES,
    log_error,
    log_last_page,
    log_page,
    log_page_before,
    log_search,
)

pytestmark = pytest.mark.django_db


def stored(data: bytes, piece: int = 7) -> UUID:
    """A log of these bytes, in pieces of this length."""
    session_id = uuid4()
    LogChunk.objects.bulk_create(
        LogChunk(session_id=session_id, offset=at, data=data[at : at + piece])
        for at in range(0, len(data), piece)
    )
    return session_id


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))


def test_pages_follow_each_other_without_a_gap() -> None:
    log = stored(numbered(25))
    texts: list[str] = []
    page = log_page(log, 0, 10)
    while page.lines:
        texts += [line.text for line in page.lines]
        page = log_page(log, page.end, 10)

    assert texts == [f"line {number}" for number in range(25)]
    assert (page.start, page.end, page.size) == (len(numbered(25)),) * 3


def test_the_last_page_has_the_last_lines_and_the_one_before_ends_where_it_begins() -> None:
    log = stored(numbered(25))
    last = log_last_page(log, 10)
    before = log_page(log, log_page_before(log, last.start, 10), 10)

    assert [line.text for line in last.lines] == [f"line {number}" for number in range(15, 25)]
    assert [line.text for line in before.lines] == [f"line {number}" for number in range(5, 15)]
    assert before.end == last.start
    assert log_page_before(log, before.start, 10) == 0


def test_a_line_without_an_end_is_told_apart() -> None:
    page = log_page(stored(b"one\ntwo"), 0)

    assert [line.text for line in page.lines] == ["one"]
    assert page.rest is not None
    assert page.rest.text == "two"
    assert (page.end, page.reached) == (4, 7)
    assert log_page_before(stored(b"one\ntwo"), 7, 1) == 4


def test_no_log_is_an_empty_page() -> None:
    page = log_last_page(uuid4())

    assert (page.lines, page.rest, page.size, page.end) == ([], None, 0, 0)


def test_a_line_longer_than_a_page_is_cut() -> None:
    log = stored(b"x" * (PAGE_BYTES + 10) + b"\nend\n", PAGE_BYTES // 2)
    first = log_page(log, 0)
    second = log_page(log, first.end)

    assert first.end == PAGE_BYTES
    assert [len(line.text) for line in second.lines] == [10, 3]
    assert log_last_page(log).lines[-1].text == "end"


def test_a_search_counts_all_lines_and_lists_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pages, "HITS", 3)
    log = stored(b"start\n" + b"an Error and error\nfine\n" * 20)
    found = log_search(log, "ERROR")

    assert found.count == 20
    assert [hit.offset for hit in found.hits] == [6, 30, 54]
    assert {hit.text for hit in found.hits} == {"an Error and error"}
    assert (found.start, found.stop) == (0, found.size)
    assert log_search(log, "nowhere").count == 0


def test_a_search_reads_a_bounded_part_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pages, "SEARCHED_BYTES", 100)
    log = stored(numbered(100))
    first = log_search(log, "line")
    second = log_search(log, "line", first.stop)

    assert first.stop == 100
    assert second.start == 100
    assert second.stop == 200
    assert first.count + second.count >= 24


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"Traceback (most recent call last):", ""),
        (b"ValueError: no such thing", ""),
        (b"2026-01-01 ERROR disk is full", ""),
        (b"error: linking failed", ""),
        (b"sh: 1: foo: command not found", ""),
        (b"\x1b[31mSegmentation fault\x1b[0m (core dumped)", ""),
        (b"the loss is no number any more", "the loss is no number any more\nand more"),
        ("Gerät fehlt ganz".encode(), "Gerät fehlt ganz"),
    ],
)
def test_the_error_is_found(line: bytes, message: str) -> None:
    head = b"epoch 1 error 0.3, errors: none\nno failure yet\n\xff\xfe\n"
    log = stored(head + line + b"\nValueError: later\n")

    assert log_error(log, message) == len(head)


def test_an_ordinary_log_has_no_error() -> None:
    assert log_error(stored(b"epoch 1 error 0.3\n0 errors\nterror\n"), "no") is None
    assert log_error(uuid4()) is None


class TestAnyLog(TestCase):
    @given(st.text(alphabet="ab\n", max_size=60), st.integers(1, 9), st.integers(1, 5))
    @settings(max_examples=60, deadline=None)
    def test_pages_and_searches_agree_with_the_whole(
        self, text: str, piece: int, lines: int
    ) -> None:
        log = stored(text.encode(), piece)
        shown, start = "", 0
        while (page := log_page(log, start, lines)).lines:
            shown += "".join(f"{line.text}\n" for line in page.lines)
            start = page.end
        shown += page.rest.text if page.rest else ""
        wanted = [line for line in text.split("\n") if "ab" in line]
        found = log_search(log, "AB")

        assert shown == text
        assert (found.count, [hit.text for hit in found.hits]) == (len(wanted), wanted)
        assert all(text[hit.offset :].startswith(hit.text) for hit in found.hits)
