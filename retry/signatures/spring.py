"""Spring Boot: why an application did not start, which stands below a line that tells nothing."""

from itertools import takewhile

from retry.signatures.lines import Output
from retry.signatures.tracebacks import Failure

_HEAD = b"APPLICATION FAILED TO START"
_START = b"Description:"
_END = b"Action:"
_MOST = 12
"""Lines of a description at most."""


def spring_error(output: Output) -> Failure | None:
    """Return the description that Spring Boot gives of the last failure to start."""
    if _HEAD not in output.text:
        return None
    head = output.with_text(_HEAD)[-1]
    below = output.lines[head : head + _MOST]
    if _START not in below:
        return None
    start = below.index(_START) + 1
    described = takewhile(lambda line: line != _END, below[start:])
    said = b" ".join(line.strip() for line in described if line)
    return Failure(said, b"", head) if said else None
