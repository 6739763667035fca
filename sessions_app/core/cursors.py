"""Cursors: positions in the log, in the order in which events became visible. Pure."""

import re
from typing import NamedTuple

_WRITTEN = re.compile(r"(\d{1,19})-(\d{1,20})-(\d{1,19})", re.ASCII)
_BIGINT = 2**63
_XID8 = 2**64


class Cursor(NamedTuple):
    """The position of an event: the epoch of the database, the writing transaction, the event's id.

    Cursors compare in the order in which readers get the events: one that was read is always before
    one that comes.
    """

    epoch: int
    xid: int
    id: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.xid}-{self.id}"


START = Cursor(0, 0, 0)
"""The position before all events."""


def parse_cursor(text: str) -> Cursor:
    """Return the cursor that `str` wrote. Raises `ValueError`."""
    found = _WRITTEN.fullmatch(text)
    cursor = Cursor(*map(int, found.groups())) if found else None
    if cursor is None or max(cursor.epoch, cursor.id) >= _BIGINT or cursor.xid >= _XID8:
        raise ValueError("must be the cursor of an event, such as 1893456000-7351-88")
    return cursor
