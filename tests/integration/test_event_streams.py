"""Streams of events: nothing skipped and nothing twice, whoever writes and however one reads."""

import gc
import io
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from reprise.front import event_streams, tail
from sessions_app.models import Project, SessionEvent
from sessions_app.services.access.tokens import token_revoke
from tests.factories import policy, project, settle, start, submit, token, user
from tests.factories import tip as newest
from tests.streaming import PATIENCE, EventReader, StreamEvent, served, write_event
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

SET = "sweep"


@pytest.fixture
def api(transactional_db: None) -> Iterator[str]:
    end_tail()  # of an earlier test's server, whose loop may have ended first
    with served() as url:
        yield url


@pytest.fixture
def work() -> Project:
    return project("work", domain="acme")


@pytest.fixture
def secret(work: Project) -> str:
    return token(user(project=work))


def stream_of(api: str, name: str = SET) -> str:
    return f"{api}job-sets/{name}/events/?project=acme/work"


def ids(received: list[StreamEvent]) -> list[int]:
    return [each.data["id"] for each in received]


def connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'reprise tail'"
        )
        return int(cursor.fetchone()[0])


def end_tail() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'reprise tail'"
        )


def on_other_connection(call: Callable[[], Any]) -> Any:
    def run() -> Any:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result(PATIENCE)


def test_a_job_set_is_told_from_its_beginning_and_goes_on(
    api: str, work: Project, secret: str
) -> None:
    before = [write_event(work, SET) for _ in range(3)]
    write_event(work, "other")
    write_event(project("far", domain="globex"), SET)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 3)
    after = [write_event(work, SET) for _ in range(3)]
    reader.wait(lambda r: len(r.events) == 6)
    assert ids(reader.events) == before + after
    assert [each.place for each in reader.events] == [each.data["cursor"] for each in reader.events]
    resumed = EventReader(stream_of(api), secret, after=reader.events[1].place)
    assert ids(resumed.wait(lambda r: len(r.events) == 4).events) == (before + after)[2:]
    reader.leave()
    resumed.leave()


def test_an_event_waits_for_older_transactions(api: str, work: Project, secret: str) -> None:
    """One that is told would have none before it any more; and both come once the older is over."""
    write_event(work, SET)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    with transaction.atomic():
        slow = write_event(work, SET)
        quick = on_other_connection(lambda: write_event(work, SET))
        time.sleep(5 * tail.PERIOD)
        assert len(reader.events) == 1
        late = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    for each in (reader, late):
        assert ids(each.wait(lambda r: len(r.events) == 3).events)[1:] == [slow, quick]
        each.leave()


def test_a_rolled_back_event_holds_nothing_up(api: str, work: Project, secret: str) -> None:
    reader = None
    with transaction.atomic():
        write_event(work, SET)
        kept = on_other_connection(lambda: write_event(work, SET))
        transaction.set_rollback(True)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    assert ids(reader.events) == [kept]
    reader.leave()


WRITERS = 6
TRANSACTIONS = 12


def write_in_any_order(work: Project, seed: int) -> list[int]:
    """Transactions of several events that last for a random while, one in eight in vain."""
    chance = random.Random(seed)
    written: list[int] = []
    try:
        for _ in range(TRANSACTIONS):
            with transaction.atomic():
                made = []
                for _ in range(chance.randint(1, 4)):
                    made.append(write_event(work, SET))
                    time.sleep(chance.choice([0, 0, 0.001, 0.02]))
                if chance.random() < 0.125:
                    transaction.set_rollback(True)
                    made = []
            written += made
    finally:
        connection.close()
    return written


@pytest.mark.parametrize("backlog", [tail.BACKLOG, 3])
def test_racing_writers_are_told_once_each(
    api: str, work: Project, secret: str, monkeypatch: pytest.MonkeyPatch, backlog: int
) -> None:
    """To who was there before, to who hangs up again and again, and to who comes later; and also
    when every burst is more than may wait for a reader."""
    monkeypatch.setattr(tail, "BACKLOG", backlog)
    first = write_event(work, SET)
    whole = EventReader(stream_of(api), secret)
    cut = [EventReader(stream_of(api), secret, cut_every=n) for n in (5, 40)]
    with ThreadPoolExecutor(WRITERS) as threads:
        writers = [threads.submit(write_in_any_order, work, seed) for seed in range(WRITERS)]
        late = EventReader(stream_of(api), secret)
        written = {first, *(each for writer in writers for each in writer.result(PATIENCE))}
    for reader in (whole, late, *cut):
        reader.wait(lambda r: len(r.events) >= len(written))
    time.sleep(3 * tail.PERIOD)  # what comes twice would come now
    for reader in (whole, late, *cut):
        reader.leave()
        assert sorted(ids(reader.events)) == sorted(written)
        places = [each.cursor for each in reader.events]
        assert places == sorted(places)
    assert ids(whole.events) == ids(late.events)


def test_all_readers_share_one_connection(api: str, work: Project, secret: str) -> None:
    write_event(work, SET)
    readers = [EventReader(stream_of(api), secret) for _ in range(30)]
    for reader in readers:
        reader.wait(lambda r: len(r.events) == 1)
    until(lambda: connections() == 1)
    last = write_event(work, SET)
    for reader in readers:
        assert ids(reader.wait(lambda r: len(r.events) == 2).events)[-1] == last
    assert connections() == 1
    for reader in readers:
        reader.leave()
    until(lambda: connections() == 0)


