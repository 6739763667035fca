"""Row locks on executors and what is read of leases under them."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from scheduler.models import Executor


class HeldLease(NamedTuple):
    """A lease as it stands."""

    session_id: UUID
    fencing_token: int
    accepted: bool
    lost_at: datetime | None
    cancelled: bool
    """Somebody has asked for the end of its chain."""


def lock_executor(name: str) -> Executor | None:
    """Lock an executor's row: its lease rounds happen one after the other."""
    return Executor.objects.select_for_update(of=("self",), no_key=True).filter(name=name).first()


_LEASES = """
    SELECT l.session_id, l.fencing_token, l.accepted, l.lost_at, r.cancel_requested_at IS NOT NULL
    FROM scheduler_lease l JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE l.executor_id = %s AND s.fencing_token = l.fencing_token AND s.phase = 'live'
"""


def leases_of(executor_id: int) -> list[HeldLease]:
    """The leases that an executor holds and that count."""
    with connection.cursor() as cursor:
        cursor.execute(_LEASES, [executor_id])
        return [HeldLease._make(row) for row in cursor.fetchall()]


def next_fencing_tokens(count: int) -> list[int]:
    """Fresh tokens, growing; a token is never given twice."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval('scheduler_fencing_token') FROM generate_series(1, %s)", [count]
        )
        return [row[0] for row in cursor.fetchall()]
