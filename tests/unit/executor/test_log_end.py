"""The end of a long output: what is kept on the disk, and what a next agent goes on with."""

from pathlib import Path

import pytest
from reprise_client.wire import Chunk, ChunkOutcome, LeaseKey

from executor.failure_tail import TAIL_BYTES, failure_tail
from executor.log_end import STEP, LogEnd
from executor.output import _Stream
from executor.runs import RunFiles

MIB = 1024 * 1024
AFTER, SIZE = 3 * MIB, 2 * MIB


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(LeaseKey("s", 1), tmp_path)


def write(files: RunFiles, lines: range) -> bytes:
    data = b"".join(b"line %094d\n" % n for n in lines)
    with files.output.open("ab") as file:
        file.write(data)
    return data


def on_disk(files: RunFiles) -> int:
    return files.output.stat().st_blocks * 512


def test_a_run_that_writes_on_does_not_fill_the_disk(files: RunFiles) -> None:
    end, whole, most = LogEnd(AFTER, SIZE), b"", 0
    for begin in range(0, 300_000, 15_000):
        whole += write(files, range(begin, begin + 15_000))
        assert end.roll(files)
        most = max(most, on_disk(files))
    assert files.output_size() == len(whole) == 30_000_000
    assert most < SIZE + STEP + 2 * MIB
    log = end.read(files, AFTER, SIZE)
    marker, _, rest = log.partition(b" ====\n")
    assert whole.endswith(rest)
    assert marker == b"\n==== %d bytes of the output are missing here" % (
        len(whole) - AFTER - len(rest)
    )
    assert SIZE - 200 < len(log) <= SIZE


def test_a_next_agent_goes_on_where_one_died(files: RunFiles) -> None:
    write(files, range(90_000))
    stream = _Stream(files, 0.0, offset=AFTER)
    chunk = Chunk(files.key, AFTER - 1, b"x")
    stream.answered(chunk, outcome(AFTER, full=True))
    assert stream.next_chunk(MIB) is None
    stream.finished = True
    wanted = b""
    while chunk := stream.next_chunk(300_000):  # type: ignore[assignment]
        wanted += chunk.data
        stream.answered(chunk, outcome(stream.offset + len(chunk.data), full=True))
        again = _Stream(files, 0.0, end=LogEnd.load(files), finished=True)
        # It begins anew, and the server says how far the log is.
        first = again.next_chunk(300_000)
        assert first is not None
        assert (first.offset, first.tail) == (AFTER, True)
        again.answered(first, outcome(AFTER + len(wanted), full=True))
        stream = again
    assert wanted == LogEnd(AFTER, SIZE).read(files, AFTER, SIZE)


@pytest.mark.parametrize("frees", [True, False])
def test_a_server_that_takes_no_end_gets_none(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch, frees: bool
) -> None:
    """What tells why the run failed stays, if the file system can free the bytes before it."""
    written = write(files, range(90_000))
    if not frees:
        monkeypatch.setattr(RunFiles, "free_output", lambda *_: False)
    stream = _Stream(files, 0.0)
    known: ChunkOutcome = {"session_id": "s", "next_offset": 9, "full": True, "outcome": "applied"}
    stream.answered(Chunk(files.key, 0, b"x"), known)
    assert stream.next_chunk(MIB) is None
    assert failure_tail(files) == (written[-TAIL_BYTES:].decode() if frees else "")
    assert on_disk(files) < MIB


def test_output_beyond_the_servers_room_is_sent_once(files: RunFiles) -> None:
    write(files, range(90_000))
    stream = _Stream(files, 0.0, end=LogEnd(AFTER, SIZE), finished=True)
    chunk = stream.next_chunk(MIB)
    assert chunk is not None
    stream.answered(chunk, outcome(chunk.offset, full=True))
    assert stream.next_chunk(MIB) is None


def outcome(next_offset: int, *, full: bool) -> ChunkOutcome:
    return {
        "session_id": "s",
        "next_offset": next_offset,
        "full": full,
        "outcome": "applied",
        "tail_from": AFTER,
        "tail_bytes": SIZE,
    }
