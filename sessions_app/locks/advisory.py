"""Locks that are no row's, and the clock by which they all judge."""

from datetime import datetime
from enum import IntEnum

from django.db import connection


class AdvisoryLock(IntEnum):
    """Keys of advisory locks; one number space for the whole database."""

    BEAT = 0x5245_0001
    MIGRATE = 0x5245_0002
    POLICY_NAME = 0x5245_0003
    """With the hash of the name that a policy is made under, wherever that is."""
    RETRY_SLOTS = 0x5245_0004
    QUEUE_USAGE = 0x5245_0005
    WEBHOOKS = 0x5245_0006


def lock_slots() -> None:
    """Let no other transaction give or take slots of the storm limits until this one has ended.

    One lock for all: who looks for a free minute must see every slot that was given before.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.RETRY_SLOTS])


def lock_webhooks() -> None:
    """Let no other transaction move the outbox of webhooks until this one has ended.

    One lock for all: who puts an event behind those of its session that wait must see whether one
    still does, and who counts what is on its way to a host must see all of it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.WEBHOOKS])


def lock_policy_name(name: str) -> None:
    """Let only this transaction make or bring back policies of a name, in any scope."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [AdvisoryLock.POLICY_NAME, name]
        )


def database_now() -> datetime:
    """The clock of the database at this statement: the one that deadlines are judged by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row: tuple[datetime] = cursor.fetchone()
    return row[0]
