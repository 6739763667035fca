"""The end of the output of what failed, from which the server takes the failure's signature."""

from executor.runs import RunFiles

TAIL_BYTES = 16 * 1024
SEARCHED_BYTES = 1024 * 1024
"""The output of several ranks is searched for the failed one this far from its end."""


def failure_tail(files: RunFiles, rank: int | None = None) -> str:
    """Return the last 16 KiB of the output; of several ranks', that of this one.

    Return "" if nothing was written, or if the rank's output is not near the end.
    """
    size = files.output_size()
    searched = TAIL_BYTES if rank is None else SEARCHED_BYTES
    data = files.read_output(max(0, size - searched), searched)
    if rank is not None:
        data = _of_rank(data, rank, whole=size <= searched)
    # What was freed to save room reads as zeros.
    return data[-TAIL_BYTES:].lstrip(b"\0").decode("utf-8", "replace")


def _of_rank(data: bytes, rank: int, *, whole: bool) -> bytes:
    """Return the rank's part; `whole` says that the data begins with the output of rank 0."""
    begin, end = data.rfind(heading(rank)), data.find(heading(rank + 1))
    if begin < 0 and end < 0 and not (whole and rank == 0):
        return b""
    return data[max(begin, 0) : end if end >= 0 else len(data)]


def heading(rank: int) -> bytes:
    """Return the line that stands before the output of a rank but the first."""
    return f"\n==== rank {rank} ====\n".encode()
