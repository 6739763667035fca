"""Gradle: what went wrong in a build, or the error above it if that is told there."""

from itertools import takewhile

from retry.signatures.engine import compiled, simple
from retry.signatures.error_lines import error_line
from retry.signatures.lines import Output
from retry.signatures.tracebacks import Failure

_HEAD = b"* What went wrong:"
_STARTS = b"FAILURE: Build "
_INNER = simple(r"\s*+> (.*)$")
# What only says that a task failed; the output of the task tells why.
_ABOVE = compiled(
    r"(?i)\bsee (?:the|log)\b|^A failure occurred while executing|finished with non-zero exit value"
    r"|^There were failing tests"
)
_TEST = simple(r"(\S.* > .*) FAILED$")
_OF_GRADLE = compiled(r"^> Task |^[0-9]+ tests? completed|^[0-9]+ (?:errors?|warnings?)$")


def gradle_error(output: Output) -> Failure | None:
    """Return what went wrong with its innermost reason, or the error in the output of the task."""
    if _HEAD not in output.text:
        return None
    lines = output.lines
    at = output.with_text(_HEAD)[-1]
    block = [*takewhile(bool, lines[at + 1 :])]
    head = block[0].strip() if block else b""
    inner = [match.group(1) for line in block[1:] if (match := _INNER.match(line))]
    reason = inner[-1] if inner else b""
    above = _error_above(output) if _ABOVE.search(reason) else None
    text = b" > ".join(filter(None, (head, reason)))
    return above or (Failure(text, b"", at + 1) if text else None)


def _error_above(output: Output) -> Failure | None:
    """Return the last test that failed, or the last error, before Gradle tells the failure."""
    before = output.text.partition(_STARTS)[0]
    lines = [line for line in before.split(b"\n") if not _OF_GRADLE.search(line)]
    for at in range(len(lines) - 1, -1, -1):
        if match := _TEST.match(lines[at]):
            said = b"".join(lines[at + 1 : at + 2]).strip()
            return Failure(match.group(1) + b" FAILED: " + said, b"", at)
    return error_line(Output(b"\n".join(lines)), ())
