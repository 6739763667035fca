"""Statements that migrations run slice by slice, beside calls."""

import time
from typing import Any

from django.db import transaction

PAUSE_SECONDS = 0.1
FIRST = "00000000-0000-0000-0000-000000000000"


def run_all(cursor: Any, statement: str, left: str, size: int) -> None:
    """Run a statement over all rows, pass by pass, until the query `left` says that none is left.

    A pass leaves out rows that somebody else changes at that moment.
    """
    while True:
        run_once(cursor, statement, size)
        cursor.execute(left)
        if cursor.fetchone() == (False,):
            return
        time.sleep(PAUSE_SECONDS)


def run_once(cursor: Any, statement: str, size: int) -> None:
    """Run a statement once over all rows, each `size` of them in a transaction.

    Its parameters are an id and `size`; it returns the last id of its slice, if there is one.
    """
    last: str | None = FIRST
    while last is not None:
        with transaction.atomic(using=cursor.db.alias):
            cursor.execute(statement, [last, size])
            found = cursor.fetchone()
        last = found and found[0]
