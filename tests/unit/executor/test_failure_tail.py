"""What an agent sends of the output of a failed run."""

import os
from pathlib import Path
from time import process_time

import pytest
from reprise_client.wire import LeaseKey

from executor.agent.lifecycle import Ending, Phase, Run
from executor.agent.run_reports import final_report
from executor.drivers.protocol import Observation, facts
from executor.failure_tail import (
    BLOCK_BYTES,
    DUMP_BYTES,
    SEARCHED_BYTES,
    TAIL_BYTES,
    failure_tail,
    heading,
)
from executor.runs import RunFiles

KEY = LeaseKey("0b1c7d1e-0000-7000-8000-000000000000", 1)


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(KEY, tmp_path)


def test_it_is_the_end_of_the_output(files: RunFiles) -> None:
    assert failure_tail(files) == ""
    files.output.write_bytes(b"a" * TAIL_BYTES + b"error: \xff\n")
    assert failure_tail(files) == ("a" * TAIL_BYTES + "error: \ufffd\n")[-TAIL_BYTES:]


def test_freed_bytes_are_left_out(files: RunFiles) -> None:
    files.output.write_bytes(b"\0" * 4096 + b"error: x\n")
    assert failure_tail(files) == "error: x\n"


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_of_several_ranks_it_is_the_failed_one(files: RunFiles, rank: int) -> None:
    parts = [b"error: 0\n", heading(1), b"error: 1\n", heading(2), b"error: 2\n"]
    files.output.write_bytes(b"".join(parts))
    assert failure_tail(files, rank).endswith(f"error: {rank}\n")


@pytest.mark.parametrize("shift", range(-20, 20))
def test_a_low_rank_is_found_before_the_long_output_of_others(files: RunFiles, shift: int) -> None:
    """Wherever a heading lies in the blocks that are read."""
    long = b"1" * (3 * BLOCK_BYTES + shift)
    parts = [b"error: 0\n", heading(1), long, heading(2), b"error: 2\n"]
    files.output.write_bytes(b"".join(parts))
    tails = [failure_tail(files, rank) for rank in range(4)]
    assert tails == ["error: 0\n", "1" * TAIL_BYTES, "error: 2\n", ""]


def _go(routines: int) -> str:
    call = (
        "net/http.(*conn).serve(0xc000{n:04x}, {{0x7f00, 0xc0001}})\n\t/src/server.go:{n} +0x1d\n"
    )
    made = "created by net/http.(*Server).Serve in goroutine 1\n\t/src/a.go:9 +0x2\n"
    parked = "\ngoroutine {n} [select, 12 minutes]:\n" + call * 3 + made
    own = "goroutine 1 [running]:\nmain.next(0x12)\n\t/src/r.go:1 +0x1\n"
    others = "".join(parked.format(n=n) for n in range(2, routines))
    return f"panic: the ring has a hole\n\n{own}{others}exit status 2\n"


def _java(threads: int) -> str:
    frames = "".join(f"\tat org.example.Pool.take(Pool.java:{n})\n" for n in range(12))
    thread = '"pool-{n}" #{n} prio=5 os_prio=0 tid=0x7f{n:04x} nid=0x{n:x} waiting [0x7f]\n'
    thread += "   java.lang.Thread.State: WAITING (parking)\n" + frames
    thread += "\t- parking to wait for  <0x7f> (a java.util.concurrent.Q)\n\n"
    head = "java.lang.IllegalStateException: the ring has a hole\n\tat org.example.R.a(R.java:1)\n"
    head += "Full thread dump OpenJDK 64-Bit Server VM (17.0.9+9 mixed mode, sharing):\n\n"
    return head + "".join(thread.format(n=n) for n in range(threads))


def _python(threads: int) -> str:
    frames = "".join(f'  File "/usr/lib/python3/queue.py", line {n} in get\n' for n in range(30))
    parked = "".join(
        f"Thread 0x{n:x} (most recent call first):\n{frames}\n" for n in range(threads)
    )
    return f"Fatal Python error: Segmentation fault: the ring has a hole\n\n{parked}"


def _overflow(depth: int) -> str:
    frames = "".join(f"\tat org.example.Tree.walk(Tree.java:{n})\n" for n in range(depth))
    return f"java.lang.StackOverflowError: the ring has a hole\n{frames}"


