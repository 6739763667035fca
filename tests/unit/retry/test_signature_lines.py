"""Lines that tell too little: what they yield to, and what they are told with."""

import pytest

from retry.evidence.termination import Termination
from retry.signatures.signature import Signature, signature

FAILED = Termination(exit_code=1)
REASON = "error: column shipped_on is missing"
CHAINED = """Traceback (most recent call last):
  File "/a/load.py", line 3, in read
    open(path)
PermissionError: [Errno 13] Permission denied: '/data/x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/a/main.py", line 7, in main
    read(path)
RuntimeError: Failed to load data
"""


def told(output: str) -> Signature:
    return signature(FAILED, output)


@pytest.mark.parametrize(
    "after",
    [
        "Error loading design",
        "prep.sh failed, giving up",
        "Installation failed, rolling back changes",
        "cannot continue",
        "backup incomplete due to errors",
        "[ERROR] step load: failed to run",
        "Warning  Failed  12s (x3 over 2m)  kubelet  Error: ErrImagePull",
        'time="2031-01-02T03:04:05Z" level=error msg="Job failed" job=12',
        "ERROR: Re-run the scanner with -X to see more",
        "Please check the log file for errors",
        "If this error persists, contact support",
        "recon-all exited with ERRORS at Wed Mar 20",
        "NUMBER OF ERROR MESSAGES ENCOUNTERED= 1",
        "Error: Total CPU time (on all processors): 00:00:13",
        "Error report saved in /tmp/report.txt",
        'ERROR: job "nightly" will now exit',
    ],
)
def test_a_line_without_a_reason_yields_to_one_above(after: str) -> None:
    assert told(f"starting\n{REASON}\ncleaning up\n{after}\n").title == REASON


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        # What goes on below.
        (
            " *** Error 40509 (SOL+509)\n     negative volume in brick element # 7\n",
            "negative volume",
        ),
        ("Error: A Transfer Error Occurred.\nstatus: 3\ncode: NotFound\n", "code: NotFound"),
        ("ERROR    HTTPError: bad request\n         File already exists.\n", "File already exists"),
        # What stands above.
        ("cdo: open failed on >/x/y.nc<\nNo such file or directory\n", "cdo: open failed"),
        ("fatal: table is locked\nevaluation failed :( (3 seconds)\n", "table is locked; eval"),
        # What a program says in words that are no sure sign.
        ("mesh has no cells\ncleaning up\nJob failed.\n", "mesh has no cells"),
        (
            "step 3\nwin: more states in the frozen window than targets\nexit status 1\n",
            "win: more states",
        ),
        # Exceptions.
        (CHAINED, "Failed to load data: PermissionError"),
    ],
)
def test_a_line_that_tells_little_is_told_with_another(output: str, expected: str) -> None:
    assert expected in told(output).title


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("error: first one of these\nerror: timeout\n", "error: timeout"),
        ("5 of 7 tests failed\nerror: mesh is odd here\n", "error: mesh is odd here"),
        ("cache: 3 used, 0 errors\n/bin/sh: line 1: 7 Killed  ./run\n", "Killed"),
        ("epoch 3 = 0.7, lr = 0.1\nJob failed\n", "Job failed"),
    ],
)
def test_what_does_not_belong_to_a_line_stays_out(output: str, expected: str) -> None:
    assert told(output).title == expected


def test_fields_of_a_structured_log_beside_its_message_make_no_difference() -> None:
    line = 'ts="2031-01-02T03:04:05Z" level=error msg="cannot write" copy={} error="disk is full"\n'
    assert told(line.format("nightly")).key == told(line.format("weekly-full")).key
    assert told(line.format("x")).key != told(line.format("x").replace("disk is full", "EOF")).key