def test_a_cut_tail_goes_on_where_it_was(api: str, work: Project, secret: str) -> None:
    write_event(work, SET)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    until(lambda: connections() == 1)
    end_tail()
    written = [write_event(work, SET) for _ in range(5)]
    assert ids(reader.wait(lambda r: len(r.events) == 6).events)[1:] == written
    reader.leave()


def test_a_crash_may_give_numbers_of_transactions_out_again(
    api: str, work: Project, secret: str
) -> None:
    """Those that left no trace; the end of the log, which was behind them, is before them then."""
    write_event(work, SET)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    until(lambda: connections() == 1)
    gc.unfreeze()  # what a server has frozen at its start is not among the objects
    (running,) = (t for t in gc.get_objects() if type(t) is tail.Tail and t._subscriptions)
    assert running._place
    running._place = running._place._replace(xid=running._place.xid + 1000)
    end_tail()
    written = [write_event(work, SET) for _ in range(5)]
    assert ids(reader.wait(lambda r: len(r.events) == 6).events)[1:] == written
    reader.leave()


def test_more_than_one_look_takes(
    api: str, work: Project, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "SLICE", 3)
    monkeypatch.setattr(event_streams, "SLICE", 3)
    before = [write_event(work, SET) for _ in range(10)]
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 10)
    until(lambda: connections() == 1)
    with transaction.atomic():
        after = [write_event(work, name) for _ in range(10) for name in (SET, "other")][::2]
    assert ids(reader.wait(lambda r: len(r.events) == 20).events) == before + after
    reader.leave()


def test_a_restored_database_is_followed_on(api: str, work: Project, secret: str) -> None:
    """Its transactions may be numbered anew: what earlier lives wrote comes first."""
    old = write_event(work, SET)
    SessionEvent.objects.filter(pk=old).update(xid=str(2**40))  # as another cluster numbered it
    call_command("after_restore", stdout=io.StringIO())
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    until(lambda: connections() == 1)
    call_command("after_restore", stdout=io.StringIO())
    new = write_event(work, SET)
    assert ids(reader.wait(lambda r: len(r.events) == 2).events) == [old, new]
    resumed = EventReader(stream_of(api), secret, after=reader.events[0].place)
    assert ids(resumed.wait(lambda r: len(r.events) == 1).events) == [new]
    reader.leave()
    resumed.leave()


def test_a_session_is_told_in_its_order_to_its_end(api: str, work: Project, secret: str) -> None:
    session = submit(work, retry_policy=policy(max_retries=0))
    url = f"{api}sessions/{session.pk}/events/"
    reader = EventReader(url, secret).wait(lambda r: len(r.events) == 1)
    until(lambda: connections() == 1)
    settle(start(session))
    assert reader.ended.wait(PATIENCE)
    stored = SessionEvent.objects.filter(session_id=session.pk).order_by("seq")
    assert ids(reader.events) == [each.pk for each in stored]
    assert [each.data["seq"] for each in reader.events] == list(range(1, len(stored) + 1))
    again = EventReader(url, secret, after=reader.events[0].place)
    assert again.ended.wait(PATIENCE)
    assert again.events == reader.events[1:]


def test_a_stream_stays_open_while_a_retry_waits(api: str, work: Project, secret: str) -> None:
    session = submit(work, retry_policy=policy(retry_delay=3600))
    reader = EventReader(f"{api}sessions/{session.pk}/events/", secret)
    settle(start(session))
    reader.wait(lambda r: any(e.data["type"] == "session.retry_scheduled" for e in r.events))
    assert not reader.ended.wait(5 * tail.PERIOD)
    assert newest(session).pk == session.pk
    reader.leave()


def test_a_silent_stream_says_that_it_lives(
    api: str, work: Project, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "PING_SECONDS", 0.2)
    write_event(work, SET)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.comments) >= 3)
    assert set(reader.comments) == {": ping"}
    reader.leave()


def test_a_withdrawn_token_ends_its_stream(
    api: str, work: Project, secret: str, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "stream_check_after": 0.3}
    write_event(work, SET)
    reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
    assert not reader.ended.wait(1)
    token_revoke(prefix=secret[:12], by="test")
    assert reader.ended.wait(PATIENCE)


@pytest.mark.parametrize(
    "path", ["job-sets/sweep/events/?project=acme/work", "sessions/{}/events/"]
)
def test_a_stranger_is_told_that_there_is_nothing(api: str, work: Project, path: str) -> None:
    session = submit(work, job_set=SET)
    stranger = token(user(project=project("far", domain="globex")))
    for secret, status in ((stranger, 404), ("rpr_" + "x" * 43, 401)):
        reader = EventReader(api + path.format(session.pk), secret)
        assert reader.ended.wait(PATIENCE)
        assert (reader.status, reader.problem["status"]) == (status, status)


@pytest.mark.parametrize("after", ["junk", "1-2", "0-0-99999999999999999999", "7"])
def test_a_place_that_is_none_is_refused(api: str, work: Project, secret: str, after: str) -> None:
    write_event(work, SET)
    reader = EventReader(stream_of(api), secret, after=after)
    assert reader.ended.wait(PATIENCE)
    assert (reader.status, list(reader.problem["errors"])) == (400, ["after"])


def test_a_server_that_stops_lets_its_readers_go(work: Project, secret: str) -> None:
    write_event(work, SET)
    with served() as api:
        reader = EventReader(stream_of(api), secret).wait(lambda r: len(r.events) == 1)
        until(lambda: connections() == 1)
    assert reader.ended.wait(PATIENCE)
    until(lambda: connections() == 0)
    assert threading.active_count() < 100
