"""What an agent sends of the output of a failed run."""

import os
from pathlib import Path

import pytest
from reprise_client.wire import LeaseKey

from executor.drivers.protocol import Observation, facts
from executor.failure_tail import (
    BLOCK_BYTES,
    SEARCHED_BYTES,
    TAIL_BYTES,
    failure_tail,
    heading,
)
from executor.lifecycle import Ending, Phase, Run
from executor.run_reports import final_report
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
