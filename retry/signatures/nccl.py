"""NCCL: its warnings tell what failed; the aborts that follow from it do not."""

from retry.signatures.engine import compiled
from retry.signatures.tracebacks import Failure

_WARNING = b"NCCL WARN "
_FOLLOWS = compiled(
    r"(?i)\bnccl.*\b(?:abort|unhandled|internal error|invalid usage|remote process|system error"
    r"|watchdog)|\bWatchdog caught collective"
)
# What a rank says of another one that is gone, or says once more.
_OF_OTHERS = compiled(
    r"^\[(?:Proxy )?Service|closed by remote peer|while polling for|^Proxy Call to rank"
    r"|^Could not receive type|^\[Rem Allocator\]"
)


def with_warning(output: bytes, failure: Failure | None) -> Failure | None:
    """Return the last warning of NCCL if the failure only follows from one, else the failure."""
    if failure is None or _WARNING not in output or not _FOLLOWS.search(failure.text):
        return failure
    lines = output.split(b"\n")
    said = [line.partition(_WARNING)[2].strip() for line in lines if _WARNING in line]
    own = [text for text in said if not _OF_OTHERS.search(text)]
    return Failure(_WARNING + own[-1]) if own else failure
