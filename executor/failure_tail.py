"""The end of the output of what failed, from which the server takes the failure's signature.

A runtime may print a dump of its threads that is far longer than that. What failed then stands at
the head of the dump, so a part of the tail makes room for it.
"""

from collections.abc import Callable

from base.runlines.dumps import start_of
from executor.runs import RunFiles

TAIL_BYTES = 16 * 1024
HEAD_BYTES = 4 * 1024
"""What is sent of the head of a dump: half of it stands before the first frame."""
DUMP_BYTES = 4 * 1024 * 1024
"""The head of a longer dump is not found."""
_FIRST_LOOK = 64 * 1024
_GROWTH = 8
SEARCHED_BYTES = 64 * 1024 * 1024
"""The output of several ranks is searched for the failed one this far from its end."""
BLOCK_BYTES = 1024 * 1024


def failure_tail(files: RunFiles, rank: int | None = None) -> str:
    """Return the last 16 KiB of the output; of several ranks', that of this one.

    If they are the end of a longer dump, its head takes the place of the first 4 KiB. Return "" if
    nothing was written, or if the rank's output is not near the end.
    """
    begin, end = 0, files.output_size()
    if rank is not None:
        begin, end = _place_of_rank(files, rank, end)
    return _text_of(lambda at, size: files.read_output(begin + at, size), end - begin)


def text_of(output: bytes) -> str:
    """Return the same of an output of which these bytes are the end."""
    return _text_of(lambda at, size: output[at : at + size], len(output))


def goes_on_before(output: bytes) -> bool:
    """Return whether an output of which these bytes are the end has a dump at their beginning."""
    found = start_of(output[:-TAIL_BYTES], output[-TAIL_BYTES:])
    return found is not None and not found.sure


def _text_of(read: Callable[[int, int], bytes], size: int) -> str:
    """Return the text; `read` gives the bytes of the output from a place on, so many at most."""
    begin = max(0, size - TAIL_BYTES)
    tail = read(begin, size - begin)
    head = _head(read, begin, tail) if begin else b""
    if head:
        tail = head + b"\n" + tail[len(head) + 1 :].partition(b"\n")[2]
    # What was freed to save room reads as zeros.
    return tail.lstrip(b"\0").decode("utf-8", "replace")


def _head(read: Callable[[int, int], bytes], end: int, tail: bytes) -> bytes:
    """Return the head of the dump that goes on in the tail, with what stands just before it."""
    size = _FIRST_LOOK
    while True:
        begin = max(0, end - size)
        before = read(begin, end - begin)
        found = start_of(before, tail)
        if found is None:
            return b""
        if found.sure or begin == 0 or size >= DUMP_BYTES:
            break
        size *= _GROWTH
    half = HEAD_BYTES // 2
    # Only whole lines.
    start = before.find(b"\n", found.at - half, found.at) + 1 if found.at > half else 0
    return before[start : found.at + half].lstrip(b"\0").rpartition(b"\n")[0]


def _place_of_rank(files: RunFiles, rank: int, size: int) -> tuple[int, int]:
    """Return where the rank's output begins and ends; twice 0 if it is not near the end.

    The beginning is 0, too, if it is more than 16 KiB before the end.
    """
    first = max(0, size - SEARCHED_BYTES)
    mark, next_rank = heading(rank), _last(files, heading(rank + 1), first, size)
    end = size if next_rank is None else next_rank
    near = first if next_rank is None else max(0, end - TAIL_BYTES - len(mark))
    begin = _last(files, mark, near, end)
    if begin is not None:
        return begin + len(mark), end
    known = next_rank is not None or (rank == 0 and first == 0)
    return 0, end if known else 0


def _last(files: RunFiles, mark: bytes, first: int, end: int) -> int | None:
    """Return where the mark stands for the last time between these two places, or None."""
    while end > first:
        begin = max(first, end - BLOCK_BYTES)
        found = files.read_output(begin, end - begin).rfind(mark)
        if found >= 0:
            return begin + found
        # The mark may lie across the beginning of this block.
        end = begin + len(mark) - 1 if begin > first else first
    return None


def heading(rank: int) -> bytes:
    """Return the line that stands before the output of a rank but the first."""
    return f"\n==== rank {rank} ====\n".encode()
