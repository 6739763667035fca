"""Limits on the tasks that send webhooks at once, and the time of the next run."""

from typing import NamedTuple
from uuid import UUID, uuid4

from django.db import connection

SENDER_SECONDS = 60
"""Seconds after which a silent task counts as ended: longer than any task takes."""
LOOK_AGAIN_SECONDS = 1.0
"""Seconds until the next look for events that an older transaction may still precede."""

_BEGIN = """
    INSERT INTO sessions_app_webhooksender AS s (number, token, until)
    SELECT n, %(token)s, statement_timestamp() + make_interval(secs => %(seconds)s)
    FROM generate_series(1, %(most)s) AS n
    WHERE NOT EXISTS (SELECT FROM sessions_app_webhooksender
        WHERE number = n AND until > statement_timestamp())
    ORDER BY n LIMIT 1
    ON CONFLICT (number) DO UPDATE SET token = excluded.token, until = excluded.until
    WHERE s.until <= statement_timestamp()
    RETURNING number
"""
_DUE = """
    SELECT extract(epoch FROM min(h.due_at) - clock_timestamp())::float8, EXISTS (
            SELECT FROM sessions_app_sessionevent WHERE epoch = reprise_epoch()
            AND xid >= pg_snapshot_xmin(pg_current_snapshot()))
    FROM sessions_app_webhookendpoint w CROSS JOIN LATERAL (
        SELECT due_at FROM sessions_app_webhookdelivery
        WHERE endpoint_id = w.id AND due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS h
    WHERE w.paused_at IS NULL
"""


class Sender(NamedTuple):
    """The right to send for `SENDER_SECONDS`."""

    number: int
    token: UUID


def sender_begin(most: int) -> Sender | None:
    """Become one of at most `most` senders. Return None if there are enough."""
    token = uuid4()
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN, {"token": token, "seconds": SENDER_SECONDS, "most": most})
        row = cursor.fetchone()
    return None if row is None else Sender(row[0], token)


def sender_end(sender: Sender) -> None:
    """Give the right to send back."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM sessions_app_webhooksender WHERE number = %s AND token = %s", sender
        )


def webhooks_due_in() -> float | None:
    """Return the seconds until a delivery is due or an event readable; None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE)
        seconds, unsent = cursor.fetchone()
    if unsent:
        return LOOK_AGAIN_SECONDS if seconds is None else min(seconds, LOOK_AGAIN_SECONDS)
    return None if seconds is None else float(seconds)
