"""What an agent reads of the progress of its runs, and when it sends it."""

import json
from pathlib import Path
from typing import Any

import pytest
from reprise_client.wire import LeaseKey

from executor import progress as module
from executor.failure_tail import heading
from executor.progress import SEND_EVERY, ProgressBook
from executor.runs import RunFiles
from tests.executor_fake import FakeServer
from tests.unit.executor.conftest import AgentProcess, shell

KEY = LeaseKey("s", 1)


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(KEY, tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(module, "boottime", lambda: now[0])
    return now


def write(files: RunFiles, data: bytes) -> None:
    with files.output.open("ab") as file:
        file.write(data)


def line(step: float, **more: Any) -> bytes:
    return f"::reprise:: {json.dumps({'step': step, **more})}\n".encode()


def steps(book: ProgressBook) -> list[float]:
    return [each["step"] for each in book.take()]


def test_the_newest_line_is_sent_at_most_every_five_seconds(
    files: RunFiles, clock: list[float]
) -> None:
    book = ProgressBook()
    book.read(files)
    assert steps(book) == []
    write(files, b"a\n" + line(1) + line(2))
    book.read(files)
    assert steps(book) == [2]
    write(files, line(3))
    book.read(files)
    assert steps(book) == []
    clock[0] += SEND_EVERY
    assert steps(book) == [3]
    clock[0] += SEND_EVERY
    assert steps(book) == []


def test_what_a_failed_call_had_is_sent_again(files: RunFiles, clock: list[float]) -> None:
    book = ProgressBook()
    write(files, line(1))
    book.read(files)
    book.give_back(book.take())
    assert steps(book) == [1]


def test_best_step_and_checkpoint_are_kept(files: RunFiles, clock: list[float]) -> None:
    book = ProgressBook()
    write(files, line(8, checkpoint="c") + line(9, of=10, note="n") + line(2))
    book.read(files)
    (told,) = book.take()
    del told["session_id"], told["fencing_token"]
    assert told == {
        "step": 2, "of": None, "note": "", "best": 9, "rate": None,
        "checkpoint": "c", "checkpoint_step": 8,
    }  # fmt: skip


def test_the_rate_is_that_of_the_last_minutes(files: RunFiles, clock: list[float]) -> None:
    book = ProgressBook()
    for second in range(0, 300, 10):
        clock[0] = 1000.0 + second
        write(files, line(second if second < 100 else 100 + (second - 100) * 5))
        book.read(files)
    told = book.end(files)
    assert told is not None
    assert told["rate"] == pytest.approx(5)
    write(files, line(0))
    told = book.end(files)
    assert told is not None
    assert told["rate"] is None


def test_the_end_reads_all_and_no_call_tells_of_it_any_more(
    files: RunFiles, clock: list[float]
) -> None:
    book = ProgressBook()
    write(files, line(1))
    book.read(files)
    write(files, b"x" * 1_000_000 + b"\n" + line(2).rstrip())
    told = book.end(files)
    assert told is not None
    assert told["step"] == 2
    assert book.take() == []


def test_a_next_agent_goes_on(files: RunFiles, clock: list[float]) -> None:
    book = ProgressBook()
    write(files, line(5, checkpoint="c") + b"::reprise:: {")
    book.read(files)
    files.free_output(0, 20)
    again = ProgressBook()
    write(files, b'"step": 4}\n')
    again.read(files)
    (told,) = again.take()
    assert (told["step"], told["best"], told["checkpoint"]) == (4, 5, "c")


def test_an_emptied_output_is_read_from_its_new_start(files: RunFiles, clock: list[float]) -> None:
    book = ProgressBook()
    write(files, line(1) + b"x" * 100)
    book.read(files)
    files.empty_output()
    book.emptied(KEY)
    write(files, b"\n" + line(2) + b"x" * 500)
    book.read(files)
    assert steps(book) == [2]


def test_of_several_ranks_the_first_counts(files: RunFiles, clock: list[float]) -> None:
    book = ProgressBook()
    for piece in (line(1), heading(1)[:5], heading(1)[5:] + line(2), heading(2) + line(3)):
        write(files, piece)
        book.read(files)
    told = book.end(files)
    assert told is not None
    assert told["step"] == 1


def test_output_that_the_server_does_not_take_is_read(
    server: FakeServer, agent: AgentProcess
) -> None:
    server.log_cap = 1000
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo '::reprise:: {\"step\": 3}'; "
    session = shell(server, script + "while :; do sleep 0.05; done")
    server.wait_for(lambda: bool(session.told))
    assert session.told[-1]["step"] == 3
    assert len(session.log) == 1000


def test_progress_outlasts_the_agent(server: FakeServer, agent: AgentProcess) -> None:
    script = "echo '::reprise:: {\"step\": 3}'; while :; do sleep 0.05; done"
    session = shell(server, script)
    server.wait_for(lambda: bool(session.told))
    agent.kill()
    agent.start()
    server.wait_settled(session)
    assert session.final["progress"]["step"] == 3
