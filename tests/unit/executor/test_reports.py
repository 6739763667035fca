"""The report buffer and its journal on the disk."""

from pathlib import Path

import pytest
from reprise_client.wire import LeaseKey, Outcome, Report

from executor.reports import PAUSE, ReportBuffer, key_of, report

ONE, TWO = LeaseKey("one", 1), LeaseKey("two", 2)
NOW = 1000.0


def given(key: LeaseKey, status: str) -> Report:
    return report(key, status, 0.0)


def outcome(of: Report, word: str = "applied") -> Outcome:
    key = key_of(of)
    return Outcome(
        session_id=key.session_id,
        fencing_token=key.fencing_token,
        seq=of["seq"],
        outcome=word,
        detail="",
    )


def brief(batch: list[Report]) -> list[tuple[str, int, str]]:
    return [(each["session_id"], each["seq"], each["status"]) for each in batch]


def answered(buffer: ReportBuffer, word: str = "applied") -> None:
    batch = buffer.take(500, NOW)
    buffer.settle(batch, [outcome(each, word) for each in batch], NOW)


@pytest.fixture
def buffer(tmp_path: Path) -> ReportBuffer:
    return ReportBuffer(tmp_path)


def test_reports_are_numbered_by_lease_and_sent_in_order(buffer: ReportBuffer) -> None:
    buffer.add([given(TWO, "PREPARING"), given(ONE, "PREPARING"), given(TWO, "RUNNING")])
    expected = [("one", 1, "PREPARING"), ("two", 1, "PREPARING"), ("two", 2, "RUNNING")]
    batch = buffer.take(500, NOW)
    assert brief(batch) == expected
    buffer.settle(batch, (), NOW)
    assert len(buffer.take(2, NOW + 2 * PAUSE)) == 2


def test_two_batches_under_way_share_no_lease(buffer: ReportBuffer) -> None:
    buffer.add([given(ONE, "PREPARING"), given(TWO, "PREPARING")])
    first = buffer.take(1, NOW)
    buffer.add([given(ONE, "RUNNING")])
    second = buffer.take(500, NOW)
    assert (brief(first), brief(second)) == ([("one", 1, "PREPARING")], [("two", 1, "PREPARING")])
    assert not buffer.withdraw(ONE)
    assert not buffer.withdraw(TWO)
    buffer.settle(second, [outcome(each) for each in second], NOW)
    assert buffer.take(500, NOW) == []
    buffer.settle(first, [outcome(each) for each in first], NOW)
    assert brief(buffer.take(500, NOW + 2 * PAUSE)) == [("one", 2, "RUNNING")]


def test_an_end_waits_for_its_release(buffer: ReportBuffer) -> None:
    buffer.add([given(ONE, "RUNNING"), given(ONE, "ERROR")])
    batch = buffer.take(500, NOW)
    assert brief(batch) == [("one", 1, "RUNNING")]
    buffer.settle(batch, (), NOW)
    buffer.release([ONE])
    assert brief(buffer.take(500, NOW + 2 * PAUSE))[-1] == ("one", 2, "ERROR")


def test_a_busy_report_comes_again_after_a_pause(buffer: ReportBuffer) -> None:
    buffer.add([given(ONE, "PREPARING"), given(TWO, "PREPARING")])
    first, second = batch = buffer.take(500, NOW)
    answers = [outcome(first, "busy"), outcome(second)]
    assert buffer.settle(batch, answers, NOW) == [outcome(second)]
    assert buffer.take(500, NOW) == []
    assert buffer.next_due(NOW) == pytest.approx(PAUSE)
    assert buffer.take(500, NOW + 2 * PAUSE) == [first]


def test_unanswered_reports_are_kept(buffer: ReportBuffer) -> None:
    buffer.add([given(ONE, "PREPARING")])
    batch = buffer.take(500, NOW)
    assert buffer.settle(batch, [], NOW) == []
    assert buffer.take(500, NOW + 2 * PAUSE) == batch


