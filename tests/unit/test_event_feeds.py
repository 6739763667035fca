"""Tests of a reader of the tail's news; what the table gives is tested with a database."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from reprise.front import tail
from reprise.front.event_streams import JobSetFeed, SessionFeed
from reprise.front.server_sent import TailEvent
from reprise.front.tail import Subscription
from sessions_app.core.cursors import Cursor
from sessions_app.eventlog.reading import LoggedEvent

SESSION = UUID(int=7)


def news(number: int, *, xid: int = 5, kind: str = "session.running", **data: Any) -> TailEvent:
    """An event whose id and `seq` are the same number."""
    cursor, now = Cursor(0, xid, number), datetime(2030, 1, 31, tzinfo=UTC)
    return TailEvent(
        LoggedEvent(cursor, SESSION, SESSION, 1, "d/p", "sweep", 0, number, kind, now, data)
    )


def feed(last: int) -> SessionFeed:
    made = SessionFeed(SESSION, last)
    made._seq = last
    return made


def ids(text: bytes) -> list[str]:
    return [line[4:] for line in text.decode().splitlines() if line.startswith("id: ")]


def test_a_session_takes_what_continues_it() -> None:
    reader = feed(2)
    text, look = reader.take([news(1), news(2), news(3), news(4)])
    assert (ids(text), look) == (["3", "4"], False)
    assert reader.take([news(4)]) == (b"", False)


def test_a_session_looks_at_the_table_when_one_is_missing() -> None:
    """A later one whose transaction is older may come first."""
    reader = feed(2)
    text, look = reader.take([news(3), news(5), news(4)])
    assert (ids(text), look) == (["3"], True)
    assert SessionFeed(SESSION, 2).take([news(3)]) == (b"", True)


@pytest.mark.parametrize("change", [{"status": "ERROR"}, {"retry_state": "cancelled"}])
def test_a_session_looks_whether_that_was_the_end(change: dict[str, Any]) -> None:
    text, look = feed(2).take([news(3, **change), news(4)])
    assert (ids(text), look) == (["3", "4"], True)


def test_hidden_events_leave_no_gap() -> None:
    reader = feed(2)
    reader._hides = True
    text, look = reader.take([news(3, kind="session.retry_dispatched"), news(4)])
    assert (ids(text), look) == (["4"], False)


def test_a_job_set_passes_over_what_the_table_gave() -> None:
    reader = JobSetFeed(1, "sweep", "0-5-3")
    batch = [news(9, xid=4), news(3), news(4), news(1, xid=6)]
    assert ids(reader.take(batch)[0]) == ["0-5-4", "0-6-1"]
    assert reader.take(batch) == (b"", False)


def test_news_beyond_a_readers_buffer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "BACKLOG", 3)

    async def run() -> None:
        place = Subscription(SESSION)
        place.put([news(1), news(2)])
        assert [each.event.pk for each in place.take()] == [1, 2]
        place.put([news(number) for number in (3, 4, 5, 6)])
        place.put([news(7)])
        assert place.take() == []
        assert place.lapsed

    asyncio.run(run())
