"""Tests: which one failed, as runners of many languages tell it near its error."""

from dataclasses import replace
from itertools import takewhile

from retry.signatures.engine import compiled, simple
from retry.signatures.lines import Output
from retry.signatures.signs import Sign
from retry.signatures.tracebacks import Failure

_NAMES = compiled(
    # GoogleTest, Jest, Vitest, .NET and xUnit.
    r"(?m)^\[  FAILED  \] ([\w/.]+)|^\s*\xe2\x97\x8f (.* \xe2\x80\xba .*)$|^\s*FAIL +(\S+ > .+)$"
    r"|^\s+Failed (.+) \[[0-9.,< ]+\w+\]$|(\S+) \[FAIL\]$"
    # What speaks TAP, the tests of Perl, Swift, ScalaTest and Jasmine.
    r"|^\s*not ok [0-9]+ (?:- )?([^#\n]+)|^#\s+Failed test '(.+)'|^Test Case '(.+)' failed"
    r"|- (.+) \*\*\* FAILED \*\*\*|^[A-Z]\w+ [0-9.]+ \([^)]*\):? (.+) FAILED$"
    # In lists of failures of PHPUnit, RSpec, Mocha, Minitest, ExUnit, Hspec and Playwright.
    r"|^\s*[0-9]{1,3}\) +(?:(?:Failure|Error):\n)?(\S.*(?:\n {4,}\S.*:$)?)"
)
# Other numbered lists are no lists of failures.
_COUNTED = compiled(
    r"\b[1-9][0-9]* (?:failed|failing|failures?)\b|\b[Ff]ailed:? +[1-9]|There was 1 error|\bFAIL"
    r"|not ok [0-9]|\bTest Case '"
)
_NUMBERS = simple(r"[0-9]++")
_LONGEST = 80


def with_test(output: Output, failure: Failure | None) -> Failure | None:
    """Return the failure with the last test above it, or else the first below, as its place."""
    if Sign.TEST not in output.signs or failure is None or not _COUNTED.search(output.text):
        return failure
    found = [*_NAMES.finditer(output.text)]
    if not found:
        return failure
    end = len(b"\n".join(output.text.split(b"\n")[: failure.line + 1]))
    above = [*takewhile(lambda match: match.start() < end, found)]
    match = above[-1] if above else found[0]
    name = b" ".join(next(filter(None, match.groups())).split())
    name = _NUMBERS.sub(b"#", name.removesuffix(b":"))
    return failure if name in failure.text else replace(failure, place=name[-_LONGEST:])