def test_a_lease_is_settled_when_its_end_and_all_before_are_answered(buffer: ReportBuffer) -> None:
    buffer.add([given(ONE, "PREPARING")])
    assert not buffer.accepted(ONE)
    answered(buffer)
    assert buffer.accepted(ONE)
    assert not buffer.settled(ONE)
    buffer.add([given(ONE, "TERMINATED")])
    assert buffer.ended(ONE)
    assert not buffer.settled(ONE)
    buffer.release([ONE])
    answered(buffer, "stale")
    assert buffer.settled(ONE)
    assert buffer.empty()


def test_a_lease_can_be_withdrawn_until_it_is_being_accepted(buffer: ReportBuffer) -> None:
    buffer.add([given(ONE, "PREPARING")])
    batch = buffer.take(500, NOW)
    assert not buffer.withdraw(ONE)
    buffer.settle(batch, [], NOW)
    assert buffer.withdraw(ONE)
    assert buffer.empty()


def test_a_next_agent_knows_all_that_was_not_answered(tmp_path: Path) -> None:
    before = ReportBuffer(tmp_path)
    before.add([given(ONE, "PREPARING"), given(TWO, "PREPARING")])
    answered(before)
    before.add([given(ONE, "ERROR"), given(TWO, "RUNNING")])
    before.forget([TWO])
    after = ReportBuffer(tmp_path)
    after.release([ONE])
    assert brief(after.take(500, NOW)) == [("one", 2, "ERROR")]
    assert after.leases() == [ONE]


def test_numbers_go_on_where_an_earlier_agent_stopped(tmp_path: Path) -> None:
    before = ReportBuffer(tmp_path)
    before.add([given(ONE, "PREPARING"), given(ONE, "RUNNING")])
    answered(before)
    for _ in range(2):  # the second reads what the first has condensed
        after = ReportBuffer(tmp_path)
    after.add([given(ONE, "ERROR")])
    after.release([ONE])
    assert brief(after.take(500, NOW)) == [("one", 3, "ERROR")]


def test_a_torn_journal_loses_only_what_was_torn(tmp_path: Path) -> None:
    before = ReportBuffer(tmp_path)
    before.add([given(ONE, "PREPARING"), given(TWO, "PREPARING")])
    journal = tmp_path / "journal"
    whole = journal.read_bytes()
    second = whole.index(b"\n") + 1
    for length in range(second, len(whole)):
        journal.write_bytes(whole[:length])
        after = ReportBuffer(tmp_path)
        after.add([given(LeaseKey("three", 3), "PREPARING")])
        kept = {each["session_id"] for each in ReportBuffer(tmp_path).take(500, NOW)}
        assert kept - {"two"} == {"one", "three"}


def test_a_journal_of_noise_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b'\0\0\xff\n[]\n{"a": 1}\n"report"\n[1, 2\n["later", 1]\n')
    assert ReportBuffer(tmp_path).empty()


def test_the_journal_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("executor.reports.JOURNAL_LIMIT", 10_000)
    buffer = ReportBuffer(tmp_path)
    for number in range(200):
        key = LeaseKey(str(number), 1)
        buffer.add([given(key, "PREPARING")])
        answered(buffer)
        buffer.forget([key])
        assert (tmp_path / "journal").stat().st_size < 11_000


def test_a_full_disk_delays_the_journal_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = ReportBuffer(tmp_path)
    journal = tmp_path / "journal"
    journal.unlink()
    journal.symlink_to("/dev/full")
    first.add([report(ONE, "PREPARING", 0.0)])
    assert [each["status"] for each in first.take(9, 0.0)] == ["PREPARING"]
    assert "No space left" in caplog.text
    first.add([report(ONE, "RUNNING", 1.0)])  # there is room again
    first.release([ONE])
    assert [each["seq"] for each in ReportBuffer(tmp_path).take(9, 9.0)] == [1, 2]
