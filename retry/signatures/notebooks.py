"""Tracebacks as IPython prints them: in notebooks, and in what runs them."""

from retry.signatures.engine import simple

# `KeyError       Traceback (most recent call last)`: the head is filled up with spaces.
_NAME = simple(r"([A-Za-z_][\w.]*+) {2,}+$")
_CELL = simple(r"(?:Cell |Input )In ?+\[[^\]]*+\](?:, line [0-9]++)?+(?:, in ([^(]++)\(?)?+")
_FILE = simple(r"File ((?:[A-Za-z]:(?=[\\/]))?+[^:]++):[0-9]++(?:, in ([^(]++)\(?)?+")
# Those of IPython before version 8.
_OLD_CELL = simple(r"<ipython-input-[^>]*+> in ([^(]++)(?:\(|$)")
_OLD_FILE = simple(r"([/~][^\s:]*+) in ([^(]++)\(")
_CODE = b"<module>"
# A cell is told without its number, which changes with each one that is put in before it.
_NO_FILE = b"cell"


def name_before(head: bytes) -> bytes:
    """Return the name of an exception in what stands before `Traceback`, or nothing."""
    match = _NAME.match(head)
    return match.group(1) if match is not None else b""


def frame_of_notebook(line: bytes) -> bytes:
    """Return a frame in the form that Python itself gives it, or nothing for any other line."""
    if match := _CELL.match(line) or _OLD_CELL.match(line):
        return _frame(_NO_FILE, match.group(1))
    if match := _FILE.match(line) or _OLD_FILE.match(line):
        return _frame(*match.groups())
    return b""


def _frame(path: bytes, function: bytes | None) -> bytes:
    # In a cell, older ones say `<cell line: 3>` for what stands in no function.
    if function is None or function.startswith(b"<"):
        function = _CODE
    return b'File "%b", line 1, in %b' % (path, function.strip())
