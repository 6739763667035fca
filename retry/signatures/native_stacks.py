"""Native stacks that a program prints when a signal ends it: where it was in its own code."""

from dataclasses import replace

from retry.signatures.engine import compiled, simple
from retry.signatures.lines import Output
from retry.signatures.signs import NATIVE, Sign
from retry.signatures.tracebacks import Failure

_MOST_LINES = 60
"""Lines below a head in which a frame may stand, at most."""
_NAMES_SIGNAL = compiled(
    r"\bSIG[A-Z]{3,6}\b|(?i:\bsignal\b|segmentation fault|floating[ -]point exception|bus error"
    r"|illegal instruction)|^(?:\S*: )*(?:line [0-9]+: )?\s*(?:[0-9]+ )?Aborted\b"
)
_FRAMES = (
    # gfortran and gdb: `#1  0x5e589a in solve`.
    simple(r"\s*+#[0-9]++\s++0x[0-9a-fA-F]++ in (\S++)"),
    # glibc, as Open MPI prints it: `[ 1] ./program(solve+0x1d2)[0x55ab13320a7f]`.
    simple(r"(?:\[[^\]\s]++\] )?+\[ *+[0-9]++\] [^\s(]*+\(([^()+]++)\+0x"),
    # OpenFOAM: `#3  Solver::scale(Field&) const at ??:?`.
    simple(r"\s*+#[0-9]++\s++([A-Za-z_~][^(\n]*+)\("),
)
_LIBRARY = compiled(
    r"[/\s\"](?:libc|libpthread|libm|libstdc\+\+|libgcc_s|ld-linux[\w-]*)(?:-[0-9.]+)?\.so\b"
)
# What prints the stack, and what the system runs between the signal and the program.
_NOT_OWN = compiled(
    r"(?i)^\?|sig\w*_?handler|print_?stack|back_?trace|restore_rt|libc_start|^_*start$"
    r"|^(?:__gi_)?(?:raise|abort|gsignal|kill)\b|^_*pthread_|^__assert|^_gfortran"
    # What throws in C++, and what ends the program if nothing catches it.
    r"|^__cxa_|^__cxxabi|^__gnu_cxx|^_ZN(?:9__gnu_cxx|10__cxxabiv1)|^_ZSt|^std::(?:__throw|term)"
)
_UNCAUGHT = b"terminate called "


def with_native_place(output: Output, failure: Failure | None) -> Failure | None:
    """Return the failure with the place of the last native stack, if it tells of a signal."""
    if Sign.NATIVE not in output.signs or failure is None or failure.place:
        return failure
    if _NAMES_SIGNAL.search(failure.text) is None and not _is_uncaught(output, failure):
        return failure
    return replace(failure, place=_last_place(output))


def _is_uncaught(output: Output, failure: Failure) -> bool:
    """Return whether a failure is an exception of C++ that nothing caught: SIGABRT follows."""
    return failure.line >= 0 and output.lines[failure.line].startswith(_UNCAUGHT)


def _last_place(output: Output) -> bytes:
    """Return the innermost own function of the last stack."""
    head = 0
    for head_found in NATIVE.finditer(output.text):
        head = head_found.start()
    below = output.text[head:].split(b"\n", _MOST_LINES)[:_MOST_LINES]
    return next(filter(None, map(_function, below)), b"")


def _function(line: bytes) -> bytes:
    """Return the function of a frame that is the program's own; nothing for any other line."""
    found = (match for frame in _FRAMES if (match := frame.match(line)))
    match = next(found, None)
    if match is None or _LIBRARY.search(line) is not None:
        return b""
    function = match.group(1).strip()
    return b"" if _NOT_OWN.search(function) is not None else function