DUMPS = [_go(300), _go(3_000), _java(100), _java(1_000), _python(50), _overflow(1_024)]


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: f"{dump[:12]} {len(dump)}")
@pytest.mark.parametrize("before", ["", "step 3, loss=0.2\n" * 50_000], ids=["alone", "long"])
def test_of_a_long_dump_the_head_is_sent_too(files: RunFiles, dump: str, before: str) -> None:
    files.output.write_text(before + dump)
    tail = failure_tail(files)
    assert "the ring has a hole" in tail
    assert "ring" not in (before + dump)[-TAIL_BYTES:]
    # As much of the end as there is room for, and no line that is cut.
    assert len(tail.encode()) <= TAIL_BYTES
    assert tail.splitlines()[-100:] == dump.splitlines()[-100:]
    assert set(tail.splitlines()) <= set((before + dump).splitlines())


def test_lines_of_other_threads_in_a_dump_do_not_end_it(files: RunFiles) -> None:
    served = "INFO served /healthz in 2 ms\n"
    lines = [
        line + (served if n % 40 == 0 else "")
        for n, line in enumerate(_java(100).splitlines(keepends=True))
    ]
    files.output.write_text("".join(lines))
    assert "the ring has a hole" in failure_tail(files)


@pytest.mark.parametrize(
    "output",
    [
        "error: old\n" + "step 3, loss=0.2\n" * 5_000,
        "error: old\n" + "  3  0.2  12:00\n" * 5_000,
        "error: old\n" + "a" * (4 * TAIL_BYTES),
        "error: old\n" + _overflow(1_024) + "step 3, loss=0.2\n" * 5_000,
    ],
    ids=["lines", "table", "one line", "survived"],
)
def test_without_a_dump_it_is_the_end_alone(files: RunFiles, output: str) -> None:
    files.output.write_text(output)
    assert failure_tail(files) == output[-TAIL_BYTES:]


def test_the_head_is_that_of_the_rank(files: RunFiles) -> None:
    first, second = (
        dump.replace("ring", name).encode() for name, dump in zip("ab", [_go(300)] * 2, strict=True)
    )
    files.output.write_bytes(first + heading(1) + second)
    assert ["a has" in failure_tail(files, 0), "b has" in failure_tail(files, 1)] == [True, True]
    overflow = _overflow(2_000).encode()
    files.output.write_bytes(b"error: 0\n" + heading(1) + overflow)
    assert "error: 0" not in failure_tail(files, 1)


def test_a_dump_is_looked_through_in_no_time(files: RunFiles) -> None:
    """Whatever a program prints: the time grows with the bytes, not with the length of lines."""
    lines = [b"a." * 500 + b"(", b'"' + b"prio " * 200, b" " * 1_000, b"\tx called a" * 90]
    for line in (*lines, b"\tat a", b""):
        output = b"error: old\n" + (line + b"\n" + b"\tat a.B.c(D.java:1)\n" * 3) * 40_000
        files.output.write_bytes(output[-DUMP_BYTES:])
        began = process_time()
        assert len(failure_tail(files)) <= TAIL_BYTES
        assert process_time() - began < 2.0


def test_a_rank_that_wrote_nothing_has_no_tail(files: RunFiles) -> None:
    files.output.write_bytes(b"error: 0\n" + heading(1) + heading(2) + b"error: 2\n")
    assert failure_tail(files, 1) == ""


def test_ranks_far_from_the_end_have_none(files: RunFiles) -> None:
    with files.output.open("wb") as output:
        output.write(b"error: 0\n" + heading(1))
        output.seek(SEARCHED_BYTES, os.SEEK_CUR)
        output.write(heading(2) + b"error: 2\n")
    tails = [failure_tail(files, rank) for rank in range(4)]
    assert tails == ["", "", "error: 2\n", ""]


@pytest.mark.parametrize(
    ("status", "ending", "sent"),
    [("ERROR", None, True), ("TERMINATED", None, False), ("ERROR", Ending.CANCELLED, False)],
)
def test_only_failures_of_the_work_bring_it(
    files: RunFiles, status: str, ending: Ending | None, sent: bool
) -> None:
    files.output.write_bytes(b"error: x\n")
    run = Run(files, None, Phase.ENDED, ending)
    seen = Observation(KEY, status, termination=facts(1), stopped=ending is not None)
    assert final_report(run, seen).get("log_tail") == ("error: x\n" if sent else None)


@pytest.mark.parametrize(("failed", "sent"), [(b"error: y\n", "error: y\n"), (b"", None)])
def test_what_the_driver_read_of_the_failed_container_stands_for_the_file(
    files: RunFiles, failed: bytes, sent: str | None
) -> None:
    files.output.write_bytes(b"error: x\n")
    run = Run(files, None, Phase.ENDED)
    seen = Observation(KEY, "ERROR", termination=facts(1), failed_output=failed)
    assert final_report(run, seen).get("log_tail") == sent
