"""Locks that are no row's, and the clock by which they all judge."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum

from django.db import Error, connection


class AdvisoryLock(IntEnum):
    """Keys of advisory locks; one number space for the whole database."""

    BEAT = 0x5245_0001
    MIGRATE = 0x5245_0002
    POLICY_NAME = 0x5245_0003
    """With the hash of the name that a policy is made under, wherever that is."""
    RETRY_SLOTS = 0x5245_0004
    QUEUE_USAGE = 0x5245_0005
    WEBHOOKS = 0x5245_0006
    SERVER = 0x5245_0007
    """Held while a database is made safe that is on another server than before."""
    SWEEP_RETRIES = 0x5245_0010
    """Held by a beat while it runs a batch of this sweep itself; so are the next two."""
    SWEEP_LEASES = 0x5245_0011
    SWEEP_STARTS = 0x5245_0012
    WEBHOOKS_OF_PROJECT = 0x5245_0020
    """With the hash of the project to which a webhook is added."""


@contextmanager
def hold_if_free(key: AdvisoryLock) -> Iterator[bool]:
    """Hold a lock of this connection, whatever transactions begin and end; False: another has it.

    It is gone with the connection, so that nobody has to clear up after a process that died.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key.value])
        taken: bool = cursor.fetchone()[0]
    try:
        yield taken
    finally:
        if taken:
            _unlock(key)


def _unlock(key: AdvisoryLock) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [key.value])
    except Error:
        # The connection is broken: its lock went with it.
        connection.close()


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


def lock_webhooks_of(project_id: int) -> None:
    """Let only this transaction add webhooks to a project: it counts those that are there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashint8(%s))",
            [AdvisoryLock.WEBHOOKS_OF_PROJECT, project_id],
        )


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
