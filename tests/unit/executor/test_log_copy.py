"""Logs that are cut, rotated and asked for again: every line once, whatever the pieces."""

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from executor.drivers.kubernetes.log_copy import MISSING, LogCopy, Mark

BASE = "2026-11-21T00:00:{:02d}.{:09d}Z "


def stamped(lines: list[bytes], *, each: int = 3) -> bytes:
    """`each` lines have the same time, and a second has four times."""
    parts = []
    for number, line in enumerate(lines):
        moment = number // each
        parts.append(BASE.format(moment // 4, moment % 4).encode() + line)
    return b"".join(parts)


def served(log: bytes, since: str) -> bytes:
    """As a kubelet: from a second on."""
    lines = BytesIO(log).readlines()  # `splitlines` would end a line at a carriage return, too
    return b"".join(line for line in lines if line[:19] >= since[:19].encode())


class Log:
    """A copy, which is made anew as by the next agent."""

    def __init__(self, directory: Path):
        self.output = directory / "output"
        self.marks = directory / "output.marks"

    def read(self, *pieces: bytes, complete: bool = True) -> None:
        copy = LogCopy(self.output, self.marks)
        copy.begin()
        for piece in pieces:
            copy.write(piece)
        if complete:
            copy.end()

    @property
    def since(self) -> str:
        copy = LogCopy(self.output, self.marks)
        return copy.since

    @property
    def text(self) -> bytes:
        # What has written nothing has no file.
        return self.output.read_bytes() if self.output.exists() else b""


@pytest.fixture
def copied(tmp_path: Path) -> Log:
    return Log(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    lines=st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"?") + b"\n")),
    last=st.sampled_from([b"", b"no newline"]),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    size=st.integers(1, 50),
    killed=st.booleans(),
)
@example(lines=[b"\r\x00\n"], last=b"", cuts=[32], size=1, killed=False)
def test_a_log_that_is_cut_anywhere_is_copied_once(
    tmp_path: Path, lines: list[bytes], last: bytes, cuts: list[int], size: int, killed: bool
) -> None:
    lines = [*lines, last] if last else lines
    log = stamped(lines)
    copied = Log(tmp_path)
    copied.output.unlink(missing_ok=True)
    copied.marks.unlink(missing_ok=True)
    for cut in [*sorted(cuts), None]:
        answer = served(log[:cut], copied.since) if cut is None else served(log, copied.since)[:cut]
        pieces = [answer[start : start + size] for start in range(0, len(answer), size)]
        before = copied.marks.read_bytes() if copied.marks.exists() else b""
        copied.read(*pieces, complete=cut is None)
        if killed and cut is not None:
            # Between the output and its mark.
            copied.marks.write_bytes(before)
    assert copied.text == b"".join(lines)


def test_output_rotated_by_the_kubelet_is_marked_as_missing(copied: Log) -> None:
    lines = [b"%d\n" % number for number in range(60)]
    log = stamped(lines)
    copied.read(stamped(lines[:9]), complete=False)
    copied.read(served(b"".join(log.splitlines(keepends=True)[30:]), copied.since))
    note = f"\n==== {MISSING} ====\n".encode()
    assert copied.text == b"".join(lines[:9]) + note + b"".join(lines[30:])


def test_a_log_rotated_behind_its_last_copied_line_lacks_nothing(copied: Log) -> None:
    lines = [b"%d\n" % number for number in range(60)]
    log = stamped(lines)
    copied.read(stamped(lines[:33]), complete=False)
    copied.read(served(b"".join(log.splitlines(keepends=True)[30:]), copied.since))
    assert copied.text == b"".join(lines)


def test_a_node_that_knows_no_stamps_is_read_from_the_beginning(copied: Log) -> None:
    copied.read(b"one\ntw", complete=False)
    assert copied.since == ""
    copied.read(b"one\ntwo\n", b"three")
    assert copied.text == b"one\ntwo\nthree"


def test_a_kubelet_error_is_shown_where_there_is_nothing_else(copied: Log) -> None:
    trouble = b"unable to retrieve container logs for containerd://1"
    copied.read(trouble)
    assert copied.text == trouble


def test_a_kubelet_error_is_not_shown_among_copied_output(copied: Log) -> None:
    copied.read(stamped([b"a\n"]), complete=False)
    copied.read(b"unable to retrieve container logs for containerd://1")
    assert copied.text == b"a\n"


def test_zones_other_than_utc_are_asked_for_as_they_are(copied: Log) -> None:
    copied.read(b"2026-11-21T08:00:01.5+08:00 a\n")
    assert copied.since == "2026-11-21T08:00:01+08:00"


def test_ranks_follow_each_other(tmp_path: Path) -> None:
    copied = Log(tmp_path)
    copy = LogCopy(copied.output, copied.marks)
    copy.write(stamped([b"a\n"]))
    copy.turn(1, "rank 1")
    copy.write(stamped([b"b\n"]))
    copy = LogCopy(copied.output, copied.marks)
    assert copy.rank == 1
    copy.begin()
    copy.write(stamped([b"b\n", b"c\n"]))
    copy.note("nothing more")
    assert copied.text == b"a\n\n==== rank 1 ====\nb\nc\n\n==== nothing more ====\n"


@pytest.mark.parametrize("data", [b"", b"\0" * 10, b"a b c", b"\xff"])
def test_a_mark_that_is_none_is_the_beginning(data: bytes) -> None:
    assert Mark.load(data) == Mark()
    assert Mark.load(Mark(2, b"2026-11-21T00:00:00Z", 3, 4).dump()) == Mark(
        2, b"2026-11-21T00:00:00Z", 3, 4
    )
