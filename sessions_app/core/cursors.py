"""Places in the log, in the order in which it became visible to readers. Pure."""

import re
from typing import NamedTuple

_WRITTEN = re.compile(r"(\d{1,19})-(\d{1,20})-(\d{1,19})", re.ASCII)
_BIGINT = 2**63
_XID8 = 2**64


class Cursor(NamedTuple):
    """An event's place: the life of the database, the transaction that wrote it, its id.

    Cursors compare as readers get the events: one that was read is never behind one that comes.
    """

    epoch: int
    xid: int
    id: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.xid}-{self.id}"


START = Cursor(0, 0, 0)
"""Before all events."""


def parse_cursor(text: str) -> Cursor:
    """A cursor as `str` writes it; raises `ValueError`."""
    found = _WRITTEN.fullmatch(text)
    cursor = Cursor(*map(int, found.groups())) if found else None
    if cursor is None or max(cursor.epoch, cursor.id) >= _BIGINT or cursor.xid >= _XID8:
        raise ValueError("must be the cursor of an event, such as 1893456000-7351-88")
    return cursor
