"""Where it failed, as some languages tell it below an error that is a line like any other."""

from collections.abc import Sequence
from dataclasses import replace

from retry.signatures.engine import compiled, simple
from retry.signatures.lines import Output
from retry.signatures.signs import Sign
from retry.signatures.tracebacks import Failure, module_of

_MOST_LINES = 60
"""Lines below an error in which its stack may stand, at most."""
# Julia, in one line or two: `[3] solve(x::Int64)`, `@ Model /src/solve.jl:7`.
_FUNCTION = simple(r"\s*+\[ *+[0-9]++\] ([^(\s]++)")
_FILE = compiled(r"^\s*(?:@ (?:\S+ )?|\[ *[0-9]+\] .* at )(\S+\.jl):[0-9]+")
_NOT_OWN = compiled(r"^\./|/\.julia/packages/|/share/julia/")
# Nextflow tells the process first, and the output of its command below.
_PROCESS = compiled(r"Error executing process > '([\w:]+)")
_OTHERS = (
    # Elixir: `(app 1.0.0) lib/app/load.ex:7: App.Load.row/2`.
    simple(r"\s++(?:\((?!elixir |ex_unit )[^)]++\) )?+[\w/-]++\.exs?:[0-9]++: (\S++(?: in \S++)?)"),
    # MATLAB: `Error in assemble (line 7)`.
    simple(r"Error in (\S++) \(line [0-9]++\)"),
    # Octave: `    assemble at line 7 column 3`.
    simple(r"\s++(\S++) at line [0-9]++ column [0-9]++$"),
    # Fortran of Intel, in columns: image, counter, routine, line, source.
    simple(r"\S++ ++[0-9A-Fa-f]{8,16} ++(\w++) ++[0-9]++ ++\S"),
)


def with_place(output: Output, failure: Failure | None) -> Failure | None:
    """Return the failure with the step of a pipeline, or the innermost own place below it."""
    if Sign.PLACE not in output.signs or failure is None or failure.place or failure.line < 0:
        return failure
    process = _PROCESS.search(output.text)
    if process is not None and process.group(1) not in failure.text:
        return replace(failure, place=bytes(process.group(1)))
    below = output.lines[failure.line + 1 :][:_MOST_LINES]
    places = (_place(below, at) for at in range(len(below)))
    return replace(failure, place=next(filter(None, places), b""))


def _place(lines: Sequence[bytes], at: int) -> bytes:
    """Return the place that a line tells, with that before it; nothing for any other line."""
    line = lines[at]
    for frame in _OTHERS:
        if match := frame.match(line):
            return match.group(1)
    found = _FILE.search(line) if b".jl:" in line else None
    if found is None or _NOT_OWN.search(found.group(1)) is not None:
        return b""
    function = _FUNCTION.match(line) or (_FUNCTION.match(lines[at - 1]) if at else None)
    return module_of(bytes(found.group(1))) + (b":" + function.group(1) if function else b"")
