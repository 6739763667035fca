"""Tests that failed: their error is told with the name of the test, whichever runner ran it."""

import pytest

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.signature import signature

ERROR = "Error: total is off"
AT, IN = "\N{BLACK CIRCLE}", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
RUNNERS = {
    "GoogleTest": "a_test.cc:7: Failure\n{error}\n[  FAILED  ] {test} (3 ms)\n\n 1 FAILED TEST\n",
    "Jest": f"  {AT} Cart {IN} {{test}}\n\n    {{error}}\n\nTests:       1 failed, 4 total\n",
    "Vitest": " FAIL  a.test.ts > Cart > {test}\n{error}\n at a.test.ts:1:2\n\n  Tests  1 failed\n",
    ".NET": "  Failed {test} [12 ms]\n  Error Message:\n   {error}\n\nFailed!  - Failed:     1\n",
    "xUnit": "[xUnit.net 00:00:01.02]     {test} [FAIL]\n      {error}\n\nFailed: 1\n",
    "TAP": "ok 1 - opens\nnot ok 2 - {test}\n  ---\n  {error}\n  ...\n# fail 1\n",
    "Perl": "#   Failed test '{test}'\n#   at t/a.t line 7.\n# {error}\nnot ok 2 - {test}\n",
    "XCTest": "{error}\nTest Case '-[Cart {test}]' failed (0.012 seconds).\nExecuted 1 test\n",
    "ScalaTest": "- {test} *** FAILED ***\n  {error}\n*** 1 TEST FAILED ***\n",
    "Jasmine": "Chrome 120.0.0 (Linux) Cart {test} FAILED\n\t{error}\n",
    "PHPUnit": "There was 1 failure:\n1) CartTest::{test}\n{error}\n\n/a/Cart.php:4\n\nFAILURES!\n",
    "Mocha": "  1 failing\n\n  1) Cart\n       {test}:\n\n      {error}\n      at run (a.js:1:2)\n",
    "RSpec": (
        "Failures:\n\n  1) Cart {test}\n     Failure/{error}\n     # ./spec/a_spec.rb:7:in `b'\n\n"
        "4 examples, 1 failure\n\nFailed examples:\n\nrspec ./spec/a_spec.rb:7 # Cart {test}\n"
    ),
    "Playwright": f"  1) [chromium] {IN} a.ts:7:5 {IN} {{test}} ──\n    {{error}}\n\n  1 failed\n",
    "Minitest": "  1) Failure:\n{test} [a_test.rb:7]:\n{error}\n\n3 runs, 1 failures, 0 errors\n",
    "Rust": (
        "thread 'cart::tests::{test}' (71) panicked at src/cart.rs:7:9:\n{error}\n\n"
        "failures:\n    cart::tests::{test}\n\ntest result: FAILED. 1 passed; 1 failed\n"
    ),
}


def title_of(output: str) -> str:
    return signature(Ended(Termination(exit_code=1)), output).title


@pytest.mark.parametrize("runner", RUNNERS)
def test_an_error_is_told_with_the_test_that_failed(runner: str) -> None:
    run = RUNNERS[runner]
    title = title_of(run.format(test="adds", error=ERROR))
    assert "adds" in title
    assert "total is off" in title
    assert title_of(run.format(test="removes", error=ERROR)) == title.replace("adds", "removes")
    other = title_of(run.format(test="adds", error="Error: cart is gone"))
    assert other == title.replace("total is off", "cart is gone")


def test_the_last_test_above_the_error_is_meant() -> None:
    output = "not ok 1 - adds\n  error: {}\nnot ok 2 - removes\n  # skipped\n# failed 2\n"
    assert title_of(output.format("total is off")) == "error: total is off (adds)"


def test_a_numbered_list_without_failures_names_no_test() -> None:
    output = "1) read\n2) write\nerror: disk is full\n"
    assert title_of(output) == "error: disk is full"
