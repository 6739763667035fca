"""The end of the output of what failed, from which the server takes the failure's signature."""

from executor.runs import RunFiles

TAIL_BYTES = 16 * 1024
SEARCHED_BYTES = 64 * 1024 * 1024
"""The output of several ranks is searched for the failed one this far from its end."""
BLOCK_BYTES = 1024 * 1024


def failure_tail(files: RunFiles, rank: int | None = None) -> str:
    """Return the last 16 KiB of the output; of several ranks', that of this one.

    Return "" if nothing was written, or if the rank's output is not near the end.
    """
    begin, end = 0, files.output_size()
    if rank is not None:
        begin, end = _place_of_rank(files, rank, end)
    begin = max(begin, end - TAIL_BYTES)
    return text_of(files.read_output(begin, end - begin))


def text_of(tail: bytes) -> str:
    """Return the last 16 KiB of these bytes as text."""
    # What was freed to save room reads as zeros.
    return tail[-TAIL_BYTES:].lstrip(b"\0").decode("utf-8", "replace")


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
