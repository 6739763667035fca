"""Advisory locks, and the clock of the database."""

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
    """Used with the hash of a policy's name, in any scope."""
    RETRY_SLOTS = 0x5245_0004
    QUEUE_USAGE = 0x5245_0005
    WEBHOOKS = 0x5245_0006
    FAILURES = 0x5245_0008
    NODES = 0x5245_0009
    BREAKERS = 0x5245_000A
    BUDGETS = 0x5245_000B
    PREEMPTION = 0x5245_000C
    RESERVATIONS = 0x5245_000D
    BUDGET_CHARGES = 0x5245_000E
    """Also taken by the commits that charge budgets. Some share it, and take it with the number of
    a part: `migrations/sql/retries.sql`."""
    SERVER = 0x5245_0007
    """Held while a database is made safe after it moved to another server."""
    SWEEP_RETRIES = 0x5245_0010
    """Held by a beat while it runs a batch of this sweep itself; the next three likewise."""
    SWEEP_LEASES = 0x5245_0011
    SWEEP_STARTS = 0x5245_0012
    SWEEP_FAILURES = 0x5245_0013
    WEBHOOKS_OF_PROJECT = 0x5245_0020
    """Used with the hash of the project to which a webhook is added."""


@contextmanager
def hold_if_free(key: AdvisoryLock) -> Iterator[bool]:
    """Hold a lock of this connection across transactions; yield False if another one holds it.

    The lock ends with the connection, so a process that dies leaves none behind.
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
        # The connection is broken; its lock ended with it.
        connection.close()


def lock_slots() -> None:
    """Lock the slots of the storm limits until this transaction ends.

    One lock for all: whoever looks for a free minute must see every slot that was given before.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.RETRY_SLOTS])


def lock_webhooks() -> None:
    """Lock the outbox of webhooks until this transaction ends.

    One lock for all: whoever queues an event behind those of its session must see whether one still
    waits, and whoever counts deliveries on their way to a host must see all of them.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.WEBHOOKS])


def lock_failures() -> None:
    """Lock the figures of failures until this transaction ends.

    One lock for all: whoever counts a stretch of the log moves the position behind it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.FAILURES])


def lock_breakers() -> None:
    """Lock the breakers and what opens them until this transaction ends.

    One lock for all: whoever opens, closes or probes one sees what the others have done.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.BREAKERS])


def lock_budgets() -> None:
    """Lock the verdicts about shared budgets until this transaction ends.

    One lock for all: whoever counts a stretch of the log moves the position behind it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.BUDGETS])


def lock_charges() -> None:
    """Lock the counts of shared budgets until this transaction ends, behind all other locks.

    Commits that charge them wait for it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.BUDGET_CHARGES])


def lock_webhooks_of(project_id: int) -> None:
    """Lock the webhooks of a project against other additions: the caller counts them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashint8(%s))",
            [AdvisoryLock.WEBHOOKS_OF_PROJECT, project_id],
        )


def lock_policy_name(name: str) -> None:
    """Lock a policy's name, in any scope, while a policy is created or brought back."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [AdvisoryLock.POLICY_NAME, name]
        )


def database_now() -> datetime:
    """Return the clock of the database at this statement, by which all deadlines are judged."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row: tuple[datetime] = cursor.fetchone()
    return row[0]
