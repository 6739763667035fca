"""Lines that tell too little: what they yield to, and what they are told with."""

import pytest

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.ranks import Rank, rank_of
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
    return signature(Ended(FAILED), output)


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


NONE = (
    "Found 0 errors in 3 files",
    "compiled with 0 errors, 0 warnings",
    "ERROR: 0 errors found",
    "==7== ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)",
    "failed=0",
    "n1 : ok=1 changed=0 unreachable=0 failed=0 skipped=0",
    "errors: 0",
    "Errors: 0 Warnings: 3",
    "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0",
    '{"errors": 0, "warnings": 2}',
    "0 failures",
    "0 errors, 3 warnings",
    "2 problems (0 errors, 2 warnings)",
    "5 passed, 0 failed",
    "==== 5 passed, 0 failed in 3.2s ====",
    "passed 12, failed 0",
    "0 out of 12 jobs failed",
    "    0 Error(s)",
    "failed: 0 skipped: 3",
)


@pytest.mark.parametrize("line", NONE)
def test_a_line_that_counts_no_errors_has_no_rank(line: str) -> None:
    assert rank_of(line.encode()) is Rank.NEVER


@pytest.mark.parametrize("line", NONE)
@pytest.mark.parametrize("reason", ["all seats of the licence are taken", "license expired"])
def test_a_line_that_counts_no_errors_is_no_signature(line: str, reason: str) -> None:
    assert told(f"{line}\n{reason}\n").title == reason


def test_the_last_line_that_says_more_than_that_there_were_none_is_the_signature() -> None:
    output = "license expired\nFound 0 errors in 3 files\n5 passed, 0 failed in 2.1s\n"
    assert told(output).title == "license expired"
    assert told("Found 0 errors in 3 files\n").title == "Found # errors in # files"


def test_a_line_between_ornaments_is_no_signature_because_of_a_count_of_none() -> None:
    assert told("==== Summary ====\n0 errors\nlicence ran out\n").title == "licence ran out"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("3 failed, 0 errors", Rank.LIKE_ONE),
        ("2 errors, 0 failures", Rank.ADDED),
        ("2 failures, 0 errors", Rank.ADDED),
        ("1 failed, 5 passed, 0 errors in 2.0s", Rank.ADDED),
        ("n1 : ok=1 changed=0 unreachable=0 failed=1", Rank.ADDED),
        ("changed: 0 failed: 1", Rank.LIKE_ONE),
        ("[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0", Rank.LIKE_ONE),
        ("cannot open the file, 0 errors so far", Rank.LIKE_ONE),
        ("10 errors", Rank.ADDED),
        ("Found 100 errors", Rank.ADDED),
        ("error 0x0", Rank.LIKE_ONE),
        ("fatal error: 0x80040154", Rank.LIKE_ONE),
        ("exit code 0", Rank.GENERIC),
        ("exited with code 0", Rank.GENERIC),
        ("rank 0 failed: bad host", Rank.LIKE_ONE),
        ("version 2.0 failed to load", Rank.LIKE_ONE),
        ("GPU 0 error: fell off the bus", Rank.LIKE_ONE),
        ("error: 0 rows returned", Rank.LIKE_ONE),
        ("KeyError: 0", Rank.LIKE_ONE),
        ("batch size is invalid: 0", Rank.WEAKER),
    ],
)
def test_a_zero_that_counts_no_errors_changes_nothing(line: str, rank: Rank) -> None:
    assert rank_of(line.encode()) is rank


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        # Maven: how to go on, once the problems are gone.
        (
            (
                "[ERROR] Could not resolve dependencies: no such artifact\n[ERROR] \n"
                "[ERROR] After correcting the problems, you can resume the build with the command\n"
                "[ERROR]   mvn <args> -rf :orders\n"
            ),
            "[ERROR] Could not resolve dependencies: no such artifact",
        ),
        # Terraform: the resource.
        (
            "│ Error: bucket is taken\n│ \n│   with bucket.raw,\n│   on main.tf line 14:\n",
            "│ Error: bucket is taken with bucket.raw",
        ),
        ("│ Error: bucket is taken\n│ \n╵\n", "│ Error: bucket is taken"),
        # Titles with a number, and of MATLAB.
        (
            "License Manager Error -4\nMaximum number of users reached.\n",
            "License Manager Error -4 Maximum number of users reached.",
        ),
        (
            "Error using horzcat\nSizes differ there.\n",
            "Error using horzcat Sizes differ there.",
        ),
        # npm: the package.
        (
            (
                "npm error code E404\nnpm error 404 Not Found - GET https://a.example.com/x\n"
                "npm error 404  '@a/charts@^3.1.0' is not in this registry.\n"
            ),
            "npm E#: @a/charts: 404 Not Found - GET http:<url>",
        ),
    ],
)
def test_a_tool_tells_what_it_was_about(output: str, expected: str) -> None:
    assert told(output).title == expected


def test_a_long_exception_loses_its_packages_before_its_middle() -> None:
    said = "bad row " * 22
    title = told(f"com.example.orders.BadRowException: {said}end").title
    assert title == f"BadRowException: {said}end"
    shorter = told("com.example.orders.BadRowException: bad row")
    assert shorter.title == "com.example.orders.BadRowException: bad row"


@pytest.mark.parametrize(
    "after",
    [
        "+ echo failed again\nstage unpack failed at line 41 after 12s\n+ exit 1\n",
        "Fatal error: Cannot parse input.\n",
        "ERROR: [Tool 1-2] Error(s) found during checks. Nothing was written.\n",
        "This error happened while installing a package\n",
        "solver finished by error termination in SCF\n",
    ],
)
def test_where_and_when_it_failed_is_no_reason(after: str) -> None:
    assert told(f"{REASON}\n\n{after}").title == REASON


def test_a_record_may_have_a_label_before_each_line() -> None:
    head = "Y35: | x: failed to provide the resource\nY35: |   Response Code: 404 (Not Found)\n"
    assert "Response Code: 404" in told(head).title
