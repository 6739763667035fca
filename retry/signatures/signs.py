"""Signs: what an output holds, found by one search, so that most of it is not looked at again."""

from enum import IntEnum

from retry.signatures.engine import SearchSet, compiled, simple
from retry.signatures.progress_bars import GLUED

TIME = (
    r"\[?(?:[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ]|[0-9]{2}/[0-9]{2}/[0-9]{2} )"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]++)?(?:Z|[+-][0-9]{2}:?[0-9]{2}| UTC)?\]?:?[ \t]"
)
# What launchers and runtimes put before lines.
LABEL = (
    rf"{TIME}(?:std(?:err|out) [FP] )?"
    r"|\[(?:rank|default|Rank |default_rank)[0-9]++\]:? ?"  # torchrun
    r"|\[[0-9]++(?:,[0-9]++)?\]<std(?:err|out)>:? ?"  # mpirun --tag-output, Horovod
    r"|\[[0-9]++\] "  # mpiexec -prepend-rank
    # srun --label; three spaces stand before the causes of Rust, and addresses in frames of Node.
    r"|(?: {1,2})?+[0-9]++: (?!0x)"
    r"|\((?:[\w.:<>]++ )?pid=[0-9]++[^)\n]*+\) "  # Ray
    r"|\[[^\]\n(]*+\(pid [0-9]++\)\] "  # Metaflow
    r"|(?:STDERR|STDOUT|stderr|stdout|SUBPROCESS)(?: \||:) "
    r"|[\w.-]++ ++\| "  # Compose
    r"|E   (?:    )?"  # pytest
    r"|#[0-9]++ [0-9]++\.[0-9]++ "  # docker build
)
# RE2 reads the whole at once, needs no possessive repetitions, and does not look ahead.
_ANY_LABEL = LABEL.replace("(?!0x)", "").replace("++", "+").replace("*+", "*").replace("?+", "?")

_GPU = (
    r"RuntimeError:|OutOfMemoryError:|(?i:\bcuda (?:error|out of memory|driver|failure|runtime))"
    r"|\bcudaError\w|\bCUDA_ERROR_|\bCUDNN_STATUS_|\bCUBLAS_STATUS_|\bhipError|\bHIP error"
    r"|\bNCCL WARN\b|\bNCCL error\b|\bnccl\w*Error\b|Watchdog caught collective|\bNVRM: Xid\b"
)
GPU = compiled(_GPU)
# Heads of native stacks; OpenFOAM's handler of a signal is in the stack itself.
_NATIVE = (
    r"Backtrace for this error:|\*\*\* Process received signal \*\*\*|\] Signal: "
    r"|Program received signal|::sigHandler\("
)
NATIVE = compiled(_NATIVE)


class Sign(IntEnum):
    """The kinds of text that an output may hold."""

    TERMINAL = 0
    CONTROL = 1
    LABEL = 2
    OWN = 3
    SPACES = 4
    FRAME = 5
    STACK = 6
    NPM = 7
    GPU = 8
    NATIVE = 9
    GLUED = 10
    PLACE = 11
    TEST = 12


_PATTERNS = {
    Sign.TERMINAL: r"\x1b",
    Sign.CONTROL: r"[\x00-\x08\x0b-\x1f\x7f]",
    Sign.LABEL: rf"(?m)^(?:{_ANY_LABEL})",
    Sign.OWN: r"(?m)^\s*::reprise::",
    Sign.SPACES: r"(?m)[ \t]$",
    Sign.FRAME: r"File \"",
    Sign.STACK: r"(?m)^[ \t]*at |goroutine |panicked at |terminate called |Fatal Python error: "
    r"|detected by the Java Runtime Environment|CallStack \(from HasCallStack\)",
    Sign.NPM: r"npm ",
    Sign.GPU: _GPU,
    Sign.NATIVE: _NATIVE,
    Sign.GLUED: GLUED,
    # Heads and frames of stacks of Julia, MATLAB, Octave, Intel's Fortran and Elixir, and Nextflow.
    Sign.PLACE: r"Stacktrace:|Error in \S+ \(line |Routine +Line +Source|\.exs?:[0-9]+: "
    r"|Error executing process > '|error: called from",
    # Tests that failed, one by one or in a numbered list.
    Sign.TEST: r"(?m)^[ \t]*(?:\xe2\x97\x8f |\[  FAILED|FAIL +\S|not ok [0-9]|# +Failed test '"
    r"|[0-9]{1,3}\) |Test Case ')|\[(?:FAIL|<? ?[0-9]+ m?s)\]$| FAILED(?: \*\*\*)?$",
}
_FRAME = simple(r"\n[ \t]*+at ")
_SET = SearchSet([_PATTERNS[sign] for sign in Sign])


def signs_in(text: bytes) -> frozenset[int]:
    """Return the signs that a text has."""
    return frozenset(_SET.found(text))


def signs_without_labels(text: bytes, before: frozenset[int]) -> frozenset[int]:
    """Return the signs of a text from those that it had with labels before its lines.

    Only what stands at the start of a line can be new, so that nothing else is looked for again.
    """
    own = {Sign.OWN} if b"::reprise::" in text else set()
    stack = {Sign.STACK} if _FRAME.search(b"\n" + text) else set()
    return before | own | stack
